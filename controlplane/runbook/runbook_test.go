package runbook_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// bootstrapReasons returns the reasons of the bootstrap crate, as its documentation has them, which its tests compare.
func bootstrapReasons(t *testing.T) (all []string) {
	text, err := os.ReadFile("../../docs/bootstrap-json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n#### Findings\n")
	table, _, _ := strings.Cut(rest, "\n#### ")
	for line := range strings.Lines(table) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && name != line {
			all = append(all, name)
		}
	}
	if len(all) < 13 {
		t.Fatalf("reasons of the bootstrap crate: %q", all)
	}
	return all
}

// TestEntries compares the entries with the reasons of the core and with the documentation.
func TestEntries(t *testing.T) {
	want := append([]string{runbook.Leak}, bootstrapReasons(t)...)
	for reason := rangekeeper.Reason(1); reason.Severity() != 0; reason++ {
		want = append(want, reason.String())
	}
	names := slices.Clone(runbook.Names())
	slices.Sort(names)
	if slices.Sort(want); !slices.Equal(names, want) {
		t.Errorf("entries %v, want %v", names, want)
	}
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## ")
	sections := map[string]string{}
	for section := range strings.SplitSeq(rest, "\n## ") {
		name, body, _ := strings.Cut(section, "\n")
		sections[name] = strings.Join(strings.Fields(body), " ")
	}
	for _, name := range runbook.Names() {
		e, _ := runbook.Named(strings.ToLower(name))
		if e.Name != name || e.Page() != "https://github.com/rangekeeper/rangekeeper/blob/main/docs/runbook.md#"+strings.ToLower(name) {
			t.Errorf("%s is %+v at %s", name, e, e.Page())
		}
		for _, part := range []string{e.Title + ".", "**Meaning.** " + e.Meaning, "**Risk.** " + e.Risk, "**Remedy.** " + e.Remedy} {
			if len(part) < 15 || !strings.Contains(sections[name], part) {
				t.Errorf("the section of %s lacks %q", name, part)
			}
		}
	}
	if e, ok := runbook.Named("nonsense"); ok {
		t.Errorf("%+v", e)
	}
}
