package rangekeeper

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestOrderOfPass takes the steps of a pass in other orders.
func TestOrderOfPass(t *testing.T) {
	passes := must(NewLeakTracker(2, time.Minute))
	ours, others := newCommitter(t, "30000-30199", 1), newCommitter(t, "30200-30299", 2)
	refused := func(err error, message string) {
		t.Helper()
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), message) {
			t.Errorf("%v, want %q", err, message)
		}
	}
	pass := must(passes.Start())
	refused(second(ours.PassRead(pass, 1, nil, 1)), "30000-30199 was read before the pass began with it")
	if err := ours.BeginPass(pass); err != nil {
		t.Fatal(err)
	}
	refused(ours.BeginPass(pass), "begun twice")
	refused(second(pass.Finish(must(passes.NewAudit()))), "no audit yet")
	refused(second(ours.SubmitRepair(NoDeadline, pass, ServiceList{})), "no audit yet")
	refused(ours.CheckPass(pass), "no audit yet")
	var past *BitsPastRangeError
	if _, err := ours.PassRead(pass, 1, bytes.Repeat([]byte{0xff}, 26), 1); !errors.As(err, &past) || past.Range != "30000-30199" {
		t.Error(err)
	}
	if needsFence, err := ours.PassRead(pass, 1, nil, 1); err != nil || !needsFence {
		t.Fatal(needsFence, err)
	}
	refused(others.PassFenced(pass, 2, 77), "30200-30299 was read before the pass began with it")
	refused(ours.PassFenced(pass, 0, 77), "a fence has revision 0, which is before the read or the fence of range 30000-30199 at revision 1")
	refused(ours.PassFenced(pass, 2, 0), "no look has the number 0")
	if err := ours.PassFenced(pass, 2, 77); err != nil {
		t.Fatal(err)
	}
	refused(ours.PassFenced(pass, 1, 77), "a fence has revision 1, which is before the read or the fence of range 30000-30199 at revision 2")
	audit := must(pass.Audit())
	refused(second(pass.Audit()), "waits for the end of its audit")
	refused(ours.BeginPass(pass), "waits for the end of its audit")
	refused(second(audit.Finish()), "the audit is that of a repair pass")
	if i := must(audit.AddBitmap(must(ParseCIDR("10.0.0.0/24")), Stored{})); i != 1 {
		t.Errorf("the range behind that of the pass has index %d", i)
	}
	report := must(pass.Finish(audit))
	var outside *ValueError
	if err := report.RecordRepair(0, Repaired{Set: []Value{PortValue(77)}}); !errors.As(err, &outside) || outside.Range != ours.r {
		t.Error(err)
	}
	if counts := report.Range(1); counts.Size != 254 {
		t.Errorf("%+v", counts)
	}
	refused(second(others.SubmitRepair(NoDeadline, pass, ServiceList{})), "30200-30299")
	refused(others.CheckPass(pass), "30200-30299")
	refused(second(ours.SubmitRepair(NoDeadline, pass, ServiceList{Guards: true})), "a list that guards has no revision")
	refused(second(ours.SubmitRepair(NoDeadline, pass, ServiceList{Revision: -1, Guards: true})), "revision -1")
	must(ours.SubmitRepair(NoDeadline, pass, ServiceList{}))

	later := must(passes.Start())
	refused(second(ours.SubmitRepair(NoDeadline, pass, ServiceList{})), "a later one has started")
	givenUp := later
	later = must(passes.Start())
	refused(ours.BeginPass(givenUp), "a later one has started")
	refused(second(givenUp.Audit()), "a later one has started")
	if err := ours.BeginPass(later); err != nil {
		t.Fatal(err)
	}
	refused(second(later.Audit()), "30000-30199 was begun and not read")
	refused(ours.BeginPass(later), "an earlier step has failed")

	last := must(passes.Start())
	later.Close()
	passes.Close()
	if err := ours.BeginPass(last); err != nil {
		t.Errorf("a pass needs its LeakTracker: %v", err)
	}
	for _, err := range []error{
		second(passes.Start()), ours.BeginPass(later), second(ours.PassRead(later, 1, nil, 1)), ours.PassFenced(later, 2, 77), second(later.Audit()),
		second(later.Finish(must(NewAudit()))), second(ours.SubmitRepair(NoDeadline, later, ServiceList{})), ours.BeginPass(nil),
		second(new(RepairPass).Audit()), second(pass.Finish(new(Audit))),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

// Two servers of one process have the first pass of each: their numbers would be the same.
func TestAuditOfAnotherTracker(t *testing.T) {
	start := func(seed uint64) (*RepairPass, *Audit) {
		pass, committer := must(must(NewLeakTracker(2, time.Minute)).Start()), newCommitter(t, "30000-30199", seed)
		if err := errors.Join(committer.BeginPass(pass), second(committer.PassRead(pass, 1, nil, 1))); err != nil {
			t.Fatal(err)
		}
		return pass, must(pass.Audit())
	}
	ours, _ := start(1)
	_, theirs := start(2)
	if _, err := ours.Finish(theirs); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "not the one of this pass") {
		t.Error(err)
	}
}
