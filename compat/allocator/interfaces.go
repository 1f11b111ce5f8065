// Package allocator allocates the offsets of a range: the numbers from 0 to its size.
package allocator

// Interface allocates the offsets of a range. All methods may be called concurrently.
type Interface interface {
	// Allocate allocates an offset, and returns whether it was free.
	Allocate(int) (bool, error)
	// AllocateNext allocates a free offset, and returns whether there was one.
	AllocateNext() (int, bool, error)
	// Release releases an offset. It does nothing if the offset is free or not in the range.
	Release(int) error
	// ForEach calls a function with each offset in use.
	ForEach(func(int))
	// Has returns whether an offset is in use.
	Has(int) bool
	// Free returns the number of free offsets.
	Free() int
	// Destroy ends what the allocator has begun. It may be called again.
	Destroy()
}

// Snapshottable is an allocator whose state can be stored.
type Snapshottable interface {
	Interface
	// Snapshot returns the range and the bitmap of a RangeAllocation.
	Snapshot() (string, []byte)
	// Restore replaces the offsets in use by those of a snapshot of the same range.
	Restore(string, []byte) error
}

// AllocatorFactory returns an allocator of max offsets. rangeSpec is the text of the range in a RangeAllocation.
type AllocatorFactory func(max int, rangeSpec string) (Interface, error)

// AllocatorWithOffsetFactory returns an allocator of max offsets, whose AllocateNext takes the first offset of them
// last.
type AllocatorWithOffsetFactory func(max int, rangeSpec string, offset int) (Interface, error)
