package cli

import (
	"fmt"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/occupancy"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// pageOf returns a report as a page for a ticket.
func pageOf(r *audit.Report, maps []occupancy.Map, from *source) occupancy.Page {
	p := occupancy.Page{
		Cluster: clusterName(r.Source), Source: fmt.Sprintf("%s, revision %d, rangekeeper %s", kindTexts[r.Source.Type], r.Source.Revision, r.Source.Version), Time: r.Source.Time,
		Totals: totals(r),
		Maps:   maps,
	}
	for _, u := range r.Unreadable {
		p.Unknown = append(p.Unknown, u.Kind+" "+u.Key+" cannot be read: "+u.Message)
	}
	for _, unknown := range r.Unknown {
		p.Unknown = append(p.Unknown, unknown.Message)
	}
	for _, severity := range r.Severities() {
		n := *r.Summary.BySeverity.Of(severity)
		p.Severities = append(p.Severities, occupancy.Severity{Name: string(severity), Text: severityText(severity, n), Count: countText(n)})
	}
	for _, name := range runbook.Names() {
		e, _ := runbook.Named(name)
		g := occupancy.Group{Reason: name, Title: e.Title, Meaning: e.Meaning, Risk: e.Risk, Remedy: called(from.program, e.Remedy)}
		for _, f := range r.Findings {
			if f.Reason == name {
				g.Severity = string(f.Severity)
				row := occupancy.Row{Value: f.Value, Object: objectOf(f), Range: f.Range, Message: f.Message}
				for _, claimant := range claimantsOf(f) {
					row.Claimants = append(row.Claimants, strings.Join(claimant, ", "))
				}
				g.Rows = append(g.Rows, row)
			}
		}
		for _, l := range r.Leaks {
			if name == runbook.Leak {
				g.Severity = string(l.Severity)
				g.Rows = append(g.Rows, occupancy.Row{Value: l.Value, Range: l.Range, Message: "recorded as allocated, but no Service uses it"})
			}
		}
		if len(g.Rows) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	for _, step := range reportSteps(r, from) {
		p.Steps = append(p.Steps, occupancy.Step{Why: step.why, Command: strings.Join(step.words, " ")})
	}
	return p
}
