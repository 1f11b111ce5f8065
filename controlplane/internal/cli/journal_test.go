package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// withOutcome returns the journal of changes whose ranges have an outcome.
func withOutcome(c changes, outcome string, revision int64) changes {
	c.Kind, c.Ranges = kindJournal, slices.Clone(c.Ranges)
	for i := range c.Ranges {
		c.Ranges[i].Outcome, c.Ranges[i].WrittenRevision = outcome, revision
	}
	return c
}

// hasOutcome reports whether all ranges have an outcome.
func (c *changes) hasOutcome(outcome string) bool {
	return !slices.ContainsFunc(c.Ranges, func(one rangeChanges) bool { return one.Outcome != outcome })
}

// TestJournalOfInterruptedRun interrupts runs that apply a plan before and after their write. The journal is complete, and the
// next run reports the truth.
func TestJournalOfInterruptedRun(t *testing.T) {
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	putService(t, e, "web", 30001)
	file := filepath.Join(t.TempDir(), "plan.json")
	name := file + journalSuffix
	runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file)...)
	plan, err := readChanges(file, kindReviewedPlan)
	if err != nil {
		t.Fatal(err)
	}
	apply := with("repair", "--apply", "--plan", file)
	interrupt := func() {
		t.Helper()
		r := &repair{apply: true, planFile: file, log: t.Output()}
		_, err := r.runWith(t, e, func(context.Context, *pb.TxnRequest) error {
			j, err := readChanges(name, kindJournal)
			if err != nil || !j.hasOutcome(outcomeUnknown) || len(j.Ranges) != 1 || j.Ranges[0].Set[0].Value != "30001" {
				t.Errorf("%+v, %v", j, err)
			}
			return context.Canceled
		})
		if !errors.Is(err, errMayBeWritten) || !strings.Contains(err.Error(), "if it was written, rangekeeper undo "+name) {
			t.Error(err)
		}
		j := withOutcome(*plan, outcomeUnknown, 0)
		j.Time = time.Now()
		if err := j.create(name, true); err != nil {
			t.Fatal(err)
		}
	}

	interrupt()
	runFails(t, exitInput, []string{name, "another run may be writing the plan"}, apply...)
	shortenLeakAge(t)
	code, _, stderr := run(t, apply...)
	if code != exitOK || !strings.Contains(stderr, name+" is of a run that was interrupted; what it has not written is still due") || !slices.Equal(ports(t, e), []string{"30001"}) {
		t.Errorf("exit code %d, %s, %q", code, stderr, ports(t, e))
	}
	runFails(t, exitInput, []string{name, "applied already", "rangekeeper undo " + name}, apply...)

	// The transaction took effect, and its run did not see that.
	j, err := readChanges(name, kindJournal)
	if err != nil || !j.hasOutcome(outcomeWritten) {
		t.Fatalf("%+v, %v", j, err)
	}
	unseen := withOutcome(*j, outcomeUnknown, 0)
	if err := unseen.create(name, true); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitFound, []string{"30001 is recorded already", "another run may have written this", "rangekeeper undo " + name}, apply...)

	// A journal is kept for the plan that it is of.
	other := *plan
	other.Ranges = []rangeChanges{{Name: "servicenodeports", Range: "30000-30003", Set: []usedValue{}, Clear: []string{"30002"}}}
	if err := other.create(file, true); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{name, "journal of another plan"}, apply...)
	if code, stdout, stderr := run(t, with("undo", name)...); code != exitFound || stdout != "servicenodeports 30001 kept: used by default/web\n" {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	// Not all is undone, so it stays.
	runFails(t, exitInput, []string{name, "journal of another plan"}, apply...)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}

	runFails(t, exitFound, []string{"30002 is free already"}, apply...)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a journal is left:", err)
	}
}

// TestJournalOfNothing has a server record the port of a plan when the journal is there already: the write fails, and leaves no
// journal.
func TestJournalOfNothing(t *testing.T) {
	e, etcd := cluster(t)
	runOK(t, append(etcd, "init", "servicenodeports", "30000-30003")...)
	putService(t, e, "web", 30001)
	file := newPlan(t, etcd)
	r := &repair{apply: true, planFile: file, log: t.Output()}
	_, err := r.runWith(t, e, func(ctx context.Context, _ *pb.TxnRequest) error {
		if _, err := os.Stat(file + journalSuffix); err != nil {
			t.Error(err)
		}
		return toggle(ctx, e.Client(), nodePortsKey, 30001)
	})
	if !errors.Is(err, errChanged) || strings.Contains(err.Error(), "undo") || !slices.Equal(ports(t, e), []string{"30001"}) {
		t.Errorf("%v, left %q", err, ports(t, e))
	}
	if _, err := os.Stat(file + journalSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a journal is left:", err)
	}
}

// newPlan returns the name of a new plan.
func newPlan(t *testing.T, etcd []string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.json")
	runJSON[audit.Plan](t, exitFound, append(etcd, "repair", "--plan-to", file)...)
	return file
}

// TestTwoRunsOfOnePlan has a run lose the race to another run of the same plan, which finds a journal of an interrupted run or
// takes that of the first run for one. The journal of what was written stays.
func TestTwoRunsOfOnePlan(t *testing.T) {
	shortenLeakAge(t)
	leakAge = 0 // each journal is old enough to be one of an interrupted run
	for name, interrupted := range map[string]bool{"beside the journal of an interrupted run": true, "the first run was suspended": false} {
		t.Run(name, func(t *testing.T) {
			e, etcd := cluster(t)
			runOK(t, append(etcd, "init", "servicenodeports", "30000-30003")...)
			putService(t, e, "web", 30001)
			file := newPlan(t, etcd)
			if interrupted {
				j, err := readChanges(file, kindReviewedPlan)
				if err != nil {
					t.Fatal(err)
				}
				of := withOutcome(*j, outcomeUnknown, 0)
				if err := of.create(file+journalSuffix, true); err != nil {
					t.Fatal(err)
				}
			}
			apply := func(before func(context.Context, *pb.TxnRequest) error) error {
				_, err := (&repair{apply: true, planFile: file, log: t.Output()}).runWith(t, e, before)
				return err
			}
			first := true
			err := apply(func(context.Context, *pb.TxnRequest) error {
				if !first {
					return nil
				}
				first = false
				return apply(func(context.Context, *pb.TxnRequest) error { return nil })
			})
			if !errors.Is(err, errChanged) || !strings.Contains(err.Error(), "30001 is recorded already") || !slices.Equal(ports(t, e), []string{"30001"}) {
				t.Errorf("%v, left %q", err, ports(t, e))
			}
			if j, err := readChanges(file+journalSuffix, kindJournal); err != nil || !j.hasOutcome(outcomeWritten) {
				t.Errorf("%+v, %v", j, err)
			}
		})
	}
}
