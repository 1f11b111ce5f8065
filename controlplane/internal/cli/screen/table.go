package screen

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// Table writes rows in columns under a title; nothing if there are no rows.
type Table struct {
	b bytes.Buffer
}

// Add adds rows under a title and a header.
func (t *Table) Add(title string, header []string, rows [][]string) {
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

// AddRanges adds ranges with their sizes.
func (t *Table) AddRanges(ranges []audit.Range) { t.Add("", rangeHeader, rangeRows(ranges)) }

// Print writes the table between its source and what that does not show.
func (t *Table) Print(w io.Writer, from *audit.Source, unknown []audit.Unknown) error {
	s := New(w, true)
	s.Source(from)
	s.b.Write(t.b.Bytes())
	s.unknown(unknown)
	return s.Print(w)
}

// Note adds a line below.
func (t *Table) Note(text string) { t.b.WriteString("\n" + text + "\n") }

// AddRuns adds runs of values under a title.
func (t *Table) AddRuns(title string, runs []audit.Run) {
	var rows [][]string
	for _, run := range runs {
		rows = append(rows, []string{run.First, run.Last, fmt.Sprint(run.Len)})
	}
	t.Add(title, []string{"FIRST", "LAST", "COUNT"}, rows)
}
