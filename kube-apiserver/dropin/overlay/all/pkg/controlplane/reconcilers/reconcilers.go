package reconcilers

import (
	"net"

	corev1 "k8s.io/api/core/v1"
)

// EndpointReconciler keeps one API server's address in the endpoints of the servers' Service. All servers of a cluster
// use the same type and the same ports.
type EndpointReconciler interface {
	// ValidateIP returns an error if the endpoints cannot have the address. Kubernetes calls it since 1.37.
	ValidateIP(ip net.IP) error
	// ReconcileEndpoints adds this server's address to the endpoints if it is missing. With reconcilePorts it also
	// resets the ports to endpointPorts.
	ReconcileEndpoints(serviceName string, ip net.IP, endpointPorts []corev1.EndpointPort, reconcilePorts bool) error
	// RemoveEndpoints removes this server's address from the endpoints: when it starts, that of its last run, and after
	// StopReconciling its own. If storage.IsNotFound(err), the removal is complete and there was no lease.
	RemoveEndpoints(serviceName string, ip net.IP, endpointPorts []corev1.EndpointPort) error
	// StopReconciling makes later calls of ReconcileEndpoints do nothing. It does not wait for a concurrent call.
	StopReconciling()
	// Destroy frees the reconciler's storage. It may be called again, and from several goroutines.
	Destroy()
}

// Type is the name of a way to keep the endpoints, as the flag --endpoint-reconciler-type has it.
type Type string

const (
	// MasterCountReconcilerType keeps up to as many addresses as there are servers, running or not.
	MasterCountReconcilerType Type = "master-count"
	// LeaseEndpointReconcilerType keeps the addresses of servers that hold a lease in etcd.
	LeaseEndpointReconcilerType Type = "lease"
	// NoneEndpointReconcilerType does not touch the endpoints.
	NoneEndpointReconcilerType Type = "none"
)

// Types is a list of types.
type Types []Type

// AllTypes has every Type.
var AllTypes = Types{MasterCountReconcilerType, LeaseEndpointReconcilerType, NoneEndpointReconcilerType}

// Names returns the types as text, in the same order.
func (t Types) Names() []string {
	names := make([]string, 0, len(t))
	for _, name := range t {
		names = append(names, string(name))
	}
	return names
}
