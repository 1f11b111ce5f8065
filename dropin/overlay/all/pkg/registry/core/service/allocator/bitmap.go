package allocator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// AllocationBitmap hands out offsets. All its choices are made by Rangekeeper.
type AllocationBitmap struct {
	rangeSpec string
	max       int
	strategy  rangekeeper.Strategy
	// staticBand is how many offsets the strategy spares.
	staticBand int

	lock sync.Mutex
	// count is how many offsets are in use.
	count int
	// used is nil if there are no offsets at all.
	used *rangekeeper.Allocator[rangekeeper.UIDBlock]
}

var _ Snapshottable = (*AllocationBitmap)(nil)

// NewAllocationMap makes an AllocationBitmap of max offsets, whose next one is picked at random. rangeSpec is how
// snapshots call them.
func NewAllocationMap(max int, rangeSpec string) *AllocationBitmap {
	return newAllocationMap(max, rangeSpec, rangekeeper.RandomScan, 0)
}

// NewAllocationMapWithOffset makes an AllocationBitmap that picks the first offset offsets only when all others are in
// use.
func NewAllocationMapWithOffset(max int, rangeSpec string, offset int) *AllocationBitmap {
	return newAllocationMap(max, rangeSpec, rangekeeper.RandomScanSparingStaticBand, offset)
}

func newAllocationMap(max int, rangeSpec string, strategy rangekeeper.Strategy, staticBand int) *AllocationBitmap {
	r := &AllocationBitmap{rangeSpec: rangeSpec, max: max, strategy: strategy, staticBand: staticBand}
	if max <= 0 {
		r.max = 0
		return r
	}
	// Blocks of one UID each: offset n is UID n.
	offsets, err := rangekeeper.ParseUIDRange(fmt.Sprintf("0-%d/1", max-1))
	if err == nil {
		r.used, err = rangekeeper.NewAllocator(offsets, strategy, rand.Uint64())
	}
	if err == nil {
		err = r.used.SetStaticBand(uint32(staticBand))
	}
	if err != nil {
		panic(fmt.Sprintf("a bitmap of %d offsets: %v", max, err)) // more than 2^32: there is no way to return it
	}
	return r
}

// Strategy is how the next offset is picked.
func (r *AllocationBitmap) Strategy() rangekeeper.Strategy { return r.strategy }

func block(offset int) rangekeeper.UIDBlock {
	return rangekeeper.UIDBlock{Start: uint32(offset), Size: 1}
}

func (r *AllocationBitmap) has(offset int) bool { return offset >= 0 && offset < r.max }

// Allocate takes an offset, and says whether it was free. The error is of one that there is not.
func (r *AllocationBitmap) Allocate(offset int) (bool, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if !r.has(offset) {
		return false, fmt.Errorf("%s has no offset %d, they are 0 to %d", r.rangeSpec, offset, r.max-1)
	}
	err := r.used.Allocate(block(offset))
	if errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		return false, nil
	}
	if err == nil {
		r.count++
	}
	return err == nil, err
}

// AllocateNext takes a free offset, and says whether there was one.
func (r *AllocationBitmap) AllocateNext() (int, bool, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.max == 0 {
		return 0, false, nil
	}
	next, err := r.used.AllocateNext()
	if errors.Is(err, rangekeeper.ErrFull) {
		return 0, false, nil
	}
	if err == nil {
		r.count++
	}
	return int(next.Start), err == nil, err
}

// Release frees an offset. To free what is free, or is no offset, changes nothing.
func (r *AllocationBitmap) Release(offset int) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if !r.has(offset) {
		return nil
	}
	freed, err := r.used.Release(block(offset))
	if freed {
		r.count--
	}
	return err
}

// ForEach calls fn with each offset in use, ascending. fn must not use the AllocationBitmap.
func (r *AllocationBitmap) ForEach(fn func(int)) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.max == 0 {
		return
	}
	for used := range r.used.All() {
		fn(int(used.Start))
	}
}

// Has says whether an offset is in use.
func (r *AllocationBitmap) Has(offset int) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	if !r.has(offset) {
		return false
	}
	used, err := r.used.Has(block(offset))
	return used || err != nil // what cannot be told is not free
}

// Free is how many offsets are not in use.
func (r *AllocationBitmap) Free() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.max - r.count
}

// Snapshot gives the name of the range, and its bitmap as a RangeAllocation has it.
func (r *AllocationBitmap) Snapshot() (string, []byte) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.max == 0 {
		return r.rangeSpec, nil
	}
	data, err := r.used.Snapshot(nil)
	if err != nil {
		panic(fmt.Sprintf("a snapshot of %s: %v", r.rangeSpec, err)) // only after Close, which nobody calls
	}
	return r.rangeSpec, data
}

// Restore takes a snapshot of the same range over. After an error nothing is changed.
func (r *AllocationBitmap) Restore(rangeSpec string, data []byte) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if rangeSpec != r.rangeSpec {
		return fmt.Errorf("the snapshot is of the range %q, expected %q", rangeSpec, r.rangeSpec)
	}
	if r.max == 0 {
		return nil
	}
	if err := r.used.Restore(r.used.Range().String(), data); err != nil {
		return err
	}
	count, err := r.used.Used()
	if err == nil {
		r.count = count
	}
	return err
}

// DryRun gives an independent copy: what is tried on it ends as it would here, and changes nothing here.
func (r *AllocationBitmap) DryRun() (Interface, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	dry := &AllocationBitmap{rangeSpec: r.rangeSpec, max: r.max, strategy: r.strategy, staticBand: r.staticBand, count: r.count}
	if r.max == 0 {
		return dry, nil
	}
	var err error
	dry.used, err = r.used.DryRun()
	return dry, err
}

// Destroy does nothing: the memory is freed when nobody uses it any more.
func (r *AllocationBitmap) Destroy() {}
