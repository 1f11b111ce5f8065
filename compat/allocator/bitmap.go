package allocator

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// AllocationBitmap allocates the offsets of any range in memory. Memory: that of a [rangekeeper.Allocator], which in
// pure Go has an instance of the core of its own if it has more than 4,096 offsets: some 150 KiB.
type AllocationBitmap struct {
	max       int
	rangeSpec string
	// used are the offsets in use; nil if there is none because of err.
	used *rangekeeper.Allocator
	err  error

	// lock is held while offsets and their count change.
	lock  sync.Mutex
	count int
}

var _ Snapshottable = (*AllocationBitmap)(nil)

// NewAllocationMap returns an AllocationBitmap of max offsets, of which none is in use. rangeSpec is the range in its
// snapshots.
func NewAllocationMap(max int, rangeSpec string) *AllocationBitmap {
	return NewAllocationMapWithOffset(max, rangeSpec, 0)
}

// NewAllocationMapWithOffset returns an AllocationBitmap whose AllocateNext takes the first offset of them last. With
// more offsets than 2^32 - 1 all allocations fail.
func NewAllocationMapWithOffset(size int, rangeSpec string, offset int) *AllocationBitmap {
	r := &AllocationBitmap{max: size, rangeSpec: rangeSpec}
	if int64(size) > math.MaxUint32 {
		r.err = fmt.Errorf("range %s: %d offsets are more than %d", rangeSpec, size, uint32(math.MaxUint32))
		return r
	}
	if offset < 0 || offset >= size {
		offset = 0 // all of them come last
	}
	var numbers rangekeeper.Range
	if numbers, r.err = rangekeeper.Numbers(uint32(max(size, 0)), uint32(offset)); r.err == nil {
		r.used, r.err = rangekeeper.NewAllocator(numbers, rangekeeper.DynamicBandFirst, rand.Uint64())
	}
	return r
}

// Allocate allocates an offset, and returns whether it was free. The error is that the offset is not in the range.
func (r *AllocationBitmap) Allocate(offset int) (bool, error) {
	if offset < 0 || offset >= r.max {
		return false, fmt.Errorf("offset %d out of range [0,%d]", offset, r.max)
	}
	if r.err != nil {
		return false, r.err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	err := r.used.Allocate(rangekeeper.NumberValue(uint32(offset)))
	if errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.count++
	return true, nil
}

// AllocateNext allocates a free offset, and returns whether there was one.
func (r *AllocationBitmap) AllocateNext() (int, bool, error) {
	if r.err != nil {
		return 0, false, r.err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	value, err := r.used.AllocateNext()
	if errors.Is(err, rangekeeper.ErrFull) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	r.count++
	return int(value.Number()), true, nil
}

// Release releases an offset. It does nothing if the offset is free or not in the range.
func (r *AllocationBitmap) Release(offset int) error {
	if r.err != nil || offset < 0 || offset >= r.max {
		return nil
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	wasUsed, err := r.used.Release(rangekeeper.NumberValue(uint32(offset)))
	if wasUsed {
		r.count--
	}
	return err
}

// ForEach calls fn with each offset that is in use when ForEach begins, ascending.
func (r *AllocationBitmap) ForEach(fn func(int)) {
	if r.err != nil {
		return
	}
	for value := range r.used.All() {
		fn(int(value.Number()))
	}
}

// Has returns whether an offset is in use.
func (r *AllocationBitmap) Has(offset int) bool {
	return r.err == nil && offset >= 0 && offset < r.max && r.used.Has(rangekeeper.NumberValue(uint32(offset)))
}

// Free returns the number of free offsets.
func (r *AllocationBitmap) Free() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.max - r.count
}

// Snapshot returns the range and the data of a RangeAllocation: one big-endian integer without leading zeros, in which
// bit n is offset n.
func (r *AllocationBitmap) Snapshot() (string, []byte) {
	if r.err != nil {
		return r.rangeSpec, []byte{}
	}
	data, _ := r.used.Snapshot([]byte{}) // it fails only after a fault of Rangekeeper, which all calls report
	return r.rangeSpec, data
}

// Restore replaces the offsets in use by those of a snapshot of the same range. An error changes nothing. One that the
// reference does not have is a *rangekeeper.BitsPastRangeError: the snapshot has an offset of max or more.
func (r *AllocationBitmap) Restore(rangeSpec string, data []byte) error {
	if rangeSpec != r.rangeSpec {
		return errors.New("the provided range does not match the current range")
	}
	if r.err != nil {
		return r.err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if err := r.used.Restore(r.used.Range().String(), data); err != nil {
		return err
	}
	r.count = r.used.Used()
	return nil
}

// DryRun returns an independent copy.
func (r *AllocationBitmap) DryRun() (Interface, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	used, err := r.used.DryRun()
	return &AllocationBitmap{max: r.max, rangeSpec: r.rangeSpec, used: used, err: err, count: r.count}, err
}

// Destroy does nothing: the memory goes with the AllocationBitmap.
func (r *AllocationBitmap) Destroy() {}
