package reconcilers

import "github.com/rangekeeper/rangekeeper/kube-apiserver/dropin/bootstrapplan"

// NewMasterCountEndpointReconciler returns a reconciler that keeps up to masterCount addresses, at least 1, always with
// this server's. The address of a killed server stays until there are more than masterCount.
func NewMasterCountEndpointReconciler(masterCount int, epAdapter EndpointsAdapter) EndpointReconciler {
	return &endpointReconciler{mode: bootstrapplan.ModeMasterCount(masterCount), endpoints: epAdapter}
}
