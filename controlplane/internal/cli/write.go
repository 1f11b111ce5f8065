package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
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

func (t *table) addRanges(ranges []audit.Range) { t.add("", rangeHeader, rangeRows(ranges)) }

// writeTo writes the table between its source and what that does not show.
func (t *table) writeTo(w io.Writer, from *audit.Source, unknown []audit.Unknown) error {
	s := newScreen(w, true)
	s.source(from)
	s.b.Write(t.b.Bytes())
	s.unknown(unknown)
	return s.writeTo(w)
}

// printable shows a text that someone wrote where an address belongs without
// handing control characters to the terminal.
func printable(value string) string {
	if quoted := fmt.Sprintf("%q", value); quoted != `"`+value+`"` {
		return quoted
	}
	return value
}

// reportScreen is a report for people, with maps of its ranges, if there are any, and the next commands for its source.
func reportScreen(s *screen, r *audit.Report, maps string, source *source) {
	s.source(r.Source)
	if r.Has(audit.Wasted) || r.Hides(audit.Wasted) {
		s.counts(r.Summary.BySeverity, r.Severities())
		s.text(0, "", totals(r))
	} else if r.Namespace != "" {
		s.text(0, bold, "ok: nothing found about Services of namespace "+printable(r.Namespace))
	} else {
		s.text(0, bold, "ok: nothing found in "+count(int(r.Summary.Services), "Service"))
	}
	s.blank()
	s.ranges(r.Ranges)
	s.unreadable(r.Unreadable)
	s.unknown(r.Unknown)
	var faults []fault
	for _, f := range r.Findings {
		faults = append(faults, faultOf(f, s.all))
	}
	for _, l := range r.Leaks {
		faults = append(faults, leakFault(l))
	}
	for _, severity := range audit.Severities {
		some := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.severity != severity })
		if len(some) == 0 {
			continue
		}
		s.blank()
		s.text(0, bold, severityTitles[severity])
		s.faults(some, source.program)
	}
	if maps != "" {
		s.b.WriteString("\n" + maps)
	}
	page := ""
	if len(faults) > 0 {
		first, _ := runbook.Named(worst(faults).reason)
		page = first.Page()
	}
	if steps := reportSteps(r, source); len(steps) > 0 {
		s.next(steps, page)
	}
}

func totals(r *audit.Report) string {
	text := several(r.Summary.Findings, "finding")
	if r.Namespace != "" {
		text += " about Services of namespace " + printable(r.Namespace)
	} else {
		text += ", " + several(r.Summary.Leaks, "leak")
	}
	text += ", " + count(int(r.Summary.Services), "Service")
	if n := r.Summary.Unreadable; n > 0 {
		text += ", " + count(n, "object") + " that cannot be read"
	}
	return text
}

// reportSteps are the commands that follow an audit, if any do.
func reportSteps(r *audit.Report, source *source) []step {
	var faults []fault
	var deleted []fault
	for _, f := range r.Findings {
		faults = append(faults, faultOf(f, false))
		if f.Kind == audit.KindIPAddress && f.Remedy == rangekeeper.RemedyOwner {
			deleted = append(deleted, faultOf(f, false))
		}
	}
	for _, l := range r.Leaks {
		faults = append(faults, leakFault(l))
	}
	var steps []step
	if len(faults) > 0 {
		steps = source.explainSteps(worst(faults))
	}
	if slices.ContainsFunc(r.Findings, func(f audit.Finding) bool {
		return f.Severity == audit.Exhausted && f.Kind == audit.KindServiceCIDR
	}) {
		steps = append(steps, step{"add addresses, once you have put a CIDR into this ServiceCIDR", append([]string{"echo " + quoted(runbook.ServiceCIDR), "|"}, source.kubectl("create -f -")...)})
	}
	steps = append(steps, source.deleteSteps(deleted)...)
	if r.SuspectsLeaks {
		steps = append(steps, source.probeStep(r))
	}
	return append(steps, source.repairSteps(r)...)
}

// unreadable lists the objects that cannot be decoded.
func (s *screen) unreadable(all []audit.Unreadable) {
	if len(all) == 0 {
		return
	}
	s.blank()
	s.text(0, bold, fmt.Sprintf("Cannot be read: %d", len(all)))
	var faults []fault
	for _, u := range all {
		f := fault{value: u.Key, row: []string{u.Kind, printable(u.Key)}}
		for _, line := range wrapped(printable(u.Message), s.width-4, 0) {
			f.claimants = append(f.claimants, []string{line})
		}
		faults = append(faults, f)
	}
	s.list(2, faults)
	var uncertain []string
	for _, u := range all {
		if !slices.Contains(uncertain, u.Uncertain) {
			uncertain = append(uncertain, u.Uncertain)
		}
	}
	for _, text := range uncertain {
		s.text(2, "", "Uncertain, as "+text)
	}
	s.text(2, "", "Restore or delete these keys: kube-apiserver cannot read the objects either, or shows them under the names of others. Until then leaks stay, and a repair writes nothing.")
}

// unknown lists what the source cannot see.
func (s *screen) unknown(all []audit.Unknown) {
	if len(all) == 0 {
		return
	}
	s.blank()
	s.text(0, bold, "Unknown")
	for _, unknown := range all {
		for _, line := range wrapped("- "+unknown.Message, s.width-2, 2) {
			s.b.WriteString("  " + line + "\n")
		}
	}
}

var severityTitles = map[audit.Severity]string{
	audit.BreaksTraffic: "Breaks traffic now", audit.DuplicateRisk: "May be handed out twice", audit.Exhausted: "Full or nearly full",
	audit.Wasted: "Wasted",
}

// several is "at least 3 leaks" if the source may not show all.
func several(n audit.Count, what string) string {
	if n.IsAtLeast {
		return "at least " + count(n.Found, what)
	}
	return count(n.Found, what)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
