package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// nextSteps returns the words of the next steps of a screen, comments included, in one line.
func nextSteps(shown string) string {
	_, steps, _ := strings.Cut(shown, "\nNext\n")
	return strings.Join(strings.Fields(strings.NewReplacer("\\\n", "", "\n  # ", " ").Replace("\n"+steps)), " ")
}

// TestCountOfRepair compares the number of faults that the audit of a snapshot says a repair removes with the audit
// after the repair.
func TestCountOfRepair(t *testing.T) {
	files := map[string]string{}
	for cluster := range bitmaps {
		files[cluster] = etcdtest.Fixture(cluster, "drift.db.gz")
	}
	const cluster = "kube-1.37-dual-stack"
	gone := `"parentRef":{"resource":"services","namespace":"default","name":"gone"}`
	used := ""
	for _, s := range readFile(t, etcdtest.Fixture(cluster, "clean.db.gz")).Services.All() {
		if strings.HasPrefix(s.ClusterIP, "10.") {
			used = s.ClusterIP
		}
	}
	files["objects only"] = changed(t, cluster, "clean.db.gz", map[string][]byte{
		"/registry/ipaddresses/" + used:     nil,
		"/registry/ipaddresses/10.37.0.250": ipAddressObject(t, "10.37.0.250", gone),
	})
	files["faulty objects"] = changed(t, cluster, "drift.db.gz", map[string][]byte{
		"/registry/ipaddresses/010.37.0.250": ipAddressObject(t, "010.37.0.250", gone),
		"/registry/ipaddresses/10.37.0.251":  ipAddressObject(t, "10.37.0.251", ""),
		"/registry/ipaddresses/odd":          ipAddressObject(t, "odd", gone), // which stays
	})
	faults := func(file string) int {
		t.Helper()
		_, document, stderr := run(t, "audit", "--etcd-snapshot", file, "-o", "json")
		var r audit.Report
		if err := json.Unmarshal([]byte(document), &r); err != nil {
			t.Fatal(err, stderr)
		}
		return len(r.Findings) + len(r.Leaks)
	}
	for name, file := range files {
		repaired := filepath.Join(t.TempDir(), "repaired.db")
		_, head, stderr := run(t, "repair", "--etcd-snapshot", file, "--to-file", repaired)
		before := faults(file)
		want := fmt.Sprintf("repair %d of %d into a new snapshot rangekeeper repair --to-file repaired.db --etcd-snapshot", before-faults(repaired), before)
		_, shown, _ := run(t, "audit", "--etcd-snapshot", file)
		if steps := nextSteps(shown); !strings.Contains(steps, want) {
			t.Errorf("%s: want %q in %q; %s", name, want, steps, stderr)
		}
		plan := runJSON[audit.Plan](t, exitFound, "repair", "--etcd-snapshot", file)
		changed := regexp.MustCompile(`(?m)^\d+ set, \d+ cleared, (\d+) IPAddress objects? changed`).FindStringSubmatch(head)
		if changed == nil && len(plan.Objects) > 0 || changed != nil && changed[1] != strconv.Itoa(len(plan.Objects)) {
			t.Errorf("%s: %d objects change: %s", name, len(plan.Objects), head)
		}
	}
}

// TestNoRepairWithoutServices has a snapshot without Services, whose repair is refused.
func TestNoRepairWithoutServices(t *testing.T) {
	values := map[string][]byte{}
	for _, s := range readFile(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")).Services.All() {
		values["/registry/services/specs/"+s.Namespace+"/"+s.Name] = nil
	}
	file := changed(t, etcdtest.SingleStack, "clean.db.gz", values)
	if code, _, _ := run(t, "repair", "--etcd-snapshot", file); code != exitInput {
		t.Errorf("the repair ends with %d", code)
	}
	if code, shown, _ := run(t, "audit", "--etcd-snapshot", file); code != exitFound || strings.Contains(shown, "rangekeeper repair") {
		t.Errorf("exit code %d\n%s", code, shown)
	}
}

// TestNextOfPlan runs the step that follows a plan for review: it writes exactly this plan.
func TestNextOfPlan(t *testing.T) {
	shortenLeakAge(t)
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"))
	file := filepath.Join(t.TempDir(), "the plan.json") // a shell needs it in quotes
	code, shown, stderr := run(t, "repair", "--plan-to", file, "--clean-leaks", "--endpoints", e.Endpoints()[0])
	want := "rangekeeper repair --apply --plan '" + file + "' --endpoints " + e.Endpoints()[0]
	if steps := nextSteps(shown); code != exitFound || !strings.Contains(steps, "after a review, write exactly this to etcd "+want) {
		t.Fatalf("exit code %d, %s, want %q in\n%s", code, stderr, want, shown)
	}
	if code, _, stderr := run(t, "repair", "--apply", "--plan", file, "--endpoints", e.Endpoints()[0]); code != exitFound {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestNextOfSQLite has a database, which no command repairs.
func TestNextOfSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(file, etcdtest.Gunzip(t, kineFixture), 0o400); err != nil {
		t.Fatal(err)
	}
	const server = "the cluster's kube-apiserver repairs 3 of 3 while it runs, in three passes within 10 minutes; kine refuses all other repairs"
	_, shown, _ := run(t, "audit", "--sqlite", file)
	if steps := nextSteps(shown); !strings.Contains(steps, server) || strings.Contains(steps, "rangekeeper repair") {
		t.Errorf("%q", steps)
	}
	_, page, _ := run(t, "audit", "--sqlite", file, "-o", "html")
	if !strings.Contains(page, strings.ReplaceAll(server, "'", "&#39;")) || strings.Contains(page, "<pre></pre>") || slices.Contains(strings.Fields(page), "--to-file") {
		t.Errorf("%s", page)
	}
}
