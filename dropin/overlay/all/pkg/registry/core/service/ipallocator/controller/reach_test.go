package controller

import (
	"context"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/dropin/registrytest"
)

// runOnce is what the release's tests make a pass with.
func (c *Repair) runOnce() error { return c.loop.Once(context.Background()) }

// RepairRange lets passes be made over the registries of the released tests.
func (r *mockRangeRegistry) RepairRange(rangeSpec string) (repair.Range, bool) {
	return registrytest.RangeOf(r, rangeSpec), false
}
