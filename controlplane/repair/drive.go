package repair

import (
	"context"
	"errors"
	"fmt"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// Range is a stored range that passes are made over.
type Range interface {
	// Read reads the range for a pass, and says whether nothing was stored yet. Services are listed after that.
	Read(ctx context.Context, pass *rangekeeper.Pass) (missing bool, err error)
	// Repair writes what the pass found out about the range.
	Repair(ctx context.Context, found Found) (Repaired, error)
}

// Uncommitted is a Range that no committer keeps, so that its leak counters advance in every pass. Either all ranges of
// a pass are of this sort, or none is.
type Uncommitted interface {
	Range
	// Add adds the range to the audit of the pass, with what was read.
	Add(audit *rangekeeper.Audit) error
}

// Found is what a pass has found.
type Found struct {
	// Pass has ended its audit.
	Pass *rangekeeper.Pass
	// Report has the ranges in the order in which they were read.
	Report *rangekeeper.Report
	// Listed says when Services were listed.
	Listed rangekeeper.Listed
}

// Repaired is the outcome of a repair.
type Repaired struct {
	// Set and Cleared are the values that were recorded and freed, as texts.
	Set, Cleared []string
	// Changed is how many were left alone as they, or Services, had changed.
	Changed int
}

// RangeOutcome is the outcome of a pass for one range.
type RangeOutcome struct {
	Repaired
	// Missing says that nothing was stored before.
	Missing bool
}

// Drive makes one pass, step by step: it reads the ranges, has observe end the audit of the pass, and repairs the ranges
// that are in use. The outcomes are in the order of the ranges. If some repairs fail, the others are made all the same, and
// their outcomes come with the error; there are no outcomes if the pass failed before.
//
// observe is called when all ranges are read. It lists Services linearizably, shows them to an audit to which
// [rangekeeper.Pass.Audit] has added what was read, and returns what [rangekeeper.Pass.Finish] has returned; the caller
// closes that.
func Drive(ctx context.Context, passes *rangekeeper.Passes, ranges []Range, observe func(*rangekeeper.Pass) (*rangekeeper.Report, rangekeeper.Listed, error)) ([]RangeOutcome, error) {
	pass, err := passes.Start()
	if err != nil {
		return nil, err
	}
	defer pass.Close()
	outcomes := make([]RangeOutcome, len(ranges))
	for i, one := range ranges {
		if outcomes[i].Missing, err = one.Read(ctx, pass); err != nil {
			return nil, err
		}
	}
	found := Found{Pass: pass}
	if found.Report, found.Listed, err = observe(pass); err != nil {
		return nil, err
	}
	var failures []error
	for i, one := range ranges {
		counts, err := found.Report.Range(i)
		if err == nil && counts.Record != rangekeeper.RecordStale {
			outcomes[i].Repaired, err = one.Repair(ctx, found)
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	return outcomes, errors.Join(failures...)
}

// Stored is the range of a store.
func Stored[V rangekeeper.Value](store *etcdstore.Store[V]) Range { return storedRange[V]{store} }

type storedRange[V rangekeeper.Value] struct{ store *etcdstore.Store[V] }

func (s storedRange[V]) Read(ctx context.Context, pass *rangekeeper.Pass) (bool, error) {
	view, err := s.store.ReadForPass(ctx, pass)
	return !view.Initialised, err
}

func (s storedRange[V]) Repair(ctx context.Context, found Found) (Repaired, error) {
	repaired, err := s.store.Repair(ctx, found.Pass, found.Listed)
	return Repaired{Set: texts(repaired.Set), Cleared: texts(repaired.Cleared), Changed: repaired.Changed}, err
}

func texts[V rangekeeper.Value](values []V) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = fmt.Sprint(value)
	}
	return all
}
