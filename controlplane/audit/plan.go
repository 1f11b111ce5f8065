package audit

import (
	"cmp"
	"fmt"
	"iter"
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
	// Applied reports whether it was carried out.
	Applied bool `json:"applied"`

	// left is how many leaks in bitmaps the last pass did not clear.
	left int
}

// RangePlan is what changes in one bitmap, values ascending.
type RangePlan struct {
	Name  string   `json:"name"`
	Range string   `json:"range"`
	Set   []string `json:"set"`
	Clear []string `json:"clear"`
}

// Unrepairable returns the findings that only the owner of a Service can repair.
func (p *Plan) Unrepairable() []Finding {
	var all []Finding
	for _, f := range p.Findings {
		if !f.Repairable {
			all = append(all, f)
		}
	}
	return all
}

// LeaksLeft says how many leaks of the last pass it did not clear, as they may
// still come into use.
func (p *Plan) LeaksLeft() int { return p.left }

// Repaired records the outcome of the repair of a bitmap: only that is set and
// cleared. The plan has no bitmap that is stale.
func (p *Plan) Repaired(name string, set, clear []rangekeeper.Value) {
	i := slices.IndexFunc(p.Ranges, func(r RangePlan) bool { return r.Name == name })
	if i < 0 {
		return
	}
	p.left += len(p.Ranges[i].Clear) - len(clear)
	p.Ranges[i].Set, p.Ranges[i].Clear = sortedTexts(slices.Values(set)), sortedTexts(slices.Values(clear))
}

// After adds what an earlier pass of the same repair has changed and found.
func (p *Plan) After(earlier *Plan) {
	for _, before := range earlier.Ranges {
		i := slices.IndexFunc(p.Ranges, func(r RangePlan) bool { return r.Name == before.Name })
		if i < 0 {
			p.Ranges = append(p.Ranges, before)
			continue
		}
		p.Ranges[i].Set = slices.Concat(before.Set, p.Ranges[i].Set)
		p.Ranges[i].Clear = slices.Concat(before.Clear, p.Ranges[i].Clear)
		slices.Sort(p.Ranges[i].Set)
		slices.Sort(p.Ranges[i].Clear)
	}
	p.sortRanges()
	findings := slices.Clone(earlier.Findings)
	for _, f := range p.Findings {
		if !slices.Contains(findings, f) {
			findings = append(findings, f)
		}
	}
	sortFindings(findings)
	p.Findings = findings
}

func (p *Plan) sortRanges() {
	slices.SortFunc(p.Ranges, func(a, b RangePlan) int { return cmp.Compare(a.Name, b.Name) })
}

// Plan returns the document.
func (a *Audit) Plan() *Plan {
	p := &Plan{
		APIVersion: APIVersion, Kind: KindRepairPlan,
		Ranges: []RangePlan{}, Findings: a.report.Findings, Leaks: a.report.Leaks,
	}
	for i, r := range a.ranges {
		if r.record == rangekeeper.RecordBitmap {
			set, clear := sortedTexts(a.core.Values(i, rangekeeper.ValuesSet)), sortedTexts(a.core.Values(i, rangekeeper.ValuesClear))
			p.Ranges = append(p.Ranges, RangePlan{Name: r.name, Range: r.text, Set: set, Clear: clear})
			p.left += r.leaked - len(clear)
		}
	}
	p.sortRanges()
	return p
}

func sortedTexts(values iter.Seq[rangekeeper.Value]) []string {
	all := []string{}
	for value := range values {
		all = append(all, value.String())
	}
	slices.Sort(all)
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
