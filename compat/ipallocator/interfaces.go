// Package ipallocator allocates ClusterIPs: in a bitmap, as a [Range], or by creating IPAddress objects, as a
// [MetaAllocator].
package ipallocator

import (
	"errors"
	"fmt"
	"net"

	api "k8s.io/api/core/v1"
)

// Interface allocates addresses. All methods may be called concurrently.
type Interface interface {
	// Allocate allocates an address.
	Allocate(net.IP) error
	// AllocateNext allocates a free address. The error is ErrFull if there is none.
	AllocateNext() (net.IP, error)
	// Release releases an address. It does nothing if the address is free.
	Release(net.IP) error
	// ForEach calls a function with each address in use.
	ForEach(func(net.IP))
	// CIDR returns the range of the addresses.
	CIDR() net.IPNet
	// IPFamily returns the family of the addresses.
	IPFamily() api.IPFamily
	// Has returns whether an address is in use.
	Has(ip net.IP) bool
	// Destroy ends what the allocator has begun. It may be called again.
	Destroy()
	// EnableMetrics starts to count allocations.
	EnableMetrics()
	// DryRun returns an allocator that answers like this one, and changes nothing of it.
	DryRun() Interface
}

// Errors of an allocation.
var (
	ErrFull              = errors.New("range is full")
	ErrAllocated         = errors.New("provided IP is already allocated")
	ErrMismatchedNetwork = errors.New("the provided network does not match the current range")
	ErrNotReady          = errors.New("allocator not ready")
)

// ErrNotInRange: an address is not in the range.
type ErrNotInRange struct {
	IP net.IP
	// ValidRange is the range.
	ValidRange string
}

func (e *ErrNotInRange) Error() string {
	return fmt.Sprintf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", e.IP, e.ValidRange)
}
