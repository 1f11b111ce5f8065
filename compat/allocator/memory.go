package allocator

import (
	"errors"
	"fmt"
	"math/rand/v2"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Memory allocates the offsets of a range in memory.
type Memory struct {
	used *rangekeeper.Allocator
}

var _ Snapshottable = (*Memory)(nil)

// NewMemory returns an empty Memory, which allocates the dynamic band first.
func NewMemory(values rangekeeper.Range) (*Memory, error) {
	used, err := rangekeeper.NewAllocator(values, rangekeeper.DynamicBandFirst, rand.Uint64())
	return &Memory{used}, err
}

// Allocate allocates an offset, and returns whether it was free.
func (m *Memory) Allocate(offset int) (bool, error) {
	value, ok := ValueAt(m.used.Range(), offset)
	if !ok {
		return false, fmt.Errorf("%s has no offset %d", m.used.Range(), offset)
	}
	err := m.used.Allocate(value)
	if errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		return false, nil
	}
	return err == nil, err
}

// AllocateNext allocates a free offset, and returns whether there was one.
func (m *Memory) AllocateNext() (int, bool, error) {
	value, err := m.used.AllocateNext()
	if errors.Is(err, rangekeeper.ErrFull) {
		return 0, false, nil
	}
	offset, ok := m.used.Range().OffsetOf(value)
	return int(offset), ok, err
}

// Release releases an offset. It does nothing if the offset is free or not in the range.
func (m *Memory) Release(offset int) error {
	value, ok := ValueAt(m.used.Range(), offset)
	if !ok {
		return nil
	}
	_, err := m.used.Release(value)
	return err
}

// ForEach calls fn with each offset in use, ascending.
func (m *Memory) ForEach(fn func(int)) {
	for value := range m.used.All() {
		offset, _ := m.used.Range().OffsetOf(value)
		fn(int(offset))
	}
}

// Has returns whether an offset is in use.
func (m *Memory) Has(offset int) bool {
	value, ok := ValueAt(m.used.Range(), offset)
	return ok && m.used.Has(value)
}

// Free returns the number of free offsets.
func (m *Memory) Free() int {
	return m.used.Free()
}

// Snapshot returns the range and the data of a RangeAllocation.
func (m *Memory) Snapshot() (string, []byte) {
	data, _ := m.used.Snapshot([]byte{}) // never nil, as the reference's
	return m.used.Range().String(), data
}

// Restore replaces the offsets in use by those of a snapshot of the same range. An error changes nothing.
func (m *Memory) Restore(rangeSpec string, data []byte) error {
	return m.used.Restore(rangeSpec, data)
}

// DryRun returns an independent copy.
func (m *Memory) DryRun() (Interface, error) {
	dry, err := m.used.DryRun()
	return &Memory{dry}, err
}

// DryRun returns a copy in memory of an allocator of values: that of its method DryRun if it has one, else a copy of
// its offsets in use.
func DryRun(of Interface, values rangekeeper.Range) (Interface, error) {
	if source, ok := of.(interface{ DryRun() (Interface, error) }); ok {
		return source.DryRun()
	}
	copied, err := NewMemory(values)
	if err != nil {
		return nil, err
	}
	of.ForEach(func(offset int) {
		if _, failed := copied.Allocate(offset); failed != nil {
			err = failed
		}
	})
	return copied, err
}

// Destroy does nothing.
func (m *Memory) Destroy() {}

// ValueAt returns the value at an offset of a range; false if there is none.
func ValueAt(values rangekeeper.Range, offset int) (rangekeeper.Value, bool) {
	if offset < 0 || int64(offset) >= int64(values.Size()) {
		return rangekeeper.Value{}, false
	}
	return values.ValueAt(uint32(offset))
}
