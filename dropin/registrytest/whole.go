// Package registrytest makes repair passes over a registry that can only be read and written as a whole. The released tests of
// the repair controllers keep their ranges in such registries; a kube-apiserver has none.
package registrytest

import (
	"context"
	"fmt"
	"net/netip"

	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/rangeallocation"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Whole returns the range of a registry. rangeSpec is a CIDR, or ports as in "30000-32767".
func Whole(registry rangeallocation.RangeRegistry, rangeSpec string) repair.Uncommitted {
	if _, err := rangekeeper.ParsePortRange(rangeSpec); err == nil {
		return &whole[uint16]{
			registry: registry, text: rangeSpec, parse: rangekeeper.ParsePortRange, add: (*rangekeeper.Audit).AddPorts,
		}
	}
	return &whole[netip.Addr]{
		registry: registry, text: rangeSpec, parse: rangekeeper.ParseCIDR, add: (*rangekeeper.Audit).AddCIDR,
	}
}

// whole fails to write if there was another write since its read.
type whole[V rangekeeper.Value] struct {
	registry rangeallocation.RangeRegistry
	text     string
	parse    func(string) (rangekeeper.Range[V], error)
	add      func(*rangekeeper.Audit, rangekeeper.Range[V], rangekeeper.Stored) (int, error)

	// What the pass under way has read.
	values rangekeeper.Range[V]
	stored *api.RangeAllocation
	// index is that of the range in the report.
	index int
}

func (w *whole[V]) Read(context.Context, *rangekeeper.Pass) (missing bool, err error) {
	if w.values, err = w.parse(w.text); err != nil {
		return false, err
	}
	if w.stored, err = w.registry.Get(); err != nil {
		return false, fmt.Errorf("read range %s: %w", w.text, err)
	}
	return w.stored.Range == "", nil
}

func (w *whole[V]) Add(audit *rangekeeper.Audit) (err error) {
	w.index, err = w.add(audit, w.values, rangekeeper.Stored{Range: w.stored.Range, Data: w.stored.Data})
	return err
}

func (w *whole[V]) Repair(_ context.Context, found repair.Found) (repair.Repaired, error) {
	next, err := found.Report.Snapshot(w.index, nil)
	if err != nil {
		return repair.Repaired{}, err
	}
	w.stored.Range, w.stored.Data = w.values.String(), next
	if err := w.registry.CreateOrUpdate(w.stored); err != nil {
		return repair.Repaired{}, fmt.Errorf("write range %s: %w", w.text, err)
	}
	texts := func(set rangekeeper.Set) (all []string) {
		for value := range found.Report.Values(w.index, set) {
			all = append(all, value.String())
		}
		return all
	}
	return repair.Repaired{Set: texts(rangekeeper.ValuesSet), Cleared: texts(rangekeeper.ValuesClear)}, nil
}
