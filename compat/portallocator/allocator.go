// Package portallocator allocates node ports, in memory or over an allocator of offsets.
package portallocator

import (
	"errors"
	"fmt"

	api "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/net"

	"github.com/rangekeeper/rangekeeper/compat/allocator"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Interface allocates the ports of a range. All methods may be called concurrently.
type Interface interface {
	Allocate(int) error
	AllocateNext() (int, error)
	Release(int) error
	ForEach(func(int))
	Has(int) bool
	Destroy()
	EnableMetrics()
}

// Errors of an allocation.
var (
	ErrFull              = errors.New("range is full")
	ErrAllocated         = errors.New("provided port is already allocated")
	ErrMismatchedNetwork = errors.New("the provided port range does not match the current port range")
)

// ErrNotInRange: a port is not in the range.
type ErrNotInRange struct {
	// ValidPorts is the range.
	ValidPorts string
}

func (e *ErrNotInRange) Error() string {
	return fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %s", e.ValidPorts)
}

// PortAllocator allocates the ports of a range.
type PortAllocator struct {
	portRange net.PortRange
	alloc     allocator.Interface
	metrics   metricsRecorderInterface
}

var _ Interface = (*PortAllocator)(nil)

// New returns a PortAllocator over an allocator of offsets that allocatorFactory returns.
func New(pr net.PortRange, allocatorFactory allocator.AllocatorWithOffsetFactory) (*PortAllocator, error) {
	alloc, err := allocatorFactory(pr.Size, pr.String(), calculateRangeOffset(pr))
	if err != nil {
		return nil, err
	}
	return &PortAllocator{portRange: pr, alloc: alloc, metrics: &emptyMetricsRecorder{}}, nil
}

// NewInMemory returns a PortAllocator in memory.
func NewInMemory(pr net.PortRange) (*PortAllocator, error) {
	return New(pr, func(_ int, rangeSpec string, _ int) (allocator.Interface, error) {
		values, err := rangekeeper.ParsePortRange(rangeSpec)
		if err != nil {
			return nil, err
		}
		return allocator.NewMemory(values)
	})
}

// NewFromSnapshot returns a PortAllocator in memory with the content of a stored object.
func NewFromSnapshot(snap *api.RangeAllocation) (*PortAllocator, error) {
	pr, err := net.ParsePortRange(snap.Range)
	if err != nil {
		return nil, err
	}
	r, err := NewInMemory(*pr)
	if err == nil {
		err = r.Restore(*pr, snap.Data)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// calculateRangeOffset returns the size of the static band: that many lowest ports are picked last.
func calculateRangeOffset(pr net.PortRange) int {
	ports, err := rangekeeper.ParsePortRange(pr.String())
	if err != nil {
		return 0
	}
	return int(ports.StaticBand())
}

const (
	static  = "static"
	dynamic = "dynamic"
)

// count counts an allocation in the metrics.
func (r *PortAllocator) count(scope string, err error) {
	if err != nil {
		r.metrics.incrementAllocationErrors(scope)
		return
	}
	r.metrics.incrementAllocations(scope)
	r.gauge()
}

func (r *PortAllocator) gauge() {
	free := r.Free()
	r.metrics.setAllocated(r.portRange.Size - free)
	r.metrics.setAvailable(free)
}

// Allocate allocates a port. The error is an *ErrNotInRange, or ErrAllocated if the port is in use.
func (r *PortAllocator) Allocate(port int) error {
	err := r.allocate(port)
	r.count(static, err)
	return err
}

func (r *PortAllocator) allocate(port int) error {
	if !r.portRange.Contains(port) {
		return &ErrNotInRange{r.portRange.String()}
	}
	ok, err := r.alloc.Allocate(port - r.portRange.Base)
	if err == nil && !ok {
		err = ErrAllocated
	}
	return err
}

// AllocateNext allocates a free port. The error is ErrFull if there is none.
func (r *PortAllocator) AllocateNext() (int, error) {
	offset, ok, err := r.alloc.AllocateNext()
	if err == nil && !ok {
		err = ErrFull
	}
	r.count(dynamic, err)
	if err != nil {
		return 0, err
	}
	return r.portRange.Base + offset, nil
}

// Release releases a port. It does nothing if the port is free or not in the range.
func (r *PortAllocator) Release(port int) error {
	if !r.portRange.Contains(port) {
		return nil
	}
	err := r.alloc.Release(port - r.portRange.Base)
	if err == nil {
		r.gauge()
	}
	return err
}

// ForEach calls fn with each port in use.
func (r *PortAllocator) ForEach(fn func(int)) {
	r.alloc.ForEach(func(offset int) { fn(r.portRange.Base + offset) })
}

// Has reports whether a port is in use.
func (r *PortAllocator) Has(port int) bool {
	return r.portRange.Contains(port) && r.alloc.Has(port-r.portRange.Base)
}

// Free returns the number of free ports.
func (r *PortAllocator) Free() int { return r.alloc.Free() }

// Used returns the number of ports in use.
func (r *PortAllocator) Used() int { return r.portRange.Size - r.alloc.Free() }

// Destroy destroys the allocator of offsets.
func (r *PortAllocator) Destroy() { r.alloc.Destroy() }

// EnableMetrics starts to count allocations.
func (r *PortAllocator) EnableMetrics() {
	registerMetrics()
	r.metrics = &metricsRecorder{}
}

var errNoSnapshots = errors.New("the allocator does not support snapshots")

// Snapshot writes the range and its bitmap to dst.
func (r *PortAllocator) Snapshot(dst *api.RangeAllocation) error {
	alloc, ok := r.alloc.(allocator.Snapshottable)
	if !ok {
		return errNoSnapshots
	}
	dst.Range, dst.Data = alloc.Snapshot()
	return nil
}

// Restore replaces the ports in use by those of a snapshot. The error is ErrMismatchedNetwork if the snapshot is of
// another range.
func (r *PortAllocator) Restore(pr net.PortRange, data []byte) error {
	if pr.String() != r.portRange.String() {
		return ErrMismatchedNetwork
	}
	alloc, ok := r.alloc.(allocator.Snapshottable)
	if !ok {
		return errNoSnapshots
	}
	return alloc.Restore(pr.String(), data)
}

// DryRun returns a copy in memory for a dry run.
func (r *PortAllocator) DryRun() (Interface, error) {
	values, err := rangekeeper.ParsePortRange(r.portRange.String())
	if err != nil {
		return nil, err
	}
	alloc, err := allocator.DryRun(r.alloc, values)
	if err != nil {
		return nil, err
	}
	return &PortAllocator{portRange: r.portRange, alloc: alloc, metrics: &emptyMetricsRecorder{}}, nil
}
