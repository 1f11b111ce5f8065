package storage

import api "k8s.io/kubernetes/pkg/apis/core"

// withAllocatedPorts returns a Service without the node ports that were never allocated for it. kube-apiserver accepts an
// ExternalName Service that names node ports and allocates none, but releases them with it, and takes them for its own when its
// type changes: then another Service loses the port. The Service itself is not changed.
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
