package rangekeeper

import (
	"errors"
	"slices"
	"testing"
)

// TestJudgeRanges has a ServiceCIDR in which no Service is, and one that agrees with the flag.
func TestJudgeRanges(t *testing.T) {
	services := []Value{ip("172.30.0.1"), ip("172.30.7.9")}
	flag, wrong := []string{"172.30.0.0/16"}, []string{"10.0.0.0/24"}
	verdict := must(JudgeRanges(flag, wrong, nil, services))
	want := RangesVerdict{Outcome: RangesDecided, ServiceCIDRIsWrong: true, Values: 2, InFlag: 2}
	if verdict != want {
		t.Errorf("%+v", verdict)
	}
	if verdict := must(JudgeRanges(flag, flag, nil, services)); verdict.Outcome != RangesAgree || verdict.InServiceCIDR != 2 {
		t.Errorf("%+v", verdict)
	}
	if verdict := must(JudgeRanges(wrong, nil, flag, services)); verdict.Outcome != RangesDecided || !verdict.FlagIsWrong || verdict.InBitmap != 2 {
		t.Errorf("%+v", verdict)
	}
	if verdict := must(JudgeRanges(nil, wrong, nil, services)); verdict.Outcome != RangesUndecided {
		t.Errorf("%+v", verdict)
	}
	if verdict := must(JudgeRanges([]string{"30000-32767"}, nil, []string{"20000-21000"}, []Value{PortValue(30001)})); !verdict.BitmapIsWrong {
		t.Errorf("%+v", verdict)
	}
	_, err := JudgeRanges([]string{"10.0.0.0"}, nil, nil, nil)
	if parse := (*ParseError)(nil); !errors.As(err, &parse) {
		t.Error(err)
	}
	if _, err := JudgeRanges(nil, nil, nil, []Value{{}}); !errors.Is(err, ErrNotInRange) {
		t.Error(err)
	}
}

// TestObserveForms has Services without values that they need.
func TestObserveForms(t *testing.T) {
	audit := must(NewAudit())
	var services Services
	for range 3 {
		services.Add("", nil)
	}
	if err := audit.Observe(&services); err != nil {
		t.Fatal(err)
	}
	report := must(audit.Finish())
	defer report.Close()
	if err := report.ObserveForms(make([]ServiceForm, 2)); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	forms := []ServiceForm{{}, {Headless: true}, {OneAddress: true, LoadBalancer: true, LacksNodePort: true, Local: true}}
	if err := report.ObserveForms(forms); err != nil {
		t.Fatal(err)
	}
	var found []Reason
	for _, f := range must(report.Findings()) {
		found = append(found, f.Reason)
		if f.Subject.Kind != SubjectService || (f.Subject.Ordinal == 0) != (f.Reason == ReasonClusterIPMissing) || f.Remedy != RemedyOwner {
			t.Errorf("%+v", f)
		}
	}
	if !slices.Equal(found, []Reason{ReasonClusterIPMissing, ReasonNodePortMissing, ReasonHealthCheckNodePortMissing}) {
		t.Errorf("%v", found)
	}
	report.Close()
	if err := report.ObserveForms(forms); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
