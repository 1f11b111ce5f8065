package portallocator

import (
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
)

// ForRequest returns an allocator of the same ports for one request, and the request. In memory there is none: it is
// nil.
func (r *PortAllocator) ForRequest() (Interface, allocator.Request) {
	own := *r
	var request allocator.Request
	own.alloc, request = allocator.ForRequest(r.alloc, r.gauge)
	return &own, request
}

// SetServices sets the list of Services for repair passes, before the first one. In memory there are none.
func (r *PortAllocator) SetServices(list repaircontroller.ListStored) {
	allocator.SetServices(r.alloc, list)
}
