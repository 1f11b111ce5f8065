package cli

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// planScreen is a plan for people: the number of changes per range, and what becomes of each finding and leak.
func planScreen(s *screen, p *audit.Plan, r *repair) {
	source := r.source
	s.source(p.Source)
	state := "not applied); "
	switch {
	case p.Applied && !p.ChangesAny():
		state = "nothing to write); left: "
	case p.Applied:
		state = "applied); left: "
	}
	changed := fmt.Sprintf("%d set, %d cleared", p.Summary.Set, p.Summary.Clear)
	if n := len(p.Objects); n > 0 {
		changed += ", " + count(n, "IPAddress object") + " changed"
	}
	if p.ServiceCIDR != nil {
		changed += ", 1 ServiceCIDR created"
	}
	s.text(0, bold, fmt.Sprintf("%s (%s%s, %d for the owners; %s", changed, state,
		several(p.Summary.Findings, "finding"), p.Summary.LeftToOwners, several(p.Summary.Leaks, "leak")))
	s.counts(p.Summary.BySeverity, audit.SeveritiesOfValues)
	s.blank()
	rows := [][]string{{"RANGE", "VALUES", "SET", "CLEAR"}}
	for _, r := range p.Ranges {
		rows = append(rows, []string{r.Name, r.Range, fmt.Sprint(len(r.Set)), fmt.Sprint(len(r.Clear))})
	}
	s.rows(0, rows)
	if p.ServiceCIDR != nil {
		s.blank()
		s.text(0, bold, "Created in the snapshot: 1")
		s.text(2, "", fmt.Sprintf("ServiceCIDR %s: %s", p.ServiceCIDR.Name, strings.Join(p.ServiceCIDR.CIDRs, ", ")))
	}
	planned := planRows(p)
	for _, repair := range []string{repairFailed, repairSet, repairClear, repairObject, repairByServer, repairLater} {
		var some []fault
		for _, row := range planned {
			if row.repair == repair {
				some = append(some, row.fault)
			}
		}
		s.planGroup(repair, some, source.program)
	}
	var owners, objects []fault
	for _, f := range p.LeftToOwners() {
		if f.Kind == audit.KindIPAddress {
			objects = append(objects, faultOf(f, s.all))
		} else {
			owners = append(owners, faultOf(f, s.all))
		}
	}
	s.planGroup("An administrator must delete the IPAddress object", objects, source.program)
	s.planGroup("Only the owner of the Service can repair", owners, source.program)

	var steps []step
	page := ""
	switch {
	case !p.Applied && p.ChangesAny():
		steps = append(steps, r.applyStep())
	case p.Applied && r.toFile != "":
		page = "docs/runbook.md#restore-a-repaired-snapshot"
		steps = append(steps, step{"check the repaired snapshot, then restore it as the runbook says", []string{source.program, "audit", "--etcd-snapshot " + quoted(r.toFile)}})
	case p.Applied:
		steps = append(steps, step{"check the result", source.command("audit")})
	}
	steps = append(steps, source.deleteSteps(objects)...)
	if owners = append(objects, owners...); len(owners) > 0 {
		first := worst(owners)
		steps = append(steps, source.explainSteps(first)...)
		if page == "" {
			entry, _ := runbook.Named(first.reason)
			page = entry.Page()
		}
	}
	if len(steps) > 0 {
		s.next(steps, page)
	}
}

func (s *screen) planGroup(title string, faults []fault, program string) {
	if len(faults) > 0 {
		s.blank()
		s.text(0, bold, fmt.Sprintf("%s: %d", title, len(faults)))
		s.faults(faults, program)
	}
}

// What becomes of a finding or a leak without the help of an owner.
const (
	repairFailed   = "Failed"
	repairSet      = "Set in the bitmap"
	repairClear    = "Cleared in the bitmap"
	repairByServer = "Repaired by kube-apiserver at its start"
	repairObject   = "Repaired in the snapshot"
	repairLater    = "Stays for now"
)

// planRow is a finding or a leak with its repair.
type planRow struct {
	fault
	repair string
}

// planRows returns all that an owner need not repair, sorted by range and value.
func planRows(p *audit.Plan) []planRow {
	type place struct{ name, value string }
	set, cleared := map[place]bool{}, map[place]bool{}
	byServer := repairByServer
	if len(p.Objects) > 0 {
		byServer = repairObject
	}
	// A value that is recorded beside IPAddress objects has a finding, or its object is the leak.
	hasRow := sets.New[string]()
	for _, f := range p.Findings {
		hasRow.Insert(f.Value)
	}
	for _, l := range p.Leaks {
		if l.Remedy == rangekeeper.RemedyAPIServer {
			hasRow.Insert(l.Value)
		}
	}
	var rows []planRow
	for _, r := range p.Ranges {
		for _, value := range r.Set {
			set[place{r.Name, value}] = true
		}
		for _, value := range r.Clear {
			at := place{r.Name, value}
			cleared[at] = true
			if !hasRow.Has(value) {
				rows = append(rows, planRow{leakFault(audit.Leak{Severity: audit.Wasted, Range: r.Name, Value: value}), repairClear})
			}
		}
	}
	for _, f := range p.Findings {
		at := place{f.Range, f.Value}
		switch {
		case f.Remedy == rangekeeper.RemedyAPIServer:
			rows = append(rows, planRow{faultOf(f, false), byServer})
		case f.Stays:
			rows = append(rows, planRow{faultOf(f, false), repairLater})
		case cleared[at]:
			rows = append(rows, planRow{faultOf(f, false), repairClear})
		case f.Remedy == rangekeeper.RemedyRepair && set[at]:
			rows = append(rows, planRow{faultOf(f, false), repairSet})
		case f.Remedy == rangekeeper.RemedyRepair:
			rows = append(rows, planRow{faultOf(f, false), repairFailed})
		}
	}
	for _, l := range p.Leaks {
		switch {
		case l.Stays:
			rows = append(rows, planRow{leakFault(l), repairLater})
		case l.Remedy == rangekeeper.RemedyAPIServer:
			rows = append(rows, planRow{leakFault(l), byServer})
		}
	}
	return rows
}
