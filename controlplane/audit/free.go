package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// FreeList is the document that says which values of a range are free.
type FreeList struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Source     *Source `json:"source"`
	// Bands are the static and the dynamic band of each range with the name: ServiceCIDR objects have one or two.
	Bands []FreeBand `json:"bands"`
	// Unreadable and Unknown are as in [Report].
	Unreadable []Unreadable `json:"unreadable,omitempty"`
	Unknown    []Unknown    `json:"unknown,omitempty"`
}

// IsFull reports whether the range is known and no value of it is free.
func (f *FreeList) IsFull() bool {
	return len(f.Bands) > 0 && !slices.ContainsFunc(f.Bands, func(b FreeBand) bool { return b.Free.N > 0 })
}

// FreeBand is one band of a range.
type FreeBand struct {
	Name  string `json:"name"`
	Range string `json:"range"`
	Band  string `json:"band"`
	// Free is the number of values that are neither recorded as allocated nor in use; Next are the lowest of them.
	// Free may be fewer where the source does not show the bitmap: N is the most then.
	Free Amount   `json:"free"`
	Next []string `json:"next"`
}

// The bands of a range. kube-apiserver picks from the static band last, so its values are for Services that name
// theirs.
const (
	BandStatic  = "static"
	BandDynamic = "dynamic"
)

// Free returns the number of free values of the ranges with this name, and the lowest ones, at most n of each band.
func (a *Audit) Free(name string, n int) (*FreeList, error) {
	rows, err := a.named(name)
	if err != nil {
		return nil, err
	}
	isObject := func(row Range) bool { return row.Mode == ModeIPAddress }
	isInUse := func(row Range) bool { return row.Mode == ModeBitmap || row.Mode == ModeUnseen }
	switch { // of a bitmap and a ServiceCIDR object with one name, the bitmap as long as servers use it
	case slices.ContainsFunc(rows, isInUse):
		rows = slices.DeleteFunc(rows, isObject)
	case slices.ContainsFunc(rows, isObject):
		rows = slices.DeleteFunc(rows, func(row Range) bool { return !isObject(row) })
	}
	if a.wide && name == clusterstate.ServiceNodePorts && !isObject(rows[0]) {
		if a.state.Unseen == nil {
			return nil, errors.New("the range of node ports is not known: its stored object is missing or cannot be read")
		}
		return nil, errors.New("the range of node ports is not known over the Kubernetes API: name it with --service-node-port-range")
	}
	list := &FreeList{APIVersion: APIVersion, Kind: KindFreeList, Source: a.report.Source, Bands: []FreeBand{}, Unreadable: a.report.Unreadable, Unknown: a.unknownOf(name)}
	for _, row := range rows {
		if row.Mode == ModeUninitialized || row.Mode == ModeStale {
			return nil, fmt.Errorf("nothing is allocated from %s: it is %s", name, row.Mode)
		}
		if row.NotReady {
			continue
		}
		static, dynamic := a.freeBands(a.index(row), n)
		static.Name, static.Range, static.Band = row.Name, row.Range, BandStatic
		dynamic.Name, dynamic.Range, dynamic.Band = row.Name, row.Range, BandDynamic
		list.Bands = append(list.Bands, static, dynamic)
	}
	if len(list.Bands) == 0 {
		return nil, fmt.Errorf("nothing is allocated from %s: the ServiceCIDR is being deleted, or is not ready", name)
	}
	return list, nil
}

// FreeElsewhere returns the ranges from which servers allocate beside the ServiceCIDR with this name, of the same IP
// families, that have free values.
func (a *Audit) FreeElsewhere(name string) (all []Range) {
	isIPv6 := func(row Range) bool { return strings.Contains(row.Range, ":") }
	for _, row := range a.report.Ranges {
		isBeside := slices.ContainsFunc(a.report.Ranges, func(of Range) bool {
			return of.Name == name && of.Mode == ModeIPAddress && row.Name != name && isIPv6(of) == isIPv6(row)
		})
		if isBeside && row.Mode == ModeIPAddress && !row.NotReady && row.Free.N > 0 {
			all = append(all, row)
		}
	}
	return all
}

func (a *Audit) freeBands(index, n int) (static, dynamic FreeBand) {
	static.Next, dynamic.Next = []string{}, []string{}
	counts := a.core.Range(index)
	// A value in use that is not recorded is not free.
	dynamic.Free.N = counts.Size - counts.Stored - counts.Set
	static.Free.Unseen = counts.Record == rangekeeper.RecordUnseen
	dynamic.Free.Unseen = static.Free.Unseen
	for run := range a.core.Runs(index, rangekeeper.ValuesStored, false) {
		for value, left := run.First, run.Len; left > 0; value, left = following(value), left-1 {
			state, _ := a.core.State(index, value)
			switch {
			case state.InUse:
			case state.StaticBand:
				if static.Free.N++; len(static.Next) < n {
					static.Next = append(static.Next, value.String())
				}
			case len(dynamic.Next) == n:
				dynamic.Free.N -= static.Free.N
				return static, dynamic
			default:
				dynamic.Next = append(dynamic.Next, value.String())
			}
		}
	}
	dynamic.Free.N -= static.Free.N
	return static, dynamic
}

// following returns the value after one that is not the last of its range.
func following(value rangekeeper.Value) rangekeeper.Value {
	if value.IsPort() {
		return rangekeeper.PortValue(value.Port() + 1)
	}
	return rangekeeper.AddrValue(value.Addr().Next())
}
