package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestLastRangeChangesMeanwhile has a Service use a value of the last range of a plan while the command waits: no
// range is written. Once the Service is gone all are, and the report has what was found before the first write.
func TestLastRangeChangesMeanwhile(t *testing.T) {
	shortenLeakAge(t)
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	with := func(args ...string) []string { return append(args, "--endpoints", e.Endpoints()[0]) }
	file := filepath.Join(t.TempDir(), "plan.json")
	planned := runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file, "--clean-leaks")...)
	last := planned.Ranges[len(planned.Ranges)-1]
	port, err := strconv.Atoi(last.Clear[0])
	if err != nil || len(planned.Ranges) != 3 {
		t.Fatalf("%+v, %v", planned.Ranges, err)
	}
	apply := with("repair", "--apply", "--plan", file)
	before := readEtcd(t, e.Client())
	var log strings.Builder
	code := program.Run(t.Context(), apply, io.Discard, writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "look again") {
			putService(t, e, "late", port)
		}
		return log.Write(b)
	}))
	if code != exitFound || !strings.Contains(log.String(), "so nothing was written: "+last.Clear[0]+" is used by default/late") {
		t.Errorf("exit code %d, %s", code, log.String())
	}
	if after := readEtcd(t, e.Client()); !reflect.DeepEqual(after.Ranges, before.Ranges) || exists(t, file+edit.JournalSuffix) {
		t.Error("a range or a journal is written")
	}
	if _, err := e.Client().Delete(t.Context(), "/registry/services/specs/default/late"); err != nil {
		t.Fatal(err)
	}
	written := runJSON[audit.Plan](t, exitFound, apply...)
	if !written.Applied || !reflect.DeepEqual(written.Ranges, planned.Ranges) || len(written.Findings) != len(planned.Findings) || len(written.Leaks) != len(planned.Leaks) {
		t.Errorf("%+v, planned %+v", written, planned)
	}
}

// TestPlanWithoutServices applies a plan that clears a port to a cluster that has lost its Services: nothing is
// cleared.
func TestPlanWithoutServices(t *testing.T) {
	shortenLeakAge(t)
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	runOK(t, with("allocate", "servicenodeports", "30001")...)
	runOK(t, with("allocate", "servicenodeports", "30002")...)
	putService(t, e, "web", 30001)
	file := filepath.Join(t.TempDir(), "plan.json")
	runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file, "--clean-leaks")...)
	if _, err := e.Client().Delete(t.Context(), "/registry/services/specs/default/web"); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{"leaks cannot be cleaned"}, with("repair", "--apply", "--plan", file)...)
	if got := ports(t, e); !slices.Equal(got, []string{"30001", "30002"}) || exists(t, file+edit.JournalSuffix) {
		t.Errorf("left %q", got)
	}
}

// TestUndoBesideSuspendedRun undoes a plan while a run that is about to write it is suspended. The run writes nothing
// then.
func TestUndoBesideSuspendedRun(t *testing.T) {
	shortenLeakAge(t)
	e, etcd, file := clusterWithPlan(t)
	plan, err := edit.OpenPlan(file, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	journal, undone := file+edit.JournalSuffix, false
	err = plan.Apply(t.Context(), &ranges.Store{Client: e.Client(), Prefix: plan.Cluster.Prefix}, func(ctx context.Context, at int64) (*clusterstate.State, error) {
		if at != 0 && !undone {
			undone = true
			if code, _, stderr := run(t, slices.Concat(etcd, []string{"undo", journal})...); code != exitOK {
				t.Error(code, stderr)
			}
		}
		return clusterstate.ReadEtcd(ctx, e.Client(), clusterstate.Options{Prefix: plan.Cluster.Prefix, Revision: at})
	})
	if err := plan.End(err); !errors.Is(err, edit.ErrUndoBegan) {
		t.Error(err)
	}
	if got := ports(t, e); len(got) > 0 || !undone || !exists(t, journal+edit.UndoneSuffix) || exists(t, journal+edit.UndoingSuffix) || exists(t, journal) {
		t.Errorf("recorded: %q", got)
	}
}

// TestUndoHasBegun has an undo that kept a value: the plan is not applied again.
func TestUndoHasBegun(t *testing.T) {
	shortenLeakAge(t)
	_, etcd, file := clusterWithPlan(t)
	apply := slices.Concat(etcd, []string{"repair", "--apply", "--plan", file})
	applied, _, stderr := run(t, apply...)
	undone, _, _ := run(t, slices.Concat(etcd, []string{"undo", file + edit.JournalSuffix})...)
	if applied != exitOK || undone != exitFound { // the Service uses the port
		t.Fatal(applied, undone, stderr)
	}
	runFails(t, exitInput, []string{"rangekeeper undo has begun to reverse the plan"}, apply...)
}

// TestWrittenAndNotRecorded resumes a run that was killed between the write of a range and its record in the journal.
func TestWrittenAndNotRecorded(t *testing.T) {
	shortenLeakAge(t)
	_, etcd, file := clusterWithPlan(t)
	apply := slices.Concat(etcd, []string{"repair", "--apply", "--plan", file})
	if code, _, stderr := run(t, apply...); code != exitOK {
		t.Fatal(code, stderr)
	}
	journal, err := edit.ReadDocument(file+edit.JournalSuffix, edit.KindJournal)
	if err != nil {
		t.Fatal(err)
	}
	killed := withOutcome(*journal, edit.OutcomeUnknown, 0)
	killed.Time = time.Now().Add(-2 * edit.LeakAge)
	if err := killed.Create(file+edit.JournalSuffix, true); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, apply...); code != exitOK {
		t.Error(code, stderr)
	}
	resumed, err := edit.ReadDocument(file+edit.JournalSuffix, edit.KindJournal)
	if err != nil || resumed.Ranges[0].Outcome != edit.OutcomeWritten || resumed.Ranges[0].WrittenRevision < journal.Ranges[0].WrittenRevision {
		t.Errorf("%+v, %v", resumed, err)
	}
}
