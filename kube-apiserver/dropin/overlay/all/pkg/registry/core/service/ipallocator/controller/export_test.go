package controller

import (
	"context"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/dropin/registrytest"
)

// runOnce makes a pass for the released tests.
func (c *Repair) runOnce() error { return c.loop.Once(context.Background()) }

// RepairRange returns the range of a registry of the released tests.
func (r *mockRangeRegistry) RepairRange(rangeSpec string) (repair.Range, repaircontroller.ListStored) {
	return registrytest.RangeOf(r, rangeSpec), nil
}
