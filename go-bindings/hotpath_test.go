//go:build !race

package rangekeeper

import "testing"

// With the race detector sync.Pool forgets some of the instances, so that calls without an object allocate.
func TestNoAllocationInHotPath(t *testing.T) {
	a := halfFull(t, "10.96.0.0/12")
	r := a.Range()
	index, cidrs := newIndex(t, "10.96.0.0/12")
	var buffer []byte
	got := testing.AllocsPerRun(100, func() {
		value := must(a.AllocateNext())
		a.Has(value)
		must(a.Release(value))
		if err := a.Allocate(value); err != nil {
			t.Fatal(err)
		}
		must(a.Release(value))
		buffer = must(a.Snapshot(buffer))
		if offset, in := r.OffsetOf(value); !in || a.Used()+a.Free() != int(r.Size()) {
			t.Fatal(offset, in)
		}
		if first, ok := r.ValueAt(0); !ok {
			t.Fatal(first)
		}
		reservation := must(index.Reserve(cidrs, later))
		must(0, index.Confirm(reservation, 1))
		must(0, index.Removed(reservation.Addr, 2))
		index.Usage(cidrs[0])
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}
