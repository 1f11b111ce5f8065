package controller

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// collectServiceNodePorts returns the ports that a Service claims to the released tests. The core library decides that:
// if no port is recorded as allocated, each claim is a finding.
func collectServiceNodePorts(service *corev1.Service) (claimed []int) {
	all := must(rangekeeper.ParsePortRange("1-65535"))
	pass := must(rangekeeper.NewAudit())
	must(pass.AddBitmap(all, rangekeeper.Stored{}))
	var batch rangekeeper.Services
	servicebatch.Add(&batch, service)
	if err := pass.Observe(&batch); err != nil {
		panic(err)
	}
	for _, finding := range must(must(pass.Finish()).Findings()) {
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
