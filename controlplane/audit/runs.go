package audit

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Run is a run of neighbouring values that are all used or all free.
type Run struct {
	First string `json:"first"`
	Last  string `json:"last"`
	Len   uint64 `json:"count"`
}

// Runs are the used and the free runs of a range, ascending.
type Runs struct {
	Range Range `json:"range"`
	// StaticBand is the size of the static band, and Free has the free runs; nil if the range is not known.
	StaticBand *uint32 `json:"staticBand"`
	Used       []Run   `json:"used"`
	Free       []Run   `json:"free"`
}

// RangeUse is the document of the ranges with one name.
type RangeUse struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Source     *Source `json:"source"`
	Ranges     []Runs  `json:"ranges"`
	// Unreadable and Unknown are as in [Report].
	Unreadable []Unreadable `json:"unreadable,omitempty"`
	Unknown    []Unknown    `json:"unknown,omitempty"`
}

// Use returns that of all ranges with this name: one bitmap, or each CIDR of a ServiceCIDR object.
func (a *Audit) Use(name string) (*RangeUse, error) {
	rows, err := a.named(name)
	if err != nil {
		return nil, err
	}
	use := &RangeUse{APIVersion: APIVersion, Kind: KindRangeUse, Source: a.report.Source, Unreadable: a.report.Unreadable, Unknown: a.unknownOf(name)}
	for _, r := range rows {
		runs := Runs{Range: r, Used: []Run{}}
		if i := a.index(r); i >= 0 {
			runs.Used = texts(a.core.Runs(i, rangekeeper.ValuesStored, true))
			if !r.Size.Unseen {
				runs.StaticBand = &a.ranges[i].staticBand
				runs.Free = texts(a.core.Runs(i, rangekeeper.ValuesStored, false))
			}
		}
		use.Ranges = append(use.Ranges, runs)
	}
	return use, nil
}

// named returns the ranges with this name.
func (a *Audit) named(name string) ([]Range, error) {
	var all []Range
	var names []string
	for _, r := range a.report.Ranges {
		if names = append(names, r.Name); r.Name == name {
			all = append(all, r)
		}
	}
	unreadable := a.unreadable(KindServiceCIDR, name)
	switch unseen := a.state.Unseen; {
	case len(all) > 0:
		return all, nil
	case unreadable != nil:
		return nil, unreadable
	case a.damaged[name] != nil:
		return nil, fmt.Errorf("key %s: the range cannot be read, and is not known: %w", a.state.Ranges[name].Key, a.damaged[name])
	case unseen != nil && name == clusterstate.ServiceIPs && !a.state.ClusterIPRecords().HasObjects():
		return nil, errors.New("the range of ClusterIPs is not known over the Kubernetes API of this cluster: name it with --service-cluster-ip-range")
	default:
		return nil, fmt.Errorf("%w range %q; there are %s", ErrNone, name, strings.Join(slices.Compact(names), ", "))
	}
}

// unknownOf returns what the source does not show of the ranges with a name.
func (a *Audit) unknownOf(name string) (all []Unknown) {
	for _, unknown := range a.report.Unknown {
		if unknown.Range == name {
			all = append(all, unknown)
		}
	}
	return all
}

func texts(runs iter.Seq[rangekeeper.Run]) []Run {
	all := []Run{}
	for run := range runs {
		all = append(all, Run{run.First.String(), run.Last.String(), run.Len})
	}
	return all
}
