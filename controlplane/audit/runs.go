package audit

import (
	"fmt"
	"iter"
	"strings"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Run is a run of neighbouring values that are all used or all free.
type Run struct {
	First, Last string
	Len         uint64
}

// Runs are the used and the free runs of a range, ascending.
type Runs struct {
	Range      Range
	StaticBand uint32
	Used, Free []Run
}

// Runs returns those of all ranges with this name: one bitmap, or each CIDR of a
// ServiceCIDR object.
func (a *Audit) Runs(name string) ([]Runs, error) {
	var all []Runs
	var names []string
	for _, r := range a.report.Ranges {
		names = append(names, r.Name)
		if r.Name != name {
			continue
		}
		runs := Runs{Range: r}
		if i := a.index(r); i >= 0 {
			runs.StaticBand = a.ranges[i].staticBand
			runs.Used = texts(a.core.Runs(i, rangekeeper.ValuesStored, true))
			runs.Free = texts(a.core.Runs(i, rangekeeper.ValuesStored, false))
		}
		all = append(all, runs)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no range %q; there are %s", name, strings.Join(names, ", "))
	}
	return all, nil
}

func texts(runs iter.Seq[rangekeeper.Run]) []Run {
	var all []Run
	for run := range runs {
		all = append(all, Run{run.First.String(), run.Last.String(), run.Len})
	}
	return all
}
