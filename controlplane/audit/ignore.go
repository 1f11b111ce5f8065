package audit

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// KindIgnoreList is the kind of a file with faults that are known.
const KindIgnoreList = "IgnoreList"

// IgnoreList is the document of faults that are known, and that an audit counts and does not report.
type IgnoreList struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Entries    []IgnoreEntry `json:"entries"`
	// File is where it was read from.
	File string `json:"-"`
}

// IgnoreEntry ignores the findings with a reason, or the leaks, that are about a value, about an object, or about both.
type IgnoreEntry struct {
	// Reason is that of the findings, or Leak.
	Reason string `json:"reason"`
	Value  Text   `json:"value,omitempty"`
	// Object is namespace/name, or the name of an object without a namespace.
	Object string `json:"object,omitempty"`
	// Expires is the last day, in UTC, on which the entry counts, such as 2026-12-31; empty for an entry that stays.
	Expires string `json:"expires,omitempty"`
	// Comment is for people.
	Comment string `json:"comment,omitempty"`
}

// Text is a text that a document may have as a number, as YAML has a port without quotes.
type Text string

func (t *Text) UnmarshalJSON(text []byte) error {
	var number json.Number
	if err := json.Unmarshal(text, &number); err == nil && text[0] != '"' {
		*t = Text(number)
		return nil
	}
	return json.Unmarshal(text, (*string)(t))
}

// Ignored says what an IgnoreList has done to a report.
type Ignored struct {
	File string `json:"file"`
	// Findings and Leaks are the numbers of those that are left out.
	Findings int `json:"findings"`
	Leaks    int `json:"leaks"`
	// Expired are the entries that do not count any more. Unmatched are the others that nothing was found for.
	Expired   []IgnoreEntry `json:"expired,omitempty"`
	Unmatched []IgnoreEntry `json:"unmatched,omitempty"`
}

// Ignoring returns the report without what a list ignores on a day, which is a text like those of the list.
func (r *Report) Ignoring(list *IgnoreList, today string) *Report {
	in := *r
	in.Ignored = &Ignored{File: list.File}
	matched := map[int]bool{}
	ignores := func(reason, value, object string) bool {
		isIgnored := false
		for i, e := range list.Entries { // all that match, so that none of two equal ones counts as unmatched
			if !e.isExpired(today) && e.matches(reason, value, object) {
				isIgnored, matched[i] = true, true
			}
		}
		return isIgnored
	}
	in.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool {
		return ignores(f.Reason, f.Value, strings.TrimPrefix(f.Namespace+"/"+f.Name, "/"))
	})
	in.Leaks = slices.DeleteFunc(slices.Clone(r.Leaks), func(l Leak) bool { return ignores(runbook.Leak, l.Value, "") })
	in.Ignored.Findings, in.Ignored.Leaks = len(r.Findings)-len(in.Findings), len(r.Leaks)-len(in.Leaks)
	for i, e := range list.Entries {
		switch {
		case e.isExpired(today):
			in.Ignored.Expired = append(in.Ignored.Expired, e)
		case !matched[i]:
			in.Ignored.Unmatched = append(in.Ignored.Unmatched, e)
		}
	}
	in.summarize(true)
	return &in
}

func (e IgnoreEntry) isExpired(today string) bool { return e.Expires != "" && e.Expires < today }

func (e IgnoreEntry) matches(reason, value, object string) bool {
	return e.Reason == reason && (e.Value == "" || isSameValue(string(e.Value), value)) && (e.Object == "" || e.Object == object)
}

// isSameValue reports whether two texts are one address or port, or the same text.
func isSameValue(a, b string) bool {
	x, err := rangekeeper.ParseValue(a)
	y, failed := rangekeeper.ParseValue(b)
	return a == b || err == nil && failed == nil && x == y
}
