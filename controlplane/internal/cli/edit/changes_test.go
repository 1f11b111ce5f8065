package edit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBadDocuments reads plans and journals that no command has written.
func TestBadDocuments(t *testing.T) {
	const (
		ranges  = `[{"name":"servicenodeports","range":"30000-32767","set":[{"value":"30001","services":["default/web"]}],"clear":["30700"]}]`
		plan    = `{"apiVersion":"rangekeeper/v1","kind":"ReviewedPlan","time":"2026-11-24T03:00:00Z","cluster":{"kubeSystemUID":"u","etcdClusterID":"7","prefix":"/registry"},"revision":5,"ranges":` + ranges + `}`
		journal = `{"apiVersion":"rangekeeper/v1","kind":"RepairJournal","time":"2026-11-24T03:00:00Z","cluster":{"kubeSystemUID":"u","etcdClusterID":"7","prefix":"/registry"},"revision":5,"mark":"m","ranges":[{"name":"servicenodeports","range":"30000-32767","set":[],"clear":["30700"],"outcome":"written","writtenRevision":6}]}`
	)
	future := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	with := func(old, changed string) string {
		t.Helper()
		if !strings.Contains(plan, old) {
			t.Fatal(old)
		}
		return strings.Replace(plan, old, changed, 1)
	}
	for _, c := range []struct{ name, kind, content, want string }{
		{"plan", KindReviewedPlan, plan, ""},
		{"journal", KindJournal, journal, ""},
		{"empty", KindReviewedPlan, "", "is empty"},
		{"blank", KindReviewedPlan, " \n", "is empty"},
		{"no kind", KindReviewedPlan, "{}", "has no apiVersion or no kind; expected rangekeeper/v1 ReviewedPlan"},
		{"null", KindReviewedPlan, "null", "has no apiVersion or no kind"},
		{"list", KindReviewedPlan, "[]", "is a JSON array, not an object"},
		{"other kind", KindReviewedPlan, journal, "is rangekeeper/v1 RepairJournal, not rangekeeper/v1 ReviewedPlan"},
		{"not JSON", KindReviewedPlan, "garbage", "line 1: invalid character 'g'"},
		{"content after it", KindReviewedPlan, plan + "\n\nx", "line 3: invalid character 'x' after top-level value"},
		{"second document", KindReviewedPlan, plan + plan, "after top-level value"},
		{"cut off", KindReviewedPlan, plan[:len(plan)-1], "unexpected end"},
		{"field twice", KindReviewedPlan, with(`"revision":5`, `"revision":5,"revision":6`), `duplicate field "revision"`},
		{"unknown field", KindReviewedPlan, with(`"revision":5`, `"revision":5,"more":6`), `unknown field "more"`},
		{"field in capitals", KindReviewedPlan, with(`"revision":5`, `"Revision":5`), `unknown field "Revision"`},
		{"too large", KindReviewedPlan, plan + strings.Repeat(" ", maxDocument), "is larger than 64 MiB"},
		{"no time", KindReviewedPlan, with(`"time":"2026-11-24T03:00:00Z",`, ""), "has no time"},
		{"only a date", KindReviewedPlan, with("2026-11-24T03:00:00Z", "2020-01-01"), "time is one of RFC 3339"},
		{"future", KindReviewedPlan, with("2026-11-24T03:00:00Z", future), "its time " + future + " is in the future"},
		{"clock ahead", KindReviewedPlan, with("2026-11-24T03:00:00Z", time.Now().Add(time.Minute).UTC().Format(time.RFC3339)), ""},
		{"cluster as a number", KindReviewedPlan, with(`"etcdClusterID":"7"`, `"etcdClusterID":7`), "cluster.etcdClusterID cannot be a JSON number"},
		{"no prefix", KindReviewedPlan, with(`"prefix":"/registry"`, `"prefix":""`), "no prefix"},
		{"cluster as a word", KindReviewedPlan, with(`"etcdClusterID":"7"`, `"etcdClusterID":"07"`), `the id of an etcd cluster is a decimal number, not "07"`},
		{"revision as a text", KindReviewedPlan, with(`"revision":5`, `"revision":"5"`), "revision cannot be a JSON string"},
		{"no revision", KindReviewedPlan, with(`"revision":5`, `"revision":0`), "revision is at least 1, not 0"},
		{"outcome of a plan", KindReviewedPlan, with(`"clear":["30700"]`, `"clear":["30700"],"outcome":"written"`), `a ReviewedPlan never has the outcome "written"`},
		{"journal without outcome", KindJournal, strings.Replace(journal, `,"outcome":"written","writtenRevision":6`, "", 1), `a RepairJournal never has the outcome ""`},
		{"journal without a mark", KindJournal, strings.Replace(journal, `"mark":"m",`, "", 1), `has the mark ""; a RepairJournal has one`},
		{"plan with a mark", KindReviewedPlan, with(`"revision":5`, `"revision":5,"mark":"m"`), `has the mark "m"`},
		{"journal without the revision of the write", KindJournal, strings.Replace(journal, `,"writtenRevision":6`, "", 1), "writtenRevision is at least 1, not 0"},
		{"revision of an unknown write", KindJournal, strings.Replace(journal, `"written",`, `"unknown",`, 1), `writtenRevision is of the outcome "written" only`},
		{"plan with the revision of a write", KindReviewedPlan, with(`"clear":["30700"]`, `"clear":["30700"],"writtenRevision":6`), `writtenRevision is of the outcome "written" only`},
		{"unknown range", KindReviewedPlan, with("servicenodeports", "ports"), `unknown range "ports"`},
		{"range twice", KindReviewedPlan, with(ranges, ranges[:len(ranges)-1]+","+ranges[1:]), "range servicenodeports is there twice"},
		{"no range", KindReviewedPlan, with("30000-32767", "many"), "range servicenodeports:"},
		{"other spelling of a range", KindReviewedPlan, with("30000-32767", "030000-32767"), "30000-32767"},
		{"other spelling of a value", KindReviewedPlan, with(`"30700"`, `"030700"`), "030700"},
		{"no value", KindReviewedPlan, with(`"30700"`, `"x"`), `"x"`},
		{"outside the range", KindReviewedPlan, with(`"30700"`, `"29999"`), "29999 is not in 30000-32767"},
		{"address as a port", KindReviewedPlan, with(`"30700"`, `"10.0.0.1"`), "10.0.0.1 is not in 30000-32767"},
		{"cleared twice", KindReviewedPlan, with(`["30700"]`, `["30700","30700"]`), "30700 is there twice"},
		{"set and cleared", KindReviewedPlan, with(`["30700"]`, `["30001"]`), "30001 is there twice"},
	} {
		file := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadDocument(file, c.kind)
		switch {
		case c.want == "":
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "edit."):
			t.Errorf("%s names a Go type: %v", c.name, err)
		}
	}
	if _, err := ReadDocument("/dev/zero", KindReviewedPlan); err == nil || !strings.Contains(err.Error(), "/dev/zero: is larger than 64 MiB") {
		t.Error(err)
	}
	if _, err := parseChanges(bytes.Repeat([]byte("["), 1<<20), KindReviewedPlan); err == nil {
		t.Error("accepts brackets without end")
	}
}
