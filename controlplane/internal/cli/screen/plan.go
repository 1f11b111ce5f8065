package screen

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Plan writes a program's plan for people: the number of changes per range, what becomes of each finding and leak, and
// the next commands, with a page of the documents.
func (s *Screen) Plan(p *audit.Plan, steps []Step, page, program string) {
	s.Source(p.Source)
	state := "not applied); "
	switch {
	case p.Incomplete && p.Applied:
		state = "applied, and ended before the rest); left: "
	case p.Incomplete:
		state = "ended before anything was written); "
	case p.Applied && !p.ChangesAny() && len(p.ServerObjects) == 0:
		state = "nothing to write); left: "
	case p.Applied:
		state = "applied); left: "
	}
	changed := changesText(p)
	if n := p.LookedAtAgain(); n > 0 && !p.Applied {
		changed += ", " + Count(n, "finding") + " to look at again"
	}
	s.text(0, bold, fmt.Sprintf("%s (%s%s, %d for the owners; %s", changed, state,
		several(p.Summary.Findings, "finding"), p.Summary.LeftToOwners, several(p.Summary.Leaks, "leak")))
	s.counts(p.Summary.BySeverity, audit.SeveritiesOfValues, p.Unknown)
	s.Blank()
	var rows [][]string
	for _, r := range p.Ranges {
		values := r.Range
		if r.Action == audit.ActionDelete { // its range is not known
			values = "deleted"
		}
		rows = append(rows, []string{r.Name, values, fmt.Sprint(len(r.Set)), fmt.Sprint(len(r.Clear))})
	}
	s.table(0, []string{"RANGE", "VALUES", "SET", "CLEAR"}, rows)
	if p.ServiceCIDR != nil {
		s.Blank()
		s.text(0, bold, "Created in the snapshot: 1")
		s.text(2, "", fmt.Sprintf("ServiceCIDR %s: %s", p.ServiceCIDR.Name, strings.Join(p.ServiceCIDR.CIDRs, ", ")))
	}
	planned := planRows(p)
	for _, repair := range []string{repairFailed, repairRange, repairSet, repairClear, repairServers, repairObject, repairByServer, repairRunning, repairLooked, repairAgain, repairLater} {
		var some []Fault
		for _, row := range planned {
			if row.repair == repair {
				some = append(some, row.Fault)
			}
		}
		s.planGroup(repair, some, program)
	}
	objects, others, owners := PlanLeft(p, s.all)
	s.planGroup("An administrator must delete the IPAddress object", objects, program)
	s.planGroup("Only an administrator can repair", others, program)
	s.planGroup("Only the owner of the Service can repair", owners, program)
	s.unknown(p.Unknown)
	if len(steps) > 0 {
		s.next(steps, page)
	}
}

// changesText counts what a plan changes.
func changesText(p *audit.Plan) string {
	changed := fmt.Sprintf("%d set, %d cleared", p.Summary.Set, p.Summary.Clear)
	if n := len(p.Objects); n > 0 {
		changed += ", " + Count(n, "IPAddress object") + " changed"
	}
	if p.ServiceCIDR != nil {
		changed += ", 1 ServiceCIDR created"
	}
	return changed + serversText(p.ServerObjects)
}

// WrittenText says what a repair that ended before all was done has written.
func WrittenText(p *audit.Plan) string {
	if !p.Applied {
		return "nothing was written"
	}
	return "written before that: " + changesText(p)
}

// PlanLeft returns the findings that no repair can repair: those about IPAddress objects, which an administrator must
// delete, others for an administrator, and those for the owners of Services.
func PlanLeft(p *audit.Plan, wide bool) (objects, others, owners []Fault) {
	for _, f := range p.LeftToOwners() {
		switch fault := FaultOf(f, wide); {
		case f.Kind == audit.KindIPAddress:
			objects = append(objects, fault)
		case f.IsOfBootstrap(), f.IsLost():
			others = append(others, fault)
		default:
			owners = append(owners, fault)
		}
	}
	return objects, others, owners
}

// serversText counts what of the API servers' objects is written and deleted.
func serversText(all []audit.ServerObject) (text string) {
	counts := map[string]int{}
	for _, o := range all {
		counts[o.Kind+" "+o.Action]++
	}
	for _, one := range []struct{ key, noun, verb string }{
		{audit.KindMasterLease + " " + audit.ActionDelete, "server lease", "deleted"},
		{audit.KindEndpointSlice + " " + audit.ActionDelete, "EndpointSlice", "deleted"},
		{audit.KindEndpoints + " " + audit.ActionWrite, "Endpoints object", "written"},
		{audit.KindEndpointSlice + " " + audit.ActionWrite, "EndpointSlice", "written"},
	} {
		if n := counts[one.key]; n > 0 {
			text += ", " + Count(n, one.noun) + " " + one.verb
		}
	}
	return text
}

func (s *Screen) planGroup(title string, faults []Fault, program string) {
	if len(faults) > 0 {
		s.Blank()
		s.text(0, bold, fmt.Sprintf("%s: %d", title, len(faults)))
		s.faults(faults, program)
	}
}

// What becomes of a finding or a leak without the help of an owner.
const (
	repairFailed   = "Failed"
	repairRange    = "Set up from the Services"
	repairSet      = "Set in the bitmap"
	repairClear    = "Cleared in the bitmap"
	repairByServer = "Repaired by kube-apiserver at its start"
	repairObject   = "Repaired in the snapshot"
	repairServers  = "Of the API servers, repaired"
	repairLater    = "Stays for now"
	repairRunning  = "Repaired by each API server that runs or starts"
	repairAgain    = "Left to another repair --apply, which looks at it twice"
	repairLooked   = "Repaired by --apply, if a second look 30 seconds later finds it as it is"
)

// planRow is a finding or a leak with its repair.
type planRow struct {
	Fault
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
		case f.IsLost() && f.Remedy == rangekeeper.RemedyRepair:
			rows = append(rows, planRow{FaultOf(f, false), repairRange})
		case p.RepairsServers(f):
			rows = append(rows, planRow{FaultOf(f, false), repairServers})
		case f.IsOfBootstrap() && f.Stays && p.Applied:
			rows = append(rows, planRow{FaultOf(f, false), repairAgain})
		case f.IsOfBootstrap() && f.Stays:
			rows = append(rows, planRow{FaultOf(f, false), repairLooked})
		case f.IsOfBootstrap() && f.Remedy == rangekeeper.RemedyAPIServer:
			rows = append(rows, planRow{FaultOf(f, false), repairRunning})
		case f.Remedy == rangekeeper.RemedyAPIServer:
			rows = append(rows, planRow{FaultOf(f, false), byServer})
		case f.Stays:
			rows = append(rows, planRow{FaultOf(f, false), repairLater})
		case cleared[at]:
			rows = append(rows, planRow{FaultOf(f, false), repairClear})
		case f.Remedy == rangekeeper.RemedyRepair && set[at]:
			rows = append(rows, planRow{FaultOf(f, false), repairSet})
		case f.Remedy == rangekeeper.RemedyRepair:
			rows = append(rows, planRow{FaultOf(f, false), repairFailed})
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
