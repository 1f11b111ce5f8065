package ipallocator

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	api "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/compat/allocator"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Range allocates the addresses of a CIDR. Rangekeeper decides which addresses there are and their offsets.
type Range struct {
	net    *net.IPNet
	values rangekeeper.Range
	// max is the number of allocatable addresses.
	max     int
	alloc   allocator.Interface
	metrics metricsRecorderInterface
}

var _ Interface = (*Range)(nil)

// New returns a Range over an allocator of offsets that allocatorFactory returns.
func New(cidr *net.IPNet, allocatorFactory allocator.AllocatorWithOffsetFactory) (*Range, error) {
	values, err := rangekeeper.ParseCIDR(cidr.String())
	if err != nil {
		return nil, err
	}
	r := &Range{net: cidr, values: values, max: int(values.Size()), metrics: &emptyMetricsRecorder{}}
	r.alloc, err = allocatorFactory(r.max, cidr.String(), int(values.StaticBand()))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// NewInMemory returns a Range in memory.
func NewInMemory(cidr *net.IPNet) (*Range, error) {
	return New(cidr, func(_ int, rangeSpec string, _ int) (allocator.Interface, error) {
		values, err := rangekeeper.ParseCIDR(rangeSpec)
		if err != nil {
			return nil, err
		}
		return allocator.NewMemory(values)
	})
}

// NewFromSnapshot returns a Range in memory with the content of a stored object.
func NewFromSnapshot(snap *api.RangeAllocation) (*Range, error) {
	_, cidr, err := netutils.ParseCIDRSloppy(snap.Range)
	if err != nil {
		return nil, err
	}
	r, err := NewInMemory(cidr)
	if err == nil {
		err = r.Restore(cidr, snap.Data)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// calculateRangeOffset returns the size of the static band: that many lowest addresses are picked last.
func calculateRangeOffset(cidr *net.IPNet) int {
	values, err := rangekeeper.ParseCIDR(cidr.String())
	if err != nil {
		return 0
	}
	return int(values.StaticBand())
}

// offset returns the offset of an allocatable address.
func (r *Range) offset(ip net.IP) (int, bool) {
	address, ok := netip.AddrFromSlice(ip)
	if !ok {
		return 0, false
	}
	offset, ok := r.values.OffsetOf(rangekeeper.AddrValue(address))
	return int(offset), ok
}

func (r *Range) address(offset int) net.IP {
	address, _ := r.values.ValueAt(uint32(offset))
	return address.Addr().AsSlice()
}

const (
	static  = "static"
	dynamic = "dynamic"
)

// count counts an allocation in the metrics.
func (r *Range) count(scope string, err error) {
	cidr := r.net.String()
	if err != nil {
		r.metrics.incrementAllocationErrors(cidr, scope)
		return
	}
	r.metrics.incrementAllocations(cidr, scope)
	r.gauge()
}

func (r *Range) gauge() {
	cidr, free := r.net.String(), r.Free()
	r.metrics.setAllocated(cidr, r.max-free)
	r.metrics.setAvailable(cidr, free)
}

// Allocate allocates an address. The error is an *ErrNotInRange, or ErrAllocated if the address is in use.
func (r *Range) Allocate(ip net.IP) error {
	err := r.allocate(ip)
	r.count(static, err)
	return err
}

func (r *Range) allocate(ip net.IP) error {
	offset, ok := r.offset(ip)
	if !ok {
		return &ErrNotInRange{ip, r.net.String()}
	}
	ok, err := r.alloc.Allocate(offset)
	if err == nil && !ok {
		err = ErrAllocated
	}
	return err
}

// AllocateNext allocates a free address. The error is ErrFull if there is none.
func (r *Range) AllocateNext() (net.IP, error) {
	offset, ok, err := r.alloc.AllocateNext()
	if err == nil && !ok {
		err = ErrFull
	}
	r.count(dynamic, err)
	if err != nil {
		return nil, err
	}
	return r.address(offset), nil
}

// Release releases an address. It does nothing if the address is free or not in the range.
func (r *Range) Release(ip net.IP) error {
	offset, ok := r.offset(ip)
	if !ok {
		return nil
	}
	err := r.alloc.Release(offset)
	if err == nil {
		r.gauge()
	}
	return err
}

// ForEach calls fn with each address in use.
func (r *Range) ForEach(fn func(net.IP)) {
	r.alloc.ForEach(func(offset int) { fn(r.address(offset)) })
}

// CIDR returns the range.
func (r *Range) CIDR() net.IPNet { return *r.net }

// IPFamily returns the family of the addresses.
func (r *Range) IPFamily() api.IPFamily {
	if netutils.IsIPv6CIDR(r.net) {
		return api.IPv6Protocol
	}
	return api.IPv4Protocol
}

// Has reports whether an address is in use.
func (r *Range) Has(ip net.IP) bool {
	offset, ok := r.offset(ip)
	return ok && r.alloc.Has(offset)
}

// Free returns the number of free addresses.
func (r *Range) Free() int { return r.alloc.Free() }

// Used returns the number of addresses in use.
func (r *Range) Used() int { return r.max - r.alloc.Free() }

// Destroy destroys the allocator of offsets.
func (r *Range) Destroy() { r.alloc.Destroy() }

// EnableMetrics starts to count allocations.
func (r *Range) EnableMetrics() {
	registerMetrics()
	r.metrics = &metricsRecorder{}
}

var errNoSnapshots = errors.New("the allocator does not support snapshots")

// Snapshot writes the range and its bitmap to dst.
func (r *Range) Snapshot(dst *api.RangeAllocation) error {
	alloc, ok := r.alloc.(allocator.Snapshottable)
	if !ok {
		return errNoSnapshots
	}
	dst.Range, dst.Data = alloc.Snapshot()
	return nil
}

// Restore replaces the addresses in use by those of a snapshot. The error is ErrMismatchedNetwork if the snapshot is of
// another range.
func (r *Range) Restore(net *net.IPNet, data []byte) error {
	if net.String() != r.net.String() {
		return ErrMismatchedNetwork
	}
	alloc, ok := r.alloc.(allocator.Snapshottable)
	if !ok {
		return errNoSnapshots
	}
	if err := alloc.Restore(net.String(), data); err != nil {
		return fmt.Errorf("restore the snapshot of %s: %w", net, err)
	}
	return nil
}

// DryRun returns a copy in memory for a dry run.
func (r *Range) DryRun() Interface {
	dry := &Range{net: r.net, values: r.values, max: r.max, metrics: &emptyMetricsRecorder{}}
	var err error
	if dry.alloc, err = allocator.DryRun(r.alloc, r.values); err != nil {
		dry.alloc = refusing{err}
	}
	return dryRun{dry}
}

// dryRun is a copy whose operations are not counted.
type dryRun struct{ *Range }

func (d dryRun) Destroy()       {}
func (d dryRun) EnableMetrics() {}

// refusing fails every allocation with err.
type refusing struct{ err error }

func (r refusing) Allocate(int) (bool, error)       { return false, r.err }
func (r refusing) AllocateNext() (int, bool, error) { return 0, false, r.err }
func (r refusing) Release(int) error                { return r.err }
func (r refusing) ForEach(func(int))                {}
func (r refusing) Has(int) bool                     { return true }
func (r refusing) Free() int                        { return 0 }
func (r refusing) Destroy()                         {}
