package picture

import (
	_ "embed"
	"fmt"
	"html"
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
	Count      string
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

// Step is a command and its purpose, or without a command what happens by itself.
type Step struct{ Why, Command string }

// User is a value of a map that is worth naming: the Services that use it, or that it is leaked.
type User struct {
	Offset      uint64
	Value, Text string
}

// namedValues is the number of values that a tooltip names.
const namedValues = 12

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// HTML writes the page, which needs nothing from elsewhere. It writes nothing if a map's cells contradict one another.
func HTML(w io.Writer, p Page) error {
	if err := check(p.Maps); err != nil {
		return err
	}
	var m markup
	m.page(p)
	_, err := io.WriteString(w, m.String())
	return err
}

// markup is HTML that is being written. html/template would do, but it calls methods by name, so that the linker has to
// keep all exported methods of a program: 40% of the plugin's size.
type markup struct{ strings.Builder }

// add adds markup in which each %s stands for a text, or for the value of an attribute in quotes.
func (m *markup) add(format string, texts ...string) {
	escaped := make([]any, len(texts))
	for i, text := range texts {
		escaped[i] = html.EscapeString(text)
	}
	fmt.Fprintf(m, format, escaped...)
}

func (m *markup) page(p Page) {
	m.add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	m.add("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	m.add("<title>Rangekeeper audit of %s</title>\n<style>\n", printable(p.Cluster))
	m.WriteString(pageStyle)
	m.add("</style>\n</head>\n<body>\n<h1>Rangekeeper audit</h1>\n")
	m.add("<dl><dt>Cluster</dt><dd>%s</dd><dt>Source</dt><dd>%s</dd>", printable(p.Cluster), printable(p.Source))
	m.add("<dt>Time</dt><dd><time>%s</time></dd><dt>Found</dt><dd>%s</dd></dl>\n", p.Time.UTC().Format("2006-01-02 15:04:05 UTC"), p.Totals)
	m.add("<div class=\"counts\">")
	for _, s := range p.Severities {
		class := s.Name
		if s.Count == "0" {
			class = "none"
		}
		m.add("<div class=\"%s\"><b>%s</b>%s</div>", class, s.Count, s.Text)
	}
	m.add("</div>\n")
	if len(p.Unknown) > 0 {
		m.add("<h2>Unknown</h2><ul>")
		for _, unknown := range p.Unknown {
			m.add("<li>%s</li>", unknown)
		}
		m.add("</ul>\n")
	}
	if len(p.Steps) > 0 {
		m.add("<h2 id=\"next\">Next</h2>")
		for _, s := range p.Steps {
			m.add("<p>%s</p>", s.Why)
			if s.Command != "" {
				m.add("<pre>%s</pre>", s.Command)
			}
		}
		m.add("\n")
	}
	m.findings(p)
	m.add("<h2>Ranges</h2>\n")
	if len(p.Maps) == 0 {
		m.add("<p>No ranges.</p>\n")
	}
	for i := range p.Maps {
		m.occupancy(&p.Maps[i])
	}
	m.add("<script>\n")
	m.WriteString(pageScript)
	m.add("</script>\n</body>\n</html>\n")
}

func (m *markup) findings(p Page) {
	m.add("<h2>Findings</h2>\n")
	if len(p.Groups) == 0 {
		m.add("<p>Nothing was found.</p>\n")
		return
	}
	m.add("<form onsubmit=\"return false\"><input type=\"search\" id=\"filter\" placeholder=\"Filter by value, Service, range or reason\" aria-label=\"Filter\">\n")
	for _, s := range p.Severities {
		m.add("<label class=\"%s\"><input type=\"checkbox\" checked value=\"%s\"> %s</label>", s.Name, s.Name, s.Text)
	}
	m.add("\n<output id=\"shown\"></output></form>\n")
	for _, g := range p.Groups {
		m.add("<section data-severity=\"%s\" data-reason=\"%s\">\n", g.Severity, g.Reason)
		m.add("<h3><span class=\"%s\">%s (%s)</span>: %s</h3>\n", g.Severity, g.Reason, fmt.Sprint(len(g.Rows)), g.Title)
		m.add("<details><summary>Meaning, risk and remedy</summary><p><b>Meaning.</b> %s</p><p><b>Risk.</b> %s</p><p><b>Remedy.</b> %s</p></details>\n", g.Meaning, g.Risk, g.Remedy)
		m.add("<table><thead><tr><th>Value</th><th>Object</th><th>Range</th><th>Message</th></tr></thead><tbody>\n")
		for _, r := range g.Rows {
			m.add("<tr><td>%s</td><td>%s</td><td>%s</td><td>%s", printable(r.Value), printable(r.Object), printable(r.Range), printable(r.Message))
			for _, claimant := range r.Claimants {
				m.add("<br><span class=\"soft\">%s</span>", printable(claimant))
			}
			m.add("</td></tr>\n")
		}
		m.add("</tbody></table></section>\n")
	}
}

func (m *markup) occupancy(of *Map) {
	m.add("<h3>%s %s</h3><p class=\"soft\">%s", printable(of.Name), printable(of.Range), of.totals())
	if len(of.Cells) == 0 {
		m.add("</p>\n<p>%s</p>\n", of.nothingToDraw())
		return
	}
	m.add("; a cell is %s, and its tooltip names the addresses and Services</p>\n", of.cellSize())
	m.add("<div class=\"map\" role=\"img\" aria-label=\"Occupancy of %s\">\n", printable(of.Name))
	users := of.Users
	for i, cell := range of.Cells {
		if i%columns == 0 {
			m.add("<div class=\"row\"><span class=\"at\">%s</span>", of.valueAt(cell.First))
		}
		n := 0
		for n < len(users) && users[n].Offset < cell.First+cell.Len {
			n++
		}
		m.cell(of, cell, users[:n])
		users = users[n:]
		if i%columns == columns-1 || i == len(of.Cells)-1 {
			m.add("</div>\n")
		}
	}
	sum := of.counts()
	m.add("</div><div class=\"legend\">")
	m.legend("c0", "", "free "+grouped(sum.free))
	m.legend("c1", "", "in use "+grouped(sum.inUse)+": the stronger, the more of the cell")
	m.legend("c7", "D", "duplicate "+grouped(sum.duplicate))
	m.legend("c6", "X", "lost "+grouped(sum.lost)+": in use, not recorded")
	m.legend("c5", "L", "leaked "+grouped(sum.leaked))
	if of.StaticBand > 0 {
		m.legend("c0 band", "", "static band: up to "+of.valueAt(uint64(of.StaticBand)-1))
	}
	m.add("</div>\n")
}

func (m *markup) legend(class, mark, text string) {
	m.add("<span><i class=\"cell %s\">%s</i>%s</span>", class, mark, text)
}

func (m *Map) valueAt(offset uint64) string {
	if m.ValueAt == nil {
		return "offset " + grouped(offset)
	}
	return m.ValueAt(offset)
}

// cell adds a cell of a map, with the users of its values.
func (m *markup) cell(of *Map, cell rangekeeper.Cell, users []User) {
	worst, mark := classOf(cell), ""
	if worst >= leaked {
		mark = string(characters[worst])
	}
	class := fmt.Sprintf("c%d", worst)
	var s strings.Builder
	s.WriteString(of.valueAt(cell.First))
	if cell.Len > 1 {
		s.WriteString(" to " + of.valueAt(cell.First+cell.Len-1))
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
	if n := of.bandOf(cell); n > 0 {
		class += " band"
		s.WriteString("; " + grouped(n) + " in the static band")
	}
	for i, user := range users {
		if i == namedValues {
			fmt.Fprintf(&s, "\nand %s more", grouped(uint64(len(users)-i)))
			break
		}
		s.WriteString("\n" + user.Value + " " + printable(user.Text))
	}
	m.add("<i class=\"cell %s\" title=\"%s\">%s</i>", class, s.String(), mark)
}
