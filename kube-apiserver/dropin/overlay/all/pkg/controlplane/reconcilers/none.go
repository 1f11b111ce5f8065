package reconcilers

import (
	"net"

	corev1 "k8s.io/api/core/v1"
)

type noneEndpointReconciler struct{}

// NewNoneEndpointReconciler returns a reconciler that does nothing.
func NewNoneEndpointReconciler() EndpointReconciler { return noneEndpointReconciler{} }

func (noneEndpointReconciler) ValidateIP(net.IP) error { return nil }

func (noneEndpointReconciler) ReconcileEndpoints(string, net.IP, []corev1.EndpointPort, bool) error {
	return nil
}

func (noneEndpointReconciler) RemoveEndpoints(string, net.IP, []corev1.EndpointPort) error {
	return nil
}

func (noneEndpointReconciler) StopReconciling() {}

func (noneEndpointReconciler) Destroy() {}
