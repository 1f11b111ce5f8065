package ipallocator

import (
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
)

// The released [Allocator] of 1.32.2 uses these constants.
const (
	dryRunTrue  = true
	dryRunFalse = false
)

// ForRequest returns an allocator of the same addresses for one request, and the request. In memory there is none: it
// is nil.
func (r *Range) ForRequest() (Interface, allocator.Request) {
	own := *r
	var request allocator.Request
	own.alloc, request = allocator.ForRequest(r.alloc, r.gauge)
	return &own, request
}

// SetServices sets the list of Services for repair passes, before the first one. In memory there are none.
func (r *Range) SetServices(list repaircontroller.ListStored) { allocator.SetServices(r.alloc, list) }
