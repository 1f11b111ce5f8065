package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// list writes faults with the Services that claim their values below them, and of many faults the first ones only.
func (s *Screen) list(indent int, faults []Fault) {
	rest := 0
	if !s.all && len(faults) > shortList+1 { // one row takes no more room than its count
		rest = len(faults) - shortList
		faults = faults[:shortList]
	}
	var rows, claimants [][]string
	for i, f := range faults {
		rows = append(rows, f.row)
		if i > 0 && f.Value == faults[i-1].Value { // the same claimants
			faults[i].claimants = nil
		}
		claimants = append(claimants, faults[i].claimants...)
	}
	below := s.aligned(indent+2, claimants)
	for i, text := range s.aligned(indent, rows) {
		s.b.WriteString(text)
		n := len(faults[i].claimants)
		s.b.WriteString(strings.Join(below[:n], ""))
		below = below[n:]
	}
	s.more(indent, rest, FormatWide)
}

// more counts what is not shown, if there is any, and names the format that shows it.
func (s *Screen) more(indent, n int, format string) {
	if n > 0 {
		fmt.Fprintf(&s.b, "%*sand %d more (-o %s shows all)\n", indent, "", n, format)
	}
}

// Fault is one row of a list: a finding or a leak.
type Fault struct {
	severity audit.Severity
	// Reason is that of a finding, or runbook.Leak.
	Reason, Value string
	// Subject is what rangekeeper explain takes.
	Subject string
	row     []string
	// claimants are rows of all Services that claim the value of a finding, or of an unreadable object what is wrong
	// with it.
	claimants [][]string
}

// objectOf names the object of a finding, beside its value.
func objectOf(f audit.Finding) string {
	if f.Name == f.Value && f.Kind != audit.KindService {
		if f.ParentRef != "" {
			return f.Kind + " of " + f.ParentRef
		}
		return f.Kind
	}
	name := f.Name
	if f.Namespace != "" {
		name = f.Namespace + "/" + f.Name
	}
	if f.Kind == audit.KindService {
		return name
	}
	return f.Kind + " " + name
}

// FaultOf returns a finding as a row, with its message if that is wide.
func FaultOf(f audit.Finding, wide bool) Fault {
	row := []string{cmp.Or(Printable(f.Value), `""`), Printable(objectOf(f)), f.Range}
	var claimants [][]string
	for _, claimant := range claimantsOf(f) {
		claimants = append(claimants, append([]string{row[0]}, claimant...))
	}
	if wide {
		row = append(row, escaped(f.Message))
	}
	return Fault{f.Severity, f.Reason, f.Value, f.Subject(), row, claimants}
}

// claimantsOf returns name, age and what to do of each claimant of a finding's value.
func claimantsOf(f audit.Finding) (rows [][]string) {
	for _, c := range f.Claimants {
		rows = append(rows, []string{Printable(c.Namespace + "/" + c.Name), cmp.Or(c.CreationTimestamp, "unknown age"), doesAbout(f, c)})
	}
	return rows
}

// doesAbout says what a claimant does about the value. A ClusterIP never changes.
func doesAbout(f audit.Finding, c audit.Claimant) string {
	switch {
	case c.Tied:
		return "created in the same second: one of these keeps it"
	case len(f.Claimants) == 1:
		return "claims it twice: " + map[bool]string{true: "change one field", false: "recreate"}[f.Reason == rangekeeper.ReasonPortAlreadyAllocated.String()]
	case c.Keeps:
		return "keeps it"
	case f.Reason == rangekeeper.ReasonPortAlreadyAllocated.String():
		return "change or recreate"
	}
	return "recreate"
}

// FaultsOf returns the findings and leaks of a report.
func FaultsOf(r *audit.Report, wide bool) (faults []Fault) {
	for _, f := range r.Findings {
		faults = append(faults, FaultOf(f, wide))
	}
	for _, l := range r.Leaks {
		faults = append(faults, leakFault(l))
	}
	return faults
}

func leakFault(l audit.Leak) Fault {
	return Fault{l.Severity, runbook.Leak, l.Value, l.Value, []string{l.Value, l.Range}, nil}
}

// faults writes a list for each reason, in the order of the runbook, which has the worst ones first.
func (s *Screen) faults(faults []Fault, program string) {
	byReason := map[string][]Fault{}
	for _, f := range faults {
		byReason[f.Reason] = append(byReason[f.Reason], f)
	}
	for _, name := range runbook.Names() {
		list := byReason[name]
		if len(list) == 0 {
			continue
		}
		entry, _ := runbook.Named(name)
		heading := fmt.Sprintf("%s (%d)", name, len(list))
		lines := []string{heading + ": " + entry.Title}
		if s.breaksRows {
			lines = Wrapped(lines[0], s.width-2, 2)
		}
		for i, line := range lines {
			if i == 0 {
				line = strings.Replace(line, heading, s.colored(severityColors[list[0].severity], heading), 1)
			}
			s.b.WriteString("  " + line + "\n")
		}
		s.list(4, list)
		if reason := list[0].Reason; reason == rangekeeper.ReasonClusterIPAlreadyAllocated.String() || reason == rangekeeper.ReasonPortAlreadyAllocated.String() {
			text := "A stock kube-apiserver frees the value of a duplicate that goes: first see rangekeeper explain " + reason
			if reason == rangekeeper.ReasonPortAlreadyAllocated.String() {
				text += ". Services whose protocols differ break no traffic"
			}
			s.text(4, "", Called(program, text))
		}
	}
}

// Worst returns the first fault of the most severe reason.
func Worst(faults []Fault) Fault {
	order := runbook.Names()
	return slices.MinFunc(faults, func(a, b Fault) int {
		return slices.Index(order, a.Reason) - slices.Index(order, b.Reason)
	})
}
