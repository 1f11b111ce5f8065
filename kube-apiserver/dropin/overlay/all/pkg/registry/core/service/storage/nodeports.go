package storage

import api "k8s.io/kubernetes/pkg/apis/core"

// withAllocatedPorts returns a copy of a Service without the node ports that were never allocated for it. The released
// code accepts an ExternalName Service with node ports and does not allocate them. But it releases them on deletion,
// and regards them as allocated when the type changes: then another Service loses the port.
func withAllocatedPorts(service *api.Service) *api.Service {
	if service.Spec.Type != api.ServiceTypeExternalName {
		return service
	}
	own := service.DeepCopy()
	for i := range own.Spec.Ports {
		own.Spec.Ports[i].NodePort = 0
	}
	return own
}
