package reconcilers

import (
	"net"

	corev1 "k8s.io/api/core/v1"
)

// EndpointReconciler keeps the endpoints of a Service of the API servers, as far as one server's address is concerned. All
// servers of a cluster use the same type and the same ports.
type EndpointReconciler interface {
	// ReconcileEndpoints makes this server's address one of the endpoints. It is called again and again; with
	// reconcilePorts it also resets ports that are others than endpointPorts.
	ReconcileEndpoints(serviceName string, ip net.IP, endpointPorts []corev1.EndpointPort, reconcilePorts bool) error
	// RemoveEndpoints removes this server's address from the endpoints: at the start that of the last run, and after
	// StopReconciling for good. An error by which storage.IsNotFound says that there was no lease comes when everything
	// is done.
	RemoveEndpoints(serviceName string, ip net.IP, endpointPorts []corev1.EndpointPort) error
	// StopReconciling makes ReconcileEndpoints do nothing from now on. It does not wait for a call that is under way.
	StopReconciling()
	// Destroy frees the reconciler's storage. It may be called again, and from several goroutines.
	Destroy()
}

// Type is the name of a way to keep the endpoints, as the flag --endpoint-reconciler-type has it.
type Type string

const (
	// MasterCountReconcilerType keeps up to as many addresses as there are servers. Nobody looks who lives.
	MasterCountReconcilerType Type = "master-count"
	// LeaseEndpointReconcilerType keeps the addresses of servers that hold a lease in etcd.
	LeaseEndpointReconcilerType Type = "lease"
	// NoneEndpointReconcilerType leaves the endpoints to somebody else.
	NoneEndpointReconcilerType Type = "none"
)

// Types is a list of them.
type Types []Type

// AllTypes lists all.
var AllTypes = Types{MasterCountReconcilerType, LeaseEndpointReconcilerType, NoneEndpointReconcilerType}

// Names are the types as text, in the same order.
func (t Types) Names() []string {
	names := make([]string, 0, len(t))
	for _, name := range t {
		names = append(names, string(name))
	}
	return names
}
