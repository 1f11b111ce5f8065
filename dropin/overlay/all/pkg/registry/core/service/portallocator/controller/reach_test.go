package controller

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	"github.com/rangekeeper/rangekeeper/dropin/registrytest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// runOnce is what the release's tests make a pass with.
func (c *Repair) runOnce() error { return c.loop.Once(context.Background()) }

// collectServiceNodePorts is what the release's tests ask for the ports that a Service claims. Here that is decided in the
// core library; a pass tells it if nothing is recorded, as each claim then is a finding.
func collectServiceNodePorts(service *corev1.Service) (claimed []int) {
	all := must(rangekeeper.ParsePortRange("1-65535"))
	pass := must(rangekeeper.NewAudit())
	must(pass.AddBitmap(all, rangekeeper.Stored{}))
	var batch rangekeeper.Services
	servicebatch.Add(&batch, service)
	if err := pass.Observe(&batch); err != nil {
		panic(err)
	}
	for _, finding := range must(must(pass.Finish(nil)).Findings()) {
		claimed = append(claimed, must(strconv.Atoi(finding.Value)))
	}
	return claimed
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// RepairRange lets passes be made over the registries of the released tests.
func (r *mockRangeRegistry) RepairRange(rangeSpec string) (repair.Range, bool) {
	return registrytest.RangeOf(r, rangeSpec), false
}
