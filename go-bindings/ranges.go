package rangekeeper

import (
	"strings"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// RangesOutcome is what the ranges that a cluster names, and the values that its Services use, say together.
type RangesOutcome uint32

const (
	// RangesAgree: all ranges are the same, and not nearly all of the values lie outside.
	RangesAgree RangesOutcome = rk.RangesOutcomeAgree
	// RangesDecided: the ranges differ, and nearly all values lie in those that are not wrong.
	RangesDecided RangesOutcome = rk.RangesOutcomeDecided
	// RangesHarmless: the ranges differ, and nearly all values lie in each of them, as after a range was widened.
	RangesHarmless RangesOutcome = rk.RangesOutcomeHarmless
	// RangesUndecided: nearly all values lie outside of the only range, or no range has nearly all of them.
	RangesUndecided RangesOutcome = rk.RangesOutcomeUndecided
)

// RangesVerdict is the judgement on the ranges that a cluster names.
type RangesVerdict struct {
	// Outcome is what they say together.
	Outcome RangesOutcome
	// FlagIsWrong, ServiceCIDRIsWrong and BitmapIsWrong report whether the values show that.
	FlagIsWrong, ServiceCIDRIsWrong, BitmapIsWrong bool
	// Values is how many there are; InFlag, InServiceCIDR and InBitmap are how many of them lie in the ranges of each.
	Values, InFlag, InServiceCIDR, InBitmap uint64
}

// JudgeRanges judges by the values that Services use which of the ranges that a cluster names is the wrong one: those
// of the servers' flag (--service-cluster-ip-range or --service-node-port-range), of the ServiceCIDR object kubernetes,
// and of the stored bitmaps; empty if nothing is known or stored. Nearly all values are nine of ten. The error is a
// *ParseError, or ErrNotInRange for the zero Value.
func JudgeRanges(flag, serviceCIDR, bitmap []string, values []Value) (RangesVerdict, error) {
	var verdict rk.RangesVerdict
	var details rk.Error
	texts := [3]string{strings.Join(flag, ","), strings.Join(serviceCIDR, ","), strings.Join(bitmap, ",")}
	code := rk.RangesJudge(texts[0], texts[1], texts[2], valuesToC(values), &verdict, &details)
	if code == rk.ResultInvalidRange || code == rk.ResultInvalidUTF8 {
		return RangesVerdict{}, parseError(code, &details, strings.Join(texts[:], ","))
	}
	if code != rk.ResultOK {
		return RangesVerdict{}, detailedError(code, &details)
	}
	return RangesVerdict{
		Outcome: RangesOutcome(verdict.Outcome), FlagIsWrong: verdict.FlagIsWrong, ServiceCIDRIsWrong: verdict.ServiceCIDRIsWrong,
		BitmapIsWrong: verdict.BitmapIsWrong, Values: verdict.Values, InFlag: verdict.InFlag, InServiceCIDR: verdict.InServiceCIDR,
		InBitmap: verdict.InBitmap,
	}, nil
}
