package screen

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// WriteJUnit writes a report as the results of tests, one for each severity: those up to failOn fail with what was
// found, and with strict also where the source does not show all. The others have that as output.
func WriteJUnit(w io.Writer, r *audit.Report, failOn audit.Severity, strict bool) error {
	type test struct{ name, message, element, body string }
	var tests []test
	failures, counts := 0, true
	for _, severity := range r.Severities() {
		n := *r.Summary.BySeverity.Of(severity)
		one := test{name: string(severity), message: fmt.Sprintf("%d %s", n.Found, severityText(severity, n))}
		for _, f := range r.Findings {
			if f.Severity == severity {
				one.body += fmt.Sprintf("%s %s (%s): %s\n", f.Reason, cmp.Or(f.Value, `""`), objectOf(f), f.Message)
			}
		}
		for _, l := range r.Leaks {
			if l.Severity == severity {
				one.body += fmt.Sprintf("%s %s (%s)\n", runbook.Leak, l.Value, l.Range)
			}
		}
		if what := audit.NotShown(r.Unknown, severity); len(what) > 0 {
			one.body += notShownText(what) + "\n"
		}
		switch {
		case counts && (n.Found > 0 || strict && n.IsAtLeast):
			one.element = "failure"
			failures++
		case n.Found > 0 || n.IsAtLeast:
			one.element = "system-out"
		}
		tests = append(tests, one)
		counts = counts && severity != failOn
	}
	readable := test{name: "readable"}
	if n := len(r.Unreadable); n > 0 {
		readable.element, readable.message = "failure", Count(n, "object")+" cannot be read"
		for _, u := range r.Unreadable {
			readable.body += fmt.Sprintf("%s %s: %s\n", u.Kind, u.Key, u.Message)
		}
		failures++
	}
	tests = append(tests, readable)

	var b strings.Builder
	quoted := func(text string) string {
		var out strings.Builder
		xml.EscapeText(&out, []byte(text)) // a strings.Builder takes all
		return out.String()
	}
	fmt.Fprintf(&b, "%s<testsuites>\n  <testsuite name=\"rangekeeper audit\" tests=\"%d\" failures=\"%d\" errors=\"0\" timestamp=\"%s\">\n    <properties>\n",
		xml.Header, len(tests), failures, r.Source.Time.UTC().Format("2006-01-02T15:04:05"))
	properties := [][2]string{{"source", r.Source.Name}, {"revision", fmt.Sprint(r.Source.Revision)}, {"version", r.Source.Version}}
	if r.Ignored != nil {
		properties = append(properties, [2]string{"ignored", IgnoredText(r.Ignored)})
	}
	for _, p := range properties {
		fmt.Fprintf(&b, "      <property name=\"%s\" value=\"%s\"/>\n", p[0], quoted(p[1]))
	}
	b.WriteString("    </properties>\n")
	for _, t := range tests {
		fmt.Fprintf(&b, "    <testcase classname=\"rangekeeper.audit\" name=\"%s\" time=\"0\"", t.name)
		switch t.element {
		case "":
			b.WriteString("/>\n")
		case "failure":
			fmt.Fprintf(&b, "><failure message=\"%s\">%s</failure></testcase>\n", quoted(t.message), quoted(t.body))
		default:
			fmt.Fprintf(&b, "><system-out>%s</system-out></testcase>\n", quoted(t.body))
		}
	}
	b.WriteString("  </testsuite>\n</testsuites>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
