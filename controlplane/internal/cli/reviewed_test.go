package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestReviewedPlan plans a repair, applies exactly that, and undoes it.
func TestReviewedPlan(t *testing.T) {
	shortenLeakAge(t)
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"))
	etcd := []string{"--endpoints", e.Endpoints()[0]}
	with := func(args ...string) []string { return append(args, etcd...) }
	file := filepath.Join(t.TempDir(), "plan.json")
	journal := file + edit.JournalSuffix
	before := runJSON[audit.Report](t, exitFound, with("audit")...)
	apply := with("repair", "--apply", "--plan", file)
	refused := func(words ...string) {
		t.Helper()
		runFails(t, exitFound, append(words, file, "nothing was written"), apply...)
		checkStored(t, etcdtest.SingleStack, "drift", readEtcd(t, e.Client()))
		if _, err := os.Stat(journal); !errors.Is(err, fs.ErrNotExist) {
			t.Error("a journal is left:", err)
		}
	}

	runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file, "--clean-leaks")...)
	runFails(t, exitInput, []string{file, "--force replaces it"}, with("repair", "--plan-to", file, "--clean-leaks", "-o", "json")...)
	checkStored(t, etcdtest.SingleStack, "drift", readEtcd(t, e.Client()))
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{link, "is not a regular file"}, with("repair", "--plan-to", link, "--force", "-o", "json")...)
	plan, err := edit.ReadDocument(file, edit.KindReviewedPlan)
	if err != nil {
		t.Fatal(err)
	}
	ports := plan.Ranges[0]
	if ports.Name != "servicenodeports" || len(ports.Set) == 0 || len(ports.Set[0].Services) == 0 || len(ports.Clear) == 0 {
		t.Fatalf("%+v", ports)
	}

	// A leaked port comes into use.
	putServiceText := `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"late"},"spec":{"clusterIP":"None","ports":[{"port":80,"nodePort":` + ports.Clear[0] + `}]}}`
	if _, err := e.Client().Put(t.Context(), "/registry/services/specs/default/late", putServiceText); err != nil {
		t.Fatal(err)
	}
	refused(ports.Clear[0]+" is used by default/late", "the cluster has changed")
	if _, err := e.Client().Delete(t.Context(), "/registry/services/specs/default/late"); err != nil {
		t.Fatal(err)
	}
	other := *plan
	other.Cluster.Etcd++
	if err := other.Create(file, true); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{"another cluster", "the id of its etcd cluster"}, apply...)
	if err := plan.Create(file, true); err != nil {
		t.Fatal(err)
	}

	written := runJSON[audit.Plan](t, exitFound, apply...)
	checkStored(t, etcdtest.SingleStack, "repaired3", readEtcd(t, e.Client()))
	if !written.Applied || !slices.Equal(written.Ranges[0].Set, ports.SetValues()) || !slices.Equal(written.Ranges[0].Clear, ports.Clear) {
		t.Errorf("%+v, want %+v", written.Ranges, ports)
	}
	runFails(t, exitInput, []string{journal, "applied already, to the cluster whose Namespace kube-system has the UID " + before.Source.Cluster.UIDText()}, apply...)
	checkStored(t, etcdtest.SingleStack, "repaired3", readEtcd(t, e.Client()))

	// The set values are used, so they stay; what was cleared is recorded again, but for a value that has a new owner.
	runOK(t, with("allocate", "servicenodeports", ports.Clear[0])...)
	code, stdout, stderr := run(t, with("undo", journal)...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != exitFound || stderr != "" || len(lines) != len(ports.Set)+len(ports.Clear) ||
		!slices.Contains(lines, "servicenodeports "+ports.Clear[0]+" recorded") || !slices.Contains(lines, "servicenodeports "+ports.Clear[1]+" allocated") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	after := runJSON[audit.Report](t, exitFound, with("audit")...)
	if !reflect.DeepEqual(after.Leaks, before.Leaks) || len(after.Findings) != len(before.Findings)-len(ports.Set) {
		t.Errorf("%+v, before %+v", after, before)
	}
	// The journal stays, as values were kept; another undo changes nothing.
	stored := readEtcd(t, e.Client())
	code, stdout, stderr = run(t, with("undo", journal)...)
	if code != exitFound || stderr != "" || strings.Count(stdout, " kept: used by ") != len(ports.Set) || strings.Count(stdout, " recorded\n") != len(ports.Clear) {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if again := readEtcd(t, e.Client()); !reflect.DeepEqual(again.Ranges, stored.Ranges) {
		t.Error("another undo has changed something")
	}

	old := *plan
	old = withOutcome(old, edit.OutcomeUnknown, 0)
	old.Time = time.Now().Add(-25 * time.Hour)
	if err := old.Create(journal, true); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{"25h0m0s old"}, with("undo", journal)...)
	old.Time, old.Revision = time.Now(), 1<<40
	if err := old.Create(journal, true); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{"it was restored from an older state since; nothing was written"}, with("undo", journal)...)
	if err := os.WriteFile(journal+edit.UndoneSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{journal + edit.UndoneSuffix + ": is of an earlier undo"}, with("undo", journal)...)
	runFails(t, exitInput, []string{"--plan /dev/null is no regular file"}, with("repair", "--apply", "--plan", os.DevNull)...)
	runFails(t, exitInput, []string{"is rangekeeper/v1 ReviewedPlan"}, with("undo", file)...)
}

// TestPlanOfValueInUseAgain frees a value of a plan and records it again while the plan is applied, as servers do that
// create a Service. Only a value that stays recorded is cleared.
func TestPlanOfValueInUseAgain(t *testing.T) {
	shortenLeakAge(t)
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	etcd := []string{"--endpoints", e.Endpoints()[0]}
	toggled := func(times, port int) {
		for range times {
			if err := toggle(t.Context(), e.Client(), nodePortsKey, port); err != nil {
				t.Error(err)
			}
		}
	}
	toggled(1, 32_000)
	file := filepath.Join(t.TempDir(), "plan.json")
	runJSON[audit.Plan](t, exitFound, append(etcd, "repair", "--plan-to", file, "--clean-leaks")...)
	apply := append(etcd, "repair", "--apply", "--plan", file)
	meanwhile := func(change func()) (code int, stderr string) {
		var log strings.Builder
		code = program.Run(t.Context(), apply, io.Discard, writerFunc(func(b []byte) (int, error) {
			if strings.Contains(string(b), "look again at 1 value to clear") {
				change()
			}
			return log.Write(b)
		}))
		return code, log.String()
	}
	for name, change := range map[string]func(){
		"freed and recorded": func() { toggled(2, 32_000) },
		"several versions":   func() { toggled(2, 32_000); toggled(2, 32_001) },
		"deleted and created": func() {
			got, err := e.Client().Get(t.Context(), nodePortsKey)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Client().Delete(t.Context(), nodePortsKey); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Client().Put(t.Context(), nodePortsKey, string(got.Kvs[0].Value)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		code, stderr := meanwhile(change)
		if code != exitFound || !strings.Contains(stderr, "free for a moment") || !strings.Contains(stderr, "nothing was written") || !slices.Contains(ports(t, e), "32000") {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
	}
	if code, stderr := meanwhile(func() { toggled(2, 32_001) }); code != exitOK || slices.Contains(ports(t, e), "32000") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestRefusedPlanIsShort refuses a plan all of whose many changes were made otherwise.
func TestRefusedPlanIsShort(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	endpoints, plan := "--endpoints="+strings.Join(e.Endpoints(), ","), filepath.Join(t.TempDir(), "plan.json")
	if code, _, stderr := run(t, "repair", "--plan-to", plan, endpoints); code != exitFound {
		t.Fatal(stderr)
	}
	if code, _, stderr := run(t, "repair", "--apply", endpoints); code != exitFound {
		t.Fatal(stderr)
	}
	code, _, stderr := run(t, "repair", "--apply", "--plan", plan, endpoints)
	if code == exitOK || strings.Count(stderr, " is recorded already") != 5 || !strings.Contains(stderr, "; and 83 more") { // of 88
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
