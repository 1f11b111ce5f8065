package controller

import (
	"context"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/controlplane/repairloop"
)

// runOnce makes a pass for the released tests.
func (c *Repair) runOnce() error { return c.loop.Once(context.Background()) }

// RepairRange returns the range of a registry of the released tests, whose passes do not wait for the interval.
func (r *mockRangeRegistry) RepairRange(rangeSpec string) (repair.Range, repaircontroller.ListStored) {
	return repairloop.OverRegistry(r, rangeSpec, 24*time.Hour), nil
}
