package portallocator

import (
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
)

// ForRequest returns an allocator of the same ports for one request, and the request. In memory there is none: it is
// nil.
func (r *PortAllocator) ForRequest() (Interface, allocator.Request) {
	source, ok := r.alloc.(allocator.PerRequest)
	if !ok {
		return r, nil
	}
	own := *r
	alloc, request := source.ForRequest()
	own.alloc = alloc
	return &own, allocator.Then(request, r.gauge)
}

// SetServices sets the list of Services for repair passes, before the first one. In memory there are none.
func (r *PortAllocator) SetServices(list repaircontroller.ListServices) {
	if repaired, ok := r.alloc.(interface {
		SetServices(repaircontroller.ListServices)
	}); ok {
		repaired.SetServices(list)
	}
}
