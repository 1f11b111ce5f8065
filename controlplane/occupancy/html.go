package occupancy

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings"
)

// Page is a page for a ticket: what an audit found, where, and what to do.
type Page struct {
	// Cluster is what the cluster is known by, Source where its state was read, at Time.
	Cluster, Source string
	Time            time.Time
	// Totals are the counts of the whole page, Severities those of each severity, the worst first.
	Totals     string
	Severities []Severity
	// Unknown is what the source cannot see.
	Unknown []string
	Maps    []Map
	// Groups are the findings by reason, the worst first.
	Groups []Group
	// Steps are the next commands.
	Steps []Step
}

// Severity is a count of findings of one severity.
type Severity struct {
	Name, Text string
	Count      int
}

// Group are findings with one reason.
type Group struct {
	Severity, Reason, Title, Meaning, Risk, Remedy string
	Rows                                           []Row
}

// Row is one finding; Claimants are all Services that claim its value, and what each is to do.
type Row struct {
	Value, Object, Range, Message string
	Claimants                     []string
}

// Step is a command and its purpose.
type Step struct{ Why, Command string }

// User is a value of a map that is worth naming: the Services that use it, or that it is leaked.
type User struct {
	Offset      uint64
	Value, Text string
}

// namedValues is the number of values that a tooltip names.
const namedValues = 12

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"printable": printable,
	"grouped":   func(n int) string { return grouped(uint64(n)) },
	"time":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
}).Parse(pageText))

// HTML writes the page, which needs nothing from elsewhere. It writes nothing if a map's cells contradict one another.
func HTML(w io.Writer, p Page) error {
	if err := check(p.Maps); err != nil {
		return err
	}
	drawn := make([]drawnMap, len(p.Maps))
	for i := range p.Maps {
		drawn[i] = p.Maps[i].drawn()
	}
	var b strings.Builder
	if err := pageTemplate.Execute(&b, struct {
		Page
		Drawn []drawnMap
	}{p, drawn}); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// drawnMap is a map in the words of the template.
type drawnMap struct {
	Name, Range, Totals, Nothing string
	CellSize                     string
	Rows                         []drawnRow
	Legend                       []legendEntry
}

type drawnRow struct {
	First string
	Cells []drawnCell
}

type drawnCell struct{ Class, Mark, Tooltip string }

type legendEntry struct{ Class, Mark, Text string }

func (m *Map) drawn() drawnMap {
	d := drawnMap{Name: printable(m.Name), Range: printable(m.Range), Totals: m.totals()}
	if len(m.Cells) == 0 {
		d.Nothing = m.nothingToDraw()
		return d
	}
	d.CellSize = m.cellSize()
	users := m.Users
	for i, cell := range m.Cells {
		if i%columns == 0 {
			d.Rows = append(d.Rows, drawnRow{First: m.valueAt(cell.First)})
		}
		n := 0
		for n < len(users) && users[n].Offset < cell.First+cell.Len {
			n++
		}
		row := &d.Rows[len(d.Rows)-1]
		row.Cells = append(row.Cells, m.drawnCell(cell, users[:n]))
		users = users[n:]
	}
	sum := m.counts()
	d.Legend = []legendEntry{
		{"c0", "", "free " + grouped(sum.free)},
		{"c1", "", "in use " + grouped(sum.inUse) + ": the stronger, the more of the cell"},
		{"c7", "D", "duplicate " + grouped(sum.duplicate)},
		{"c6", "X", "lost " + grouped(sum.lost) + ": in use, not recorded"},
		{"c5", "L", "leaked " + grouped(sum.leaked)},
	}
	if m.StaticBand > 0 {
		d.Legend = append(d.Legend, legendEntry{"c0 band", "", "static band: up to " + m.valueAt(uint64(m.StaticBand)-1)})
	}
	return d
}

func (m *Map) valueAt(offset uint64) string {
	if m.ValueAt == nil {
		return "offset " + grouped(offset)
	}
	return m.ValueAt(offset)
}

func (m *Map) drawnCell(cell rangekeeper.Cell, users []User) drawnCell {
	class := classOf(cell)
	d := drawnCell{Class: fmt.Sprintf("c%d", class)}
	if class >= leaked {
		d.Mark = string(characters[class])
	}
	var s strings.Builder
	s.WriteString(m.valueAt(cell.First))
	if cell.Len > 1 {
		s.WriteString(" to " + m.valueAt(cell.First+cell.Len-1))
	}
	c := countsOf(cell)
	separator := ": "
	for _, part := range []struct {
		n    uint64
		name string
	}{{c.duplicate, "duplicate"}, {c.lost, "lost"}, {c.leaked, "leaked"}, {c.inUse, "in use"}, {c.free, "free"}} {
		if part.n > 0 {
			s.WriteString(separator + grouped(part.n) + " " + part.name)
			separator = ", "
		}
	}
	if n := m.bandOf(cell); n > 0 {
		d.Class += " band"
		s.WriteString("; " + grouped(n) + " in the static band")
	}
	for i, user := range users {
		if i == namedValues {
			fmt.Fprintf(&s, "\nand %s more", grouped(uint64(len(users)-i)))
			break
		}
		s.WriteString("\n" + user.Value + " " + printable(user.Text))
	}
	d.Tooltip = s.String()
	return d
}
