package screen

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// Report writes a report of a program's audit for people, with maps of its ranges, if there are any, and the next
// commands.
func (s *Screen) Report(r *audit.Report, maps string, steps []Step, program string) {
	s.Source(r.Source)
	found, hidden := r.Has(audit.Wasted), r.Hides(audit.Wasted)
	if !found {
		s.text(0, bold, fine(r))
	}
	if found || hidden {
		s.counts(r.Summary.BySeverity, r.Severities(), r.Unknown)
	}
	if found {
		s.text(0, "", totals(r))
	}
	s.ignored(r.Ignored)
	s.Blank()
	s.ranges(r.Ranges)
	s.unreadable(r.Unreadable)
	s.unknown(r.Unknown)
	faults := FaultsOf(r, s.all)
	for _, severity := range audit.Severities {
		some := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return f.severity != severity })
		if len(some) == 0 {
			continue
		}
		s.Blank()
		s.text(0, bold, severityTitles[severity])
		s.faults(some, program)
	}
	if maps != "" {
		s.Blank()
		s.maps(maps)
	}
	page := ""
	if len(faults) > 0 {
		first, _ := runbook.Named(Worst(faults).Reason)
		page = first.Page()
	}
	if len(steps) > 0 {
		s.next(steps, page)
	}
}

// fine says that nothing was found, and where there may be something all the same.
func fine(r *audit.Report) string {
	text := "ok: nothing found"
	if r.Hides(audit.Wasted) {
		shownBy := map[string]string{
			audit.FromAPI: "the Kubernetes API", audit.FromSnapshot: "the snapshot", audit.FromKine: "the database", audit.FromEtcd: "etcd",
		}
		text = "ok for all that " + shownBy[r.Source.Type] + " shows: nothing found"
	}
	if r.Namespace != "" {
		return text + " about Services of namespace " + Printable(r.Namespace)
	}
	return text + " in " + Count(int(r.Summary.Services), "Service")
}

// ignored says what a list of known faults leaves out, and which of its entries are of no use any more.
func (s *Screen) ignored(i *audit.Ignored) {
	if i == nil {
		return
	}
	s.text(0, "", IgnoredText(i))
	var rows [][]string
	for _, entries := range []struct {
		what string
		all  []audit.IgnoreEntry
	}{{"expired", i.Expired}, {"unmatched", i.Unmatched}} {
		for _, e := range entries.all {
			rows = append(rows, []string{entries.what, e.Reason, Printable(strings.TrimSpace(string(e.Value) + " " + e.Object)), e.Expires, Printable(e.Comment)})
		}
	}
	for _, line := range s.aligned(2, rows) {
		s.b.WriteString(line)
	}
}

// IgnoredText counts what a list of known faults leaves out, and its entries that ignore nothing.
func IgnoredText(i *audit.Ignored) string {
	text := Count(i.Findings, "finding")
	if i.Leaks > 0 {
		text += " and " + Count(i.Leaks, "leak")
	}
	text += " ignored by " + Printable(i.File)
	if n := len(i.Expired); n == 1 {
		text += ", 1 entry expired"
	} else if n > 1 {
		text += fmt.Sprintf(", %d entries expired", n)
	}
	if n := len(i.Unmatched); n == 1 {
		text += ", 1 entry matches nothing"
	} else if n > 1 {
		text += fmt.Sprintf(", %d entries match nothing", n)
	}
	return text
}

// maps writes maps of ranges, whose lines are never broken.
func (s *Screen) maps(maps string) {
	widest := 0
	for line := range strings.Lines(maps) {
		widest = max(widest, utf8.RuneCountInString(line)-1)
	}
	if s.breaksRows && widest > s.width {
		s.text(0, "", fmt.Sprintf("The maps of the ranges need a terminal of %d columns; -o html draws them, too.", widest))
		return
	}
	s.b.WriteString(maps)
}

func totals(r *audit.Report) string {
	text := Count(r.Summary.Findings.Found, "finding")
	if r.Namespace != "" {
		text += " about Services of namespace " + Printable(r.Namespace)
	} else {
		text += ", " + Count(r.Summary.Leaks.Found, "leak")
	}
	text += ", " + Count(int(r.Summary.Services), "Service")
	if n := r.Summary.Unreadable; n > 0 {
		text += ", " + Count(n, "object") + " that cannot be read"
	}
	if r.Hides(audit.Wasted) {
		text += "; there may be more"
	}
	return text
}

// unreadable lists the objects that cannot be decoded.
func (s *Screen) unreadable(all []audit.Unreadable) {
	if len(all) == 0 {
		return
	}
	s.Blank()
	s.text(0, bold, fmt.Sprintf("Cannot be read: %d", len(all)))
	var faults []Fault
	for _, u := range all {
		f := Fault{Value: u.Key, row: []string{u.Kind, Printable(u.Key)}}
		for _, line := range Wrapped(escaped(u.Message), s.width-4, 0) {
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
	objects := "these objects"
	if slices.ContainsFunc(all, func(u audit.Unreadable) bool { return u.Encrypted }) {
		objects = "the other objects"
		s.text(2, "", "What is encrypted at rest is no fault: "+clusterstate.ReadOverAPI+". In an etcd leaks stay, and a repair writes nothing.")
	}
	if slices.ContainsFunc(all, func(u audit.Unreadable) bool { return !u.Encrypted }) {
		s.text(2, "", "Look at "+objects+" with kubectl. Restore or delete a key if kube-apiserver cannot read the object either, or shows it under the name of another one; if it reads the object, only this version of rangekeeper does not. Until then leaks stay, and a repair writes nothing.")
	}
}

// unknown lists what the source cannot see.
func (s *Screen) unknown(all []audit.Unknown) {
	if len(all) == 0 {
		return
	}
	s.Blank()
	s.text(0, bold, "Unknown")
	for _, unknown := range all {
		for _, line := range Wrapped("- "+escaped(unknown.Message), s.width-2, 2) {
			s.b.WriteString("  " + line + "\n")
		}
	}
}

var severityTitles = map[audit.Severity]string{
	audit.BreaksTraffic: "Breaks traffic now", audit.DuplicateRisk: "May be handed out twice", audit.Exhausted: "Full or nearly full",
	audit.Wasted: "Wasted",
}
