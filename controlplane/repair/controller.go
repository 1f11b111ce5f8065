package repair

import (
	"context"
	"fmt"
	"net/netip"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
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

// Range is a stored range that passes are made over: [Addresses] and [Ports] of a store, or whatever else keeps one.
type Range interface {
	// Read adds the range to a pass that begins, with what is stored, and says whether nothing was stored yet. Services
	// are listed after that.
	Read(ctx context.Context, passes *rangekeeper.Passes, pass *rangekeeper.Audit) (missing bool, err error)
	// Repair writes what the pass found out about its range with this index.
	Repair(ctx context.Context, passes *rangekeeper.Passes, outcome *rangekeeper.Report, index int, listed rangekeeper.Listed) (Repaired, error)
}

// Repaired says what became of a diff.
type Repaired struct {
	// Set are the values that were recorded, as texts.
	Set []string
	// Cleared is how many values were freed, Changed how many were left alone as they, or Services, had changed.
	Cleared, Changed int
}

// Addresses is a range of ClusterIPs.
func Addresses(store *etcdstore.Store[netip.Addr]) Range {
	return storedRange[netip.Addr]{store, (*rangekeeper.Audit).AddCIDR}
}

// Ports is the range of node ports.
func Ports(store *etcdstore.Store[uint16]) Range {
	return storedRange[uint16]{store, (*rangekeeper.Audit).AddPorts}
}

type storedRange[V rangekeeper.Value] struct {
	store *etcdstore.Store[V]
	add   func(*rangekeeper.Audit, rangekeeper.Range[V], rangekeeper.Stored) (int, error)
}

func (s storedRange[V]) Read(ctx context.Context, passes *rangekeeper.Passes, pass *rangekeeper.Audit) (bool, error) {
	view, err := s.store.ReadForPass(ctx, passes)
	if err != nil {
		return false, err
	}
	values := s.store.Range()
	_, err = s.add(pass, values, rangekeeper.Stored{Range: values.String(), Data: view.Snapshot})
	return !view.Initialised, err
}

func (s storedRange[V]) Repair(ctx context.Context, passes *rangekeeper.Passes, outcome *rangekeeper.Report, index int, listed rangekeeper.Listed) (Repaired, error) {
	repaired, err := s.store.Repair(ctx, passes, outcome, index, listed)
	set := make([]string, len(repaired.Set))
	for i, value := range repaired.Set {
		set[i] = fmt.Sprint(value)
	}
	return Repaired{Set: set, Cleared: len(repaired.Cleared), Changed: repaired.Changed}, err
}
