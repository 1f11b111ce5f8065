package screen

import (
	"fmt"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/picture"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// PageOf returns a report of a program's audit as a page for a ticket.
func PageOf(r *audit.Report, maps []picture.Map, steps []Step, program string) picture.Page {
	p := picture.Page{
		Cluster: clusterName(r.Source), Source: fmt.Sprintf("%s, revision %d, rangekeeper %s", kindTexts[r.Source.Type], r.Source.Revision, r.Source.Version), Time: r.Source.Time,
		Totals: totals(r),
		Maps:   maps,
	}
	if r.Ignored != nil {
		p.Totals += "; " + IgnoredText(r.Ignored)
	}
	for _, u := range r.Unreadable {
		p.Unknown = append(p.Unknown, u.Kind+" "+u.Key+" cannot be read: "+u.Message)
	}
	for _, unknown := range r.Unknown {
		p.Unknown = append(p.Unknown, unknown.Message)
	}
	for _, severity := range r.Severities() {
		n := *r.Summary.BySeverity.Of(severity)
		text, what := severityText(severity, n), audit.NotShown(r.Unknown, severity)
		if len(what) > 0 {
			text += "; " + notShownText(what)
		}
		p.Severities = append(p.Severities, picture.Severity{Name: string(severity), Text: text, Count: countText(n, what)})
	}
	for _, name := range runbook.Names() {
		e, _ := runbook.Named(name)
		g := picture.Group{Reason: name, Title: e.Title, Meaning: e.Meaning, Risk: e.Risk, Remedy: Called(program, e.Remedy)}
		for _, f := range r.Findings {
			if f.Reason == name {
				g.Severity = string(f.Severity)
				row := picture.Row{Value: f.Value, Object: objectOf(f), Range: f.Range, Message: f.Message}
				for _, claimant := range claimantsOf(f) {
					row.Claimants = append(row.Claimants, strings.Join(claimant, ", "))
				}
				g.Rows = append(g.Rows, row)
			}
		}
		for _, l := range r.Leaks {
			if name == runbook.Leak {
				g.Severity = string(l.Severity)
				g.Rows = append(g.Rows, picture.Row{Value: l.Value, Range: l.Range, Message: "recorded as allocated, but no Service uses it"})
			}
		}
		if len(g.Rows) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	for _, step := range steps {
		p.Steps = append(p.Steps, picture.Step{Why: step.Why, Command: strings.Join(step.Words, " ")})
	}
	return p
}
