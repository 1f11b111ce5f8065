package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// writePlan writes a plan as tables: the number of changes per range, the findings
// with their repairs, and those that are left to the owners of Services.
func writePlan(w io.Writer, p *audit.Plan) error {
	left := p.LeftToOwners()
	var t table
	var ranges [][]string
	set, clear := 0, 0
	for _, r := range p.Ranges {
		set, clear = set+len(r.Set), clear+len(r.Clear)
		ranges = append(ranges, []string{r.Name, r.Range, fmt.Sprint(len(r.Set)), fmt.Sprint(len(r.Clear))})
	}
	t.add("", []string{"RANGE", "VALUES", "SET", "CLEAR"}, ranges)
	var rows [][]string
	for _, m := range planRows(p) {
		rows = append(rows, []string{m.in, m.value, m.found, m.namespace, m.name, m.repair})
	}
	t.add("Found, and what the repair does", []string{"RANGE", "VALUE", "FOUND", "NAMESPACE", "NAME", "REPAIR"}, rows)
	t.addFindings("Only the owner can repair", left, true)
	state := "not applied"
	if p.Applied {
		state = "applied"
	}
	fmt.Fprintf(&t.b, "\n%d set, %d cleared (%s); %s, %s left to the owners; %s\n",
		set, clear, state, count(len(p.Findings), "finding"), fmt.Sprint(len(left)), count(len(p.Leaks), "leak"))
	_, err := w.Write(t.b.Bytes())
	return err
}

// planRow is a finding about a value, with its repair without an owner's help.
type planRow struct{ in, value, found, namespace, name, repair string }

// planRows returns all of a plan, sorted by range and value.
func planRows(p *audit.Plan) []planRow {
	var rows []planRow
	type place struct{ name, value string }
	changes := map[place]int{}
	for _, r := range p.Ranges {
		for _, value := range r.Set {
			changes[place{r.Name, value}] = len(rows)
			rows = append(rows, planRow{in: r.Name, value: value, repair: "set"})
		}
		for _, value := range r.Clear {
			changes[place{r.Name, value}] = len(rows)
			rows = append(rows, planRow{in: r.Name, value: value, found: leak, repair: "clear"})
		}
	}
	const byServer = "by kube-apiserver at its start"
	for _, f := range p.Findings {
		switch f.Remedy {
		case rangekeeper.RemedyRepair:
			if i, ok := changes[place{f.Range, f.Value}]; ok {
				rows[i].found, rows[i].namespace, rows[i].name = f.Reason, f.Namespace, f.Name
			} else {
				rows = append(rows, planRow{f.Range, f.Value, f.Reason, f.Namespace, f.Name, "failed"})
			}
		case rangekeeper.RemedyAPIServer:
			rows = append(rows, planRow{f.Range, printable(f.Value), f.Reason, f.Namespace, f.Name, byServer})
		}
	}
	for _, l := range p.Leaks {
		switch {
		case l.Stays:
			rows = append(rows, planRow{in: l.Range, value: l.Value, found: leak, repair: "stays for now"})
		case l.Remedy == rangekeeper.RemedyAPIServer:
			rows = append(rows, planRow{in: l.Range, value: l.Value, found: leak, repair: byServer})
		}
	}
	slices.SortStableFunc(rows, func(a, b planRow) int {
		return cmp.Or(cmp.Compare(a.in, b.in), cmp.Compare(a.value, b.value))
	})
	return rows
}

// leak stands in a table where a finding has its reason.
const leak = "leak"
