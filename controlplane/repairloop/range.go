package repairloop

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// Registry reads and writes a stored range, as the RangeRegistry of kube-apiserver does.
type Registry interface {
	// Get returns the stored object; one without a Range if there is none yet.
	Get() (*corev1.RangeAllocation, error)
	// CreateOrUpdate replaces the stored object of the same ResourceVersion, or creates it if there is none. Otherwise
	// the error is a conflict.
	CreateOrUpdate(*corev1.RangeAllocation) error
}

// Follower is a Registry that knows what its own program writes beside the passes: the leak counters of all other
// values go on then, and no pass is ended by such a write.
type Follower interface {
	Registry
	// GetSince is Get. It also returns which values were changed since the object had a ResourceVersion, by their
	// offsets in the range, those included that have changed back. isKnown is false if another program may have
	// written the object since.
	GetSince(resourceVersion string) (object *corev1.RangeAllocation, changed []int, isKnown bool, err error)
}

// Repairable is a registry whose range can be repaired. A pass uses the committer of the registry, so that it shares
// writes with allocations and releases nothing that was allocated concurrently.
type Repairable interface {
	// RepairRange returns the range, and the list of Services in its etcd; nil if Services are elsewhere, so that
	// revisions are not comparable. rangeSpec is the configured range.
	RepairRange(rangeSpec string) (passes repair.Range, services repaircontroller.ListStored)
}

// Range is a stored range that a Loop repairs.
type Range struct {
	passes   repair.Range
	services repaircontroller.ListStored
}

// RangeOf returns the range of a registry, which is Repairable or a Registry. Each pass over another one fails.
// rangeSpec is a CIDR, or ports as in "30000-32767".
func RangeOf(registry any, rangeSpec string) Range {
	switch registry := registry.(type) {
	case Repairable:
		passes, services := registry.RepairRange(rangeSpec)
		return Range{passes, services}
	case Registry:
		return Range{passes: OverRegistry(registry, rangeSpec, 0)}
	}
	return Range{passes: refusing{fmt.Errorf("range %s: cannot repair a registry of type %T", rangeSpec, registry)}}
}

// refusing is a range that fails every pass with err.
type refusing struct{ err error }

func (r refusing) ReadForPass(context.Context, *rangekeeper.RepairPass) (rangekeeper.View, bool, error) {
	return rangekeeper.View{}, false, r.err
}

func (r refusing) Fence(context.Context, *rangekeeper.RepairPass, *etcdstore.Look) (*etcdstore.Look, error) {
	return nil, r.err
}

func (r refusing) CheckRepair(*rangekeeper.RepairPass) error { return r.err }

func (r refusing) Repair(context.Context, *rangekeeper.RepairPass, *etcdstore.Look, rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	return rangekeeper.Repaired{}, r.err
}
