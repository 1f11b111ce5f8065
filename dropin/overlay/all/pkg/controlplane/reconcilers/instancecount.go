package reconcilers

import "github.com/rangekeeper/rangekeeper/dropin/plan"

// NewMasterCountEndpointReconciler makes a reconciler that keeps up to masterCount addresses, at least 1, its own always
// among them. The address of a server that was killed stays until there are more.
func NewMasterCountEndpointReconciler(masterCount int, epAdapter EndpointsAdapter) EndpointReconciler {
	return &endpointReconciler{mode: plan.ModeMasterCount(masterCount), endpoints: epAdapter}
}
