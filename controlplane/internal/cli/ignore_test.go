package cli

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// ignoreList writes a list of known faults.
func ignoreList(t *testing.T, entries ...string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "known.yaml")
	text := "apiVersion: rangekeeper/v1\nkind: IgnoreList\nentries:\n"
	for _, entry := range entries {
		text += "- {" + entry + "}\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestIgnore ignores some faults, by value, by object and by both. The day of tests is 2026-01-02.
func TestIgnore(t *testing.T) {
	snapshot := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	all := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", snapshot)
	find := func(reason string, isIPv6 bool) audit.Finding {
		t.Helper()
		at := slices.IndexFunc(all.Findings, func(f audit.Finding) bool { return f.Reason == reason && strings.Contains(f.Value, ":") == isIPv6 })
		if at < 0 {
			t.Fatalf("no %s", reason)
		}
		return all.Findings[at]
	}
	port, address, outside, leak := find("PortNotAllocated", false), find("ClusterIPNotAllocated", true), find("ClusterIPOutOfRange", false), all.Leaks[0]
	file := ignoreList(t,
		"reason: PortNotAllocated, value: "+port.Value+", expires: 2026-01-02, comment: known", // today, and no text in YAML
		"reason: ClusterIPNotAllocated, value: '"+strings.ToUpper(address.Value)+"', object: "+address.Namespace+"/"+address.Name,
		"reason: clusterIPOutOfRange, object: "+outside.Namespace+"/"+outside.Name,
		"reason: Leak, value: '"+leak.Value+"'",
		"reason: Leak, value: '"+all.Leaks[1].Value+"', expires: 2026-01-01",
		"reason: ClusterIPNotAllocated, value: '"+address.Value+"', object: other/service",
	)
	gone := 0 // all findings about an object that is ignored with one reason
	for _, f := range all.Findings {
		isOne := f.Reason == port.Reason && f.Value == port.Value || f.Reason == address.Reason && f.Value == address.Value && f.Name == address.Name ||
			f.Reason == outside.Reason && f.Name == outside.Name && f.Namespace == outside.Namespace
		if isOne {
			gone++
		}
	}
	with := []string{"audit", "--etcd-snapshot", snapshot, "--ignore", file}
	r := runJSON[audit.Report](t, exitFound, with...)
	if len(r.Findings) != len(all.Findings)-gone || len(r.Leaks) != len(all.Leaks)-1 || r.Summary.Findings.Found != len(r.Findings) || r.Summary.Leaks.Found != len(r.Leaks) {
		t.Errorf("%+v of %+v without %d", r.Summary, all.Summary, gone)
	}
	want := audit.Ignored{
		File: file, Findings: gone, Leaks: 1, Expired: []audit.IgnoreEntry{{Reason: "Leak", Value: audit.Text(all.Leaks[1].Value), Expires: "2026-01-01"}},
		Unmatched: []audit.IgnoreEntry{{Reason: "ClusterIPNotAllocated", Value: audit.Text(address.Value), Object: "other/service"}},
	}
	if fmt.Sprint(*r.Ignored) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", r.Ignored, want)
	}
	sentence := fmt.Sprintf("%d findings and 1 leak ignored by %s, 1 entry expired, 1 entry matches nothing", gone, file)
	for _, format := range []string{"table", "wide", "html", "junit"} {
		_, shown, _ := run(t, append(with, "-o", format)...)
		if words := strings.Join(strings.Fields(shown), " "); !strings.Contains(words, sentence) {
			t.Errorf("%s: no %q in\n%s", format, sentence, shown)
		}
	}
	_, shown, _ := run(t, with...)
	words := strings.Join(strings.Fields(shown), " ")
	for _, line := range []string{"expired Leak " + all.Leaks[1].Value + " 2026-01-01", "unmatched ClusterIPNotAllocated " + address.Value + " other/service"} {
		if !strings.Contains(words, line) {
			t.Errorf("no %q in\n%s", line, shown)
		}
	}
	if _, shown, _ := run(t, append(with, "-o", "prometheus")...); !strings.Contains(shown, fmt.Sprintf("\nrangekeeper_ignored %d\n", gone+1)) {
		t.Error(shown)
	}
	if r := runJSON[audit.Report](t, exitFound, append(with, "-n", port.Namespace)...); r.Ignored == nil || r.Ignored.Findings != gone {
		t.Errorf("%+v", r.Ignored)
	}

	var entries []string
	for _, f := range all.Findings {
		entries = append(entries, "reason: "+f.Reason+", value: '"+f.Value+"'")
	}
	for _, l := range all.Leaks {
		entries = append(entries, "reason: Leak, value: '"+l.Value+"'")
	}
	code, shown, _ := run(t, "audit", "--etcd-snapshot", snapshot, "--ignore", ignoreList(t, entries...))
	shown = strings.Join(strings.Fields(shown), " ") // it wraps by the length of the file's name
	if sentence := fmt.Sprintf("%d findings and %d leaks ignored by ", len(all.Findings), len(all.Leaks)); code != exitOK || !strings.Contains(shown, "ok: nothing found in ") || !strings.Contains(shown, sentence) {
		t.Errorf("exit code %d\n%s", code, shown)
	}
}

// TestIgnoreListRefused reads lists with mistakes.
func TestIgnoreListRefused(t *testing.T) {
	snapshot := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	for want, entry := range map[string]string{
		"entry 1: reason is missing":                                                           "value: 1",
		`entry 1: there is no reason "Lek"`:                                                    "reason: Lek, value: 1",
		"entry 1: value or object is missing":                                                  "reason: Leak",
		"entry 1: a leak has a value and no object":                                            "reason: Leak, object: a/b",
		`entry 1: expires is a day such as 2026-12-31, not "soon"`:                             "reason: Leak, value: 1, expires: soon",
		`unknown field "vaule"`:                                                                "reason: Leak, vaule: 1",
		`cannot unmarshal array into Go struct field IgnoreEntry.entries.value of type string`: "reason: Leak, value: [1]",
		`already set in map`:                                                                   "reason: Leak, reason: Leak, value: 1",
	} {
		file := ignoreList(t, entry)
		runFails(t, exitInput, []string{"--ignore " + file + ": ", want}, "audit", "--etcd-snapshot", snapshot, "--ignore", file)
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("kind: Audit\napiVersion: rangekeeper/v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{other, `is "Audit" of "rangekeeper/v1", not IgnoreList of rangekeeper/v1`}, "audit", "--etcd-snapshot", snapshot, "--ignore", other)
	runFails(t, exitInput, []string{"none.yaml"}, "audit", "--etcd-snapshot", snapshot, "--ignore", "none.yaml")
}

// junit is what readers of the format take from it.
type junit struct {
	Suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string  `xml:"name,attr"`
			Failure *string `xml:"failure"`
			Output  *string `xml:"system-out"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// outcomes returns the outcome of each test, in order.
func outcomes(t *testing.T, text string) (all []string) {
	t.Helper()
	var j junit
	if err := xml.Unmarshal([]byte(text), &j); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	failures := 0
	for _, c := range j.Suite.Cases {
		switch {
		case c.Failure != nil:
			failures++
			all = append(all, c.Name+" failed")
		case c.Output != nil:
			all = append(all, c.Name+" output")
		default:
			all = append(all, c.Name+" passed")
		}
	}
	if j.Suite.Tests != len(all) || j.Suite.Failures != failures {
		t.Errorf("%+v", j.Suite)
	}
	return all
}

// TestJUnit has failures exactly where the exit code is about.
func TestJUnit(t *testing.T) {
	snapshot := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	all := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", snapshot)
	for failOn, want := range map[string][]string{
		"wasted":        {"breaksTraffic failed", "duplicateRisk failed", "exhausted passed", "wasted failed", "readable passed"},
		"breaksTraffic": {"breaksTraffic failed", "duplicateRisk output", "exhausted passed", "wasted output", "readable passed"},
	} {
		_, shown, _ := run(t, "audit", "--etcd-snapshot", snapshot, "-o", "junit", "--fail-on", failOn)
		if got := outcomes(t, shown); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", failOn, got, want)
		}
		for _, f := range all.Findings {
			if !strings.Contains(shown, f.Reason+" "+f.Value+" (") {
				t.Errorf("%s: no %s %s", failOn, f.Reason, f.Value)
			}
		}
	}
	code, shown, _ := run(t, "audit", "--etcd-snapshot", etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"), "-o", "junit")
	if got := outcomes(t, shown); code != exitOK || strings.Contains(strings.Join(got, " "), "failed") {
		t.Errorf("exit code %d, %q", code, got)
	}

	a, err := audit.New(&clusterstate.State{Revision: 7, Unseen: &clusterstate.Unseen{}, Services: etcdtest.List(corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}})}, audit.Options{
		Source: &audit.Source{Type: audit.FromAPI, Name: `https://127.0.0.1:6443/"<x>&`},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := *a.Report()
	r.Unreadable = []audit.Unreadable{{Kind: "Service", Key: "a\x1b]b", Message: "\x00 ]]> <damaged>"}}
	for strict, want := range map[bool]string{false: "output", true: "failed"} {
		var shown strings.Builder
		if err := screen.WriteJUnit(&shown, &r, audit.BreaksTraffic, strict); err != nil {
			t.Fatal(err)
		}
		got := outcomes(t, shown.String())
		if got[0] != "breaksTraffic "+want || got[1] != "duplicateRisk output" || !strings.Contains(shown.String(), "not shown: ") || got[len(got)-1] != "readable failed" || strings.ContainsAny(shown.String(), "\x1b\x00") {
			t.Errorf("strict %v: %q\n%s", strict, got, shown.String())
		}
	}
}
