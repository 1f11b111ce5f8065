package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// writeDocument writes a document as JSON or YAML.
func writeDocument(w io.Writer, document any, format string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return err
	}
	out := b.Bytes()
	if format == formatYAML {
		var err error
		if out, err = yaml.JSONToYAML(out); err != nil {
			return err
		}
	}
	_, err := w.Write(out)
	return err
}

// table writes rows in columns under a title; nothing if there are no rows.
type table struct {
	b bytes.Buffer
}

func (t *table) add(title string, header []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if t.b.Len() > 0 {
		t.b.WriteByte('\n')
	}
	if title != "" {
		fmt.Fprintln(&t.b, title)
	}
	w := tabwriter.NewWriter(&t.b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush() // a bytes.Buffer takes all
}

func (t *table) addRanges(ranges []audit.Range) {
	var rows [][]string
	for _, r := range ranges {
		rows = append(rows, []string{r.Name, r.Range, string(r.Mode), fmt.Sprint(r.Size), fmt.Sprint(r.Used), fmt.Sprint(r.Free)})
	}
	t.add("", []string{"RANGE", "VALUES", "MODE", "SIZE", "USED", "FREE"}, rows)
}

func (t *table) addFindings(title string, findings []audit.Finding, wide bool) {
	header := []string{"REASON", "RANGE", "VALUE", "NAMESPACE", "NAME"}
	if wide {
		header = append(header, "MESSAGE")
	}
	var rows [][]string
	for _, f := range findings {
		row := []string{f.Reason, f.Range, printable(f.Value), f.Namespace, f.Name}
		if wide {
			row = append(row, f.Message)
		}
		rows = append(rows, row)
	}
	t.add(title, header, rows)
}

func (t *table) addLeaks(leaks []audit.Leak) {
	var rows [][]string
	for _, l := range leaks {
		rows = append(rows, []string{l.Range, l.Value})
	}
	t.add("Leaks: recorded as allocated, but no Service uses them", []string{"RANGE", "VALUE"}, rows)
}

// addUnknown lists what the source cannot see.
func (t *table) addUnknown(unknown []string) {
	for i, text := range unknown {
		if i == 0 {
			t.b.WriteString("\nUnknown:\n")
		}
		fmt.Fprintf(&t.b, "- %s\n", text)
	}
}

// printable shows a text that someone wrote where an address belongs without
// handing control characters to the terminal.
func printable(value string) string {
	if quoted := fmt.Sprintf("%q", value); quoted != `"`+value+`"` {
		return quoted
	}
	return value
}

// writeReport writes a report as tables.
func writeReport(w io.Writer, r *audit.Report, wide bool) error {
	var t table
	t.addRanges(r.Ranges)
	t.addFindings("Findings", r.Findings, wide)
	t.addLeaks(r.Leaks)
	t.addUnknown(r.Unknown)
	fmt.Fprintf(&t.b, "\n%s, %s, %s\n", count(r.Summary.Findings, "finding"), count(r.Summary.Leaks, "leak"), count(int(r.Summary.Services), "Service"))
	_, err := w.Write(t.b.Bytes())
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
