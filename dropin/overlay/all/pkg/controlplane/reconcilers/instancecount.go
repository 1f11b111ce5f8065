package reconcilers

import "github.com/rangekeeper/rangekeeper/dropin/plan"

// NewMasterCountEndpointReconciler returns a reconciler that keeps up to masterCount addresses, at least 1, always with this
// server's. The address of a killed server stays until there are more than masterCount.
func NewMasterCountEndpointReconciler(masterCount int, epAdapter EndpointsAdapter) EndpointReconciler {
	return &endpointReconciler{mode: plan.ModeMasterCount(masterCount), endpoints: epAdapter}
}
