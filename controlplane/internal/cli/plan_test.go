package cli

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestPlanOfSeveralRanges has etcd refuse the write of one range of a plan. The ranges before it are written, and the
// journal says so: the next run writes the others, and an undo takes back just what is written.
func TestPlanOfSeveralRanges(t *testing.T) {
	for name, resumes := range map[string]bool{"resumed": true, "undone": false} {
		t.Run(name, func(t *testing.T) {
			shortenLeakAge(t)
			edit.LeakAge = 0 // each journal is old enough to be one of an interrupted run
			e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
			etcd := []string{"--endpoints", e.Endpoints()[0]}
			with := func(args ...string) []string { return append(args, etcd...) }
			file := filepath.Join(t.TempDir(), "plan.json")
			runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file, "--clean-leaks")...)
			plan, err := edit.ReadDocument(file, edit.KindReviewedPlan)
			if err != nil {
				t.Fatal(err)
			}
			before := readEtcd(t, e.Client())
			names := []string{"secondaryserviceips", "serviceips", "servicenodeports"}
			for i, one := range plan.Ranges {
				if one.Name != names[i] || len(one.Set)+len(one.Clear) == 0 {
					t.Fatalf("%+v", plan.Ranges)
				}
			}
			r := &repair{apply: true, planFile: file, log: t.Output()}
			_, err = r.runWith(t, e, func(_ context.Context, txn *pb.TxnRequest) error {
				if strings.HasSuffix(string(txn.Success[0].GetRequestPut().GetKey()), "/serviceips") {
					return status.Error(codes.PermissionDenied, "etcdserver: permission denied")
				}
				return nil
			})
			journal := file + edit.JournalSuffix
			if err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), "written before: secondaryserviceips, which rangekeeper undo "+journal+" reverses") {
				t.Error(err)
			}
			j, err := edit.ReadDocument(journal, edit.KindJournal)
			if err != nil {
				t.Fatal(err)
			}
			for i, outcome := range []string{edit.OutcomeWritten, edit.OutcomePending, edit.OutcomePending} {
				if j.Ranges[i].Outcome != outcome {
					t.Errorf("%s: %s", j.Ranges[i].Name, j.Ranges[i].Outcome)
				}
			}
			middle := readEtcd(t, e.Client())
			for i, name := range names {
				if isChanged := !reflect.DeepEqual(before.Ranges[name], middle.Ranges[name]); isChanged != (i == 0) {
					t.Errorf("%s is changed: %t", name, isChanged)
				}
			}
			if resumes {
				code, _, stderr := run(t, with("repair", "--apply", "--plan", file)...)
				if !strings.Contains(stderr, "what it has not written is still due") {
					t.Errorf("exit code %d, %s", code, stderr)
				}
				checkStored(t, etcdtest.DualStack, "repaired3", readEtcd(t, e.Client()))
				return
			}
			code, stdout, stderr := run(t, with("undo", journal)...)
			for _, value := range j.Ranges[0].Clear {
				if !strings.Contains(stdout, "secondaryserviceips "+value+" allocated\n") {
					t.Errorf("exit code %d, %s%s", code, stdout, stderr)
				}
			}
			after := readEtcd(t, e.Client())
			for _, name := range names[1:] {
				if !slices.Equal(before.Ranges[name].Value, after.Ranges[name].Value) {
					t.Errorf("%s is changed", name)
				}
			}
		})
	}
}
