package repair

import (
	"context"
	"fmt"
	"net/netip"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/etcdstore"
)

// Controller is one of kube-apiserver's two repair controllers.
type Controller struct {
	// Name is what Events have as their reporting controller.
	Name string
	// action is what Events say was done when the finding was made.
	action string
}

var (
	// ClusterIPs repairs ranges of addresses.
	ClusterIPs = Controller{Name: "ipallocator-repair-controller", action: "ClusterIPAllocation"}
	// NodePorts repairs the range of node ports.
	NodePorts = Controller{Name: "portallocator-repair-controller", action: "PortAllocation"}
)

// Range is a stored range; see [Addresses] and [Ports].
type Range interface {
	// read begins a pass, and says whether the range has to be made.
	read(ctx context.Context, passes *rangekeeper.Passes, pass *rangekeeper.RepairPass) (bool, error)
	// repair ends it, and gives the values that were set, too.
	repair(ctx context.Context, passes *rangekeeper.Passes, outcome *rangekeeper.RepairOutcome, index int, listed rangekeeper.Listed) (result RangeResult, set []string, err error)
}

// Addresses is a range of ClusterIPs.
func Addresses(store *etcdstore.Store[netip.Addr]) Range {
	return storedRange[netip.Addr]{store, (*rangekeeper.RepairPass).AddCIDR}
}

// Ports is the range of node ports.
func Ports(store *etcdstore.Store[uint16]) Range {
	return storedRange[uint16]{store, (*rangekeeper.RepairPass).AddPorts}
}

type storedRange[V rangekeeper.Value] struct {
	store *etcdstore.Store[V]
	add   func(*rangekeeper.RepairPass, rangekeeper.Range[V], rangekeeper.Stored) (int, error)
}

func (s storedRange[V]) read(ctx context.Context, passes *rangekeeper.Passes, pass *rangekeeper.RepairPass) (bool, error) {
	view, err := s.store.ReadForPass(ctx, passes)
	if err != nil {
		return false, err
	}
	values := s.store.Range()
	_, err = s.add(pass, values, rangekeeper.Stored{Range: values.String(), Data: view.Snapshot})
	return !view.Initialised, err
}

func (s storedRange[V]) repair(ctx context.Context, passes *rangekeeper.Passes, outcome *rangekeeper.RepairOutcome, index int, listed rangekeeper.Listed) (RangeResult, []string, error) {
	repaired, err := s.store.Repair(ctx, passes, outcome, index, listed)
	set := make([]string, len(repaired.Set))
	for i, value := range repaired.Set {
		set[i] = fmt.Sprint(value)
	}
	return RangeResult{Set: len(repaired.Set), Cleared: len(repaired.Cleared), Changed: repaired.Changed}, set, err
}
