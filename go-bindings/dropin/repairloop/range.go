package repairloop

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/rangeallocation"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/repair"
)

// Committed is a registry whose writes may be made by a committer. Passes then go through the same committer, so that they
// share writes with allocations and clear nothing that was allocated meanwhile.
type Committed interface {
	// RepairRange gives the range as [repair.Addresses] or [repair.Ports] of the registry's store; false if it has none.
	RepairRange() (repair.Range, bool)
}

// Range is a stored range that a Loop makes passes over.
type Range struct {
	passes repair.Range
	// committed says that it is kept by a committer, in the etcd that Services are in, too.
	committed bool
}

// Addresses is a range of ClusterIPs that a registry keeps.
func Addresses(cidr *net.IPNet, registry rangeallocation.RangeRegistry) Range {
	return newRange(registry, &whole[netip.Addr]{
		registry: registry, text: cidr.String(),
		parse: rangekeeper.ParseCIDR, add: (*rangekeeper.RepairPass).AddCIDR,
	})
}

// Ports is the range of node ports that a registry keeps.
func Ports(ports utilnet.PortRange, registry rangeallocation.RangeRegistry) Range {
	return newRange(registry, &whole[uint16]{
		registry: registry, text: ports.String(),
		parse: rangekeeper.ParsePortRange, add: (*rangekeeper.RepairPass).AddPorts,
	})
}

func newRange(registry rangeallocation.RangeRegistry, otherwise repair.Range) Range {
	if committed, ok := registry.(Committed); ok {
		if passes, ok := committed.RepairRange(); ok {
			return Range{passes, true}
		}
	}
	return Range{otherwise, false}
}

// whole is a range whose registry can only be read and written as a whole, as it is encrypted in etcd: a write fails if
// there was another one since the read.
type whole[V rangekeeper.Value] struct {
	registry rangeallocation.RangeRegistry
	text     string
	parse    func(string) (rangekeeper.Range[V], error)
	add      func(*rangekeeper.RepairPass, rangekeeper.Range[V], rangekeeper.Stored) (int, error)

	// What the pass under way has read.
	values rangekeeper.Range[V]
	stored *api.RangeAllocation
}

func (w *whole[V]) Read(_ context.Context, _ *rangekeeper.Passes, pass *rangekeeper.RepairPass) (missing bool, err error) {
	if w.values, err = w.parse(w.text); err != nil {
		return false, err
	}
	if w.stored, err = w.registry.Get(); err != nil {
		return false, fmt.Errorf("read range %s: %w", w.text, err)
	}
	_, err = w.add(pass, w.values, rangekeeper.Stored{Range: w.stored.Range, Data: w.stored.Data})
	return w.stored.Range == "", err
}

func (w *whole[V]) Repair(_ context.Context, _ *rangekeeper.Passes, outcome *rangekeeper.RepairOutcome, index int, _ rangekeeper.Listed) (repair.Repaired, error) {
	counts, err := outcome.Counts(index)
	if err != nil {
		return repair.Repaired{}, err
	}
	next, err := outcome.Snapshot(index, nil)
	if err != nil {
		return repair.Repaired{}, err
	}
	w.stored.Range, w.stored.Data = w.values.String(), next
	if err := w.registry.CreateOrUpdate(w.stored); err != nil {
		return repair.Repaired{}, fmt.Errorf("write range %s: %w", w.text, err)
	}
	set := make([]string, 0, counts.Set)
	for value := range outcome.Values(index, rangekeeper.ValuesSet) {
		set = append(set, value.String())
	}
	return repair.Repaired{Set: set, Cleared: counts.Clear}, nil
}
