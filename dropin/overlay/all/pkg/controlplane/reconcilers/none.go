package reconcilers

import (
	"net"

	corev1 "k8s.io/api/core/v1"
)

// noneEndpointReconciler leaves everything as it is.
type noneEndpointReconciler struct{}

// NewNoneEndpointReconciler makes a reconciler that does nothing.
func NewNoneEndpointReconciler() EndpointReconciler { return noneEndpointReconciler{} }

func (noneEndpointReconciler) ReconcileEndpoints(string, net.IP, []corev1.EndpointPort, bool) error {
	return nil
}

func (noneEndpointReconciler) RemoveEndpoints(string, net.IP, []corev1.EndpointPort) error {
	return nil
}

func (noneEndpointReconciler) StopReconciling() {}

func (noneEndpointReconciler) Destroy() {}
