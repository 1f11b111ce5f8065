package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
)

// testMark is the mark of journals that no run has written. The etcd of clusterWithMark has it.
const testMark = "test"

// clusterWithMark is cluster.
func clusterWithMark(t *testing.T) (e *embedded.Etcd, etcd []string) {
	t.Helper()
	e, etcd = cluster(t)
	if _, err := e.Client().Put(t.Context(), "/registry/ranges/journal/"+testMark, ""); err != nil {
		t.Fatal(err)
	}
	return e, etcd
}

// withOutcome returns the journal of changes whose ranges have an outcome.
func withOutcome(c edit.Changes, outcome string, revision int64) edit.Changes {
	c.Kind, c.Ranges, c.Mark = edit.KindJournal, slices.Clone(c.Ranges), cmp.Or(c.Mark, testMark)
	for i := range c.Ranges {
		c.Ranges[i].Outcome, c.Ranges[i].WrittenRevision = outcome, revision
	}
	return c
}

// hasOutcome reports whether all ranges have an outcome.
func hasOutcome(c *edit.Changes, outcome string) bool {
	return !slices.ContainsFunc(c.Ranges, func(one edit.RangeChanges) bool { return one.Outcome != outcome })
}

// TestJournalOfInterruptedRun interrupts runs that apply a plan before and after their write. The journal is complete,
// and the next run reports the truth.
func TestJournalOfInterruptedRun(t *testing.T) {
	e, etcd := clusterWithMark(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	putService(t, e, "web", 30001)
	file := filepath.Join(t.TempDir(), "plan.json")
	name := file + edit.JournalSuffix
	runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file)...)
	plan, err := edit.ReadDocument(file, edit.KindReviewedPlan)
	if err != nil {
		t.Fatal(err)
	}
	apply := with("repair", "--apply", "--plan", file)
	interrupt := func() {
		t.Helper()
		r := &repair{apply: true, planFile: file, log: t.Output()}
		_, err := r.runWith(t, e, func(context.Context, *pb.TxnRequest) error {
			j, err := edit.ReadDocument(name, edit.KindJournal)
			if err != nil || !hasOutcome(j, edit.OutcomeUnknown) || len(j.Ranges) != 1 || j.Ranges[0].Set[0].Value != "30001" {
				t.Errorf("%+v, %v", j, err)
			}
			return context.Canceled
		})
		if !errors.Is(err, edit.ErrMayBeWritten) || !strings.Contains(err.Error(), "if it was written, rangekeeper undo "+name) {
			t.Error(err)
		}
		j := withOutcome(*plan, edit.OutcomeUnknown, 0)
		j.Time = time.Now()
		if err := j.Create(name, true); err != nil {
			t.Fatal(err)
		}
	}

	interrupt()
	runFails(t, exitFound, []string{name, "another run may be writing the plan"}, apply...)
	shortenLeakAge(t)
	code, _, stderr := run(t, apply...)
	if code != exitOK || !strings.Contains(stderr, name+" is of a run that was interrupted; what it has not written is still due") || !slices.Equal(ports(t, e), []string{"30001"}) {
		t.Errorf("exit code %d, %s, %q", code, stderr, ports(t, e))
	}
	runFails(t, exitInput, []string{name, "applied already", "rangekeeper undo " + name}, apply...)

	// The transaction took effect, and its run did not see that. The next run does.
	j, err := edit.ReadDocument(name, edit.KindJournal)
	if err != nil || !hasOutcome(j, edit.OutcomeWritten) {
		t.Fatalf("%+v, %v", j, err)
	}
	unseen := withOutcome(*j, edit.OutcomeUnknown, 0)
	if err := unseen.Create(name, true); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, apply...); code != exitOK || !slices.Equal(ports(t, e), []string{"30001"}) {
		t.Errorf("exit code %d, %s, %q", code, stderr, ports(t, e))
	}
	if j, err := edit.ReadDocument(name, edit.KindJournal); err != nil || !hasOutcome(j, edit.OutcomeWritten) {
		t.Errorf("%+v, %v", j, err)
	}

	// A journal is kept for the plan that it is of.
	other := *plan
	other.Ranges = []edit.RangeChanges{{Name: "servicenodeports", Range: "30000-30003", Set: []edit.UsedValue{}, Clear: []string{"30002"}}}
	if err := other.Create(file, true); err != nil {
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

// TestJournalOfNothing has a server record the port of a plan when the journal is there already: the write fails, and
// leaves no journal.
func TestJournalOfNothing(t *testing.T) {
	e, _, file := clusterWithPlan(t)
	r := &repair{apply: true, planFile: file, log: t.Output()}
	_, err := r.runWith(t, e, func(ctx context.Context, _ *pb.TxnRequest) error {
		if _, err := os.Stat(file + edit.JournalSuffix); err != nil {
			t.Error(err)
		}
		return toggle(ctx, e.Client(), nodePortsKey, 30001)
	})
	if !errors.Is(err, edit.ErrChanged) || strings.Contains(err.Error(), "undo") || !slices.Equal(ports(t, e), []string{"30001"}) {
		t.Errorf("%v, left %q", err, ports(t, e))
	}
	if _, err := os.Stat(file + edit.JournalSuffix); !errors.Is(err, fs.ErrNotExist) {
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

// clusterWithPlan starts a cluster of one Service, whose port 30001 is not recorded, and writes the plan of its repair.
func clusterWithPlan(t *testing.T) (e *embedded.Etcd, etcd []string, file string) {
	t.Helper()
	e, etcd = clusterWithMark(t)
	runOK(t, append(etcd, "init", "servicenodeports", "30000-30003")...)
	putService(t, e, "web", 30001)
	return e, etcd, newPlan(t, etcd)
}

// TestTwoRunsOfOnePlan has a run lose the race to another run of the same plan, which finds a journal of an interrupted
// run or takes that of the first run for one. The journal of what was written stays.
func TestTwoRunsOfOnePlan(t *testing.T) {
	shortenLeakAge(t)
	edit.LeakAge = 0 // each journal is old enough to be one of an interrupted run
	for name, interrupted := range map[string]bool{"beside the journal of an interrupted run": true, "the first run was suspended": false} {
		t.Run(name, func(t *testing.T) {
			e, etcd := clusterWithMark(t)
			runOK(t, append(etcd, "init", "servicenodeports", "30000-30003")...)
			putService(t, e, "web", 30001)
			file := newPlan(t, etcd)
			if interrupted {
				j, err := edit.ReadDocument(file, edit.KindReviewedPlan)
				if err != nil {
					t.Fatal(err)
				}
				of := withOutcome(*j, edit.OutcomeUnknown, 0)
				if err := of.Create(file+edit.JournalSuffix, true); err != nil {
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
			if !errors.Is(err, edit.ErrChanged) || !strings.Contains(err.Error(), "30001 is recorded already") || !slices.Equal(ports(t, e), []string{"30001"}) {
				t.Errorf("%v, left %q", err, ports(t, e))
			}
			if j, err := edit.ReadDocument(file+edit.JournalSuffix, edit.KindJournal); err != nil || !hasOutcome(j, edit.OutcomeWritten) {
				t.Errorf("%+v, %v", j, err)
			}
		})
	}
}

// TestJournalOfUnknownWrite has etcd not answer a write: the journal says so, and the undo is about its value.
func TestJournalOfUnknownWrite(t *testing.T) {
	t.Parallel() // it waits
	e, etcd, file := clusterWithPlan(t)
	_, err := (&repair{apply: true, planFile: file, log: t.Output()}).runWith(t, e, func(context.Context, *pb.TxnRequest) error { return context.Canceled })
	if j, readErr := edit.ReadDocument(file+edit.JournalSuffix, edit.KindJournal); !errors.Is(err, edit.ErrMayBeWritten) || readErr != nil || !hasOutcome(j, edit.OutcomeUnknown) {
		t.Errorf("%v, %+v, %v", err, j, readErr)
	}
	if code, stdout, stderr := run(t, append(etcd, "undo", file+edit.JournalSuffix)...); code != exitOK || stdout != "servicenodeports 30001 free\n" {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// TestUndoOfPendingRange undoes a journal of a run that was interrupted before it wrote: a value that was recorded
// since is not of it.
func TestUndoOfPendingRange(t *testing.T) {
	e, etcd, file := clusterWithPlan(t)
	plan, err := edit.ReadDocument(file, edit.KindReviewedPlan)
	if err != nil {
		t.Fatal(err)
	}
	pending := withOutcome(*plan, edit.OutcomePending, 0)
	if err := pending.Create(file+edit.JournalSuffix, false); err != nil {
		t.Fatal(err)
	}
	runOK(t, append(etcd, "allocate", "servicenodeports", "30001", "--force")...)
	if code, stdout, stderr := run(t, append(etcd, "undo", file+edit.JournalSuffix)...); code != exitOK || stdout != "" || stderr != "" {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if got := ports(t, e); !slices.Equal(got, []string{"30001"}) {
		t.Errorf("left %q", got)
	}
}

// TestTwoRunsBegin has another run begin to write a plan after a run has looked whether one does. The journal of the
// other one stays.
func TestTwoRunsBegin(t *testing.T) {
	e, etcd := clusterWithMark(t)
	runOK(t, append(etcd, "init", "servicenodeports", "30000-30003")...)
	putService(t, e, "web", 30001)
	for name, interrupted := range map[string]bool{"beside no journal": false, "beside the journal of an interrupted run": true} {
		file := newPlan(t, etcd)
		plan, err := edit.ReadDocument(file, edit.KindReviewedPlan)
		if err != nil {
			t.Fatal(err)
		}
		of := withOutcome(*plan, edit.OutcomeUnknown, 0)
		of.Time = time.Now().Add(-2 * edit.LeakAge)
		if interrupted {
			if err := of.Create(file+edit.JournalSuffix, false); err != nil {
				t.Fatal(err)
			}
		}
		reviewed, err := edit.OpenPlan(file, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		of.Time = time.Now()
		if err := of.Create(file+edit.JournalSuffix, interrupted); err != nil {
			t.Fatal(err)
		}
		err = reviewed.Apply(t.Context(), &ranges.Store{Client: e.Client(), Prefix: plan.Cluster.Prefix}, func(ctx context.Context, at int64) (*clusterstate.State, error) {
			return clusterstate.ReadEtcd(ctx, e.Client(), clusterstate.Options{Prefix: plan.Cluster.Prefix, Revision: at})
		})
		if err == nil || !strings.Contains(err.Error(), "another run may be writing the plan; run the command again in 1m0s") {
			t.Errorf("%s: %v", name, err)
		}
		if there, err := edit.ReadDocument(file+edit.JournalSuffix, edit.KindJournal); err != nil || !there.Time.Equal(of.Time) {
			t.Errorf("%s: %+v, %v", name, there, err)
		}
	}
}
