package audit

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Plan is the document that says what a repair changes.
type Plan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Ranges are the bitmaps; IPAddress objects are repaired by kube-apiserver at
	// its start.
	Ranges   []RangePlan `json:"ranges"`
	Findings []Finding   `json:"findings"`
	Leaks    []Leak      `json:"leaks"`
	Summary  PlanSummary `json:"summary"`
	// Applied reports whether it was carried out.
	Applied bool `json:"applied"`
}

// RangePlan is what changes in one bitmap, values ascending.
type RangePlan struct {
	Name  string   `json:"name"`
	Range string   `json:"range"`
	Set   []string `json:"set"`
	Clear []string `json:"clear"`
}

// PlanSummary counts.
type PlanSummary struct {
	Set   int `json:"set"`
	Clear int `json:"clear"`
	// LeftToOwners are the findings that only the owners of Services can repair.
	LeftToOwners int        `json:"leftToOwners"`
	Findings     int        `json:"findings"`
	Leaks        int        `json:"leaks"`
	BySeverity   BySeverity `json:"bySeverity"`
}

// summarize counts what the lists hold.
func (p *Plan) summarize() {
	p.Summary = PlanSummary{
		LeftToOwners: len(p.LeftToOwners()), Findings: len(p.Findings), Leaks: len(p.Leaks),
		BySeverity: countSeverities(p.Findings, p.Leaks),
	}
	for _, r := range p.Ranges {
		p.Summary.Set += len(r.Set)
		p.Summary.Clear += len(r.Clear)
	}
}

// LeftToOwners returns the findings that only the owners of Services can repair.
func (p *Plan) LeftToOwners() []Finding {
	var all []Finding
	for _, f := range p.Findings {
		if f.Remedy == rangekeeper.RemedyOwner {
			all = append(all, f)
		}
	}
	return all
}

// Restrict makes the plan one of these changes only: other leaks stay.
func (p *Plan) Restrict(ranges []RangePlan) {
	p.Ranges = ranges
	for i := range p.Leaks {
		l := &p.Leaks[i]
		l.Stays = l.Remedy == rangekeeper.RemedyRepair && !slices.ContainsFunc(ranges, func(r RangePlan) bool {
			return r.Name == l.Range && slices.Contains(r.Clear, l.Value)
		})
	}
	p.summarize()
}

// ChangesAny reports whether a value is set or cleared.
func (p *Plan) ChangesAny() bool {
	return slices.ContainsFunc(p.Ranges, func(r RangePlan) bool { return len(r.Set)+len(r.Clear) > 0 })
}

// Leaves reports whether changes are not applied, or whether anything is left after them.
func (p *Plan) Leaves() bool {
	repaired := func(f Finding) bool {
		return slices.ContainsFunc(p.Ranges, func(r RangePlan) bool {
			return r.Name == f.Range && (slices.Contains(r.Set, f.Value) || slices.Contains(r.Clear, f.Value))
		})
	}
	return !p.Applied && p.ChangesAny() ||
		slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Remedy != rangekeeper.RemedyRepair || !repaired(f) }) ||
		slices.ContainsFunc(p.Leaks, func(l Leak) bool { return l.Stays || l.Remedy != rangekeeper.RemedyRepair })
}

// LeaksLeft is the number of leaks in bitmaps that stay for now, as they may still
// come into use. Bits beside IPAddress objects that no object has are among them.
func (p *Plan) LeaksLeft() int {
	n := 0
	for _, f := range p.Findings {
		if f.Stays {
			n++
		}
	}
	for _, l := range p.Leaks {
		if l.Stays {
			n++
		}
	}
	return n
}

// After adds what earlier passes of the same repair have done. What they have found
// and could not repair is found again, if it is still there.
func (p *Plan) After(earlier *Plan) {
	for _, before := range earlier.Ranges {
		i := slices.IndexFunc(p.Ranges, func(r RangePlan) bool { return r.Name == before.Name })
		if i < 0 {
			p.Ranges = append(p.Ranges, before)
			continue
		}
		p.Ranges[i].Set = union(before.Set, p.Ranges[i].Set)
		p.Ranges[i].Clear = union(before.Clear, p.Ranges[i].Clear)
	}
	p.sortRanges()
	for _, f := range earlier.Findings {
		if f.Remedy == rangekeeper.RemedyRepair && !f.Stays {
			p.Findings = append(p.Findings, f)
		}
	}
	sortFindings(p.Findings)
	p.Findings = slices.CompactFunc(p.Findings, func(a, b Finding) bool { return reflect.DeepEqual(a, b) })
	p.summarize()
}

func union(a, b []string) []string {
	all := append(append([]string{}, a...), b...) // never nil, which is null in JSON
	slices.SortFunc(all, CompareValues)
	return slices.Compact(all)
}

func (p *Plan) sortRanges() {
	slices.SortFunc(p.Ranges, func(a, b RangePlan) int { return cmp.Compare(a.Name, b.Name) })
}

// Plan returns what a repair changes: the document of what is to be done, or of what
// was done, once the core's report has recorded it.
func (a *Audit) Plan() (*Plan, error) {
	p := &Plan{APIVersion: APIVersion, Kind: KindRepairPlan, Ranges: []RangePlan{}}
	for i, r := range a.ranges {
		if r.record == rangekeeper.RecordBitmap {
			set, clear := textsOf(a.core.Values(i, rangekeeper.ValuesSet)), textsOf(a.core.Values(i, rangekeeper.ValuesClear))
			p.Ranges = append(p.Ranges, RangePlan{Name: r.name, Range: r.text, Set: set, Clear: clear})
		}
	}
	p.sortRanges()
	var err error
	if p.Findings, err = a.findings(); err != nil {
		return nil, err
	}
	if p.Leaks, err = a.leaks(); err != nil {
		return nil, err
	}
	p.summarize()
	return p, nil
}

func textsOf(values iter.Seq[rangekeeper.Value]) []string {
	all := []string{}
	for value := range values {
		all = append(all, value.String())
	}
	return all
}

// NewValues returns what is to be stored for the bitmaps that change, by key.
func (a *Audit) NewValues() (map[string][]byte, error) {
	all := map[string][]byte{}
	for i, r := range a.ranges {
		counts := a.core.Range(i)
		if r.record != rangekeeper.RecordBitmap || counts.Set+counts.Clear == 0 {
			continue
		}
		value, err := a.encode(i)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", r.stored.Key, err)
		}
		all[r.stored.Key] = value
	}
	return all, nil
}

// Core returns the core's report, which stays the audit's.
func (a *Audit) Core() *rangekeeper.Report { return a.core }

// encode puts the repaired bitmap into a copy of the stored object.
func (a *Audit) encode(index int) ([]byte, error) {
	data, err := a.core.Snapshot(index, nil)
	if err != nil {
		return nil, err
	}
	object, err := rangekeeper.DecodeRangeAllocation(a.ranges[index].stored.Value)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	if err := object.Set(a.ranges[index].text, data); err != nil {
		return nil, err
	}
	return object.Encode(nil)
}
