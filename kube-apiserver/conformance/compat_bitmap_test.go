package upstream

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	reference "k8s.io/kubernetes/pkg/registry/core/service/allocator"

	compat "github.com/rangekeeper/rangekeeper/compat/allocator"
)

// TestCompatBitmap performs random operations on the AllocationBitmap of the module compat and on the reference's, over
// ranges of any size, band and text, and compares all results, errors and snapshots. Where either of them picks an
// offset at random, ours must be in the band that the reference picks from, and the reference is given the same one.
func TestCompatBitmap(t *testing.T) {
	random := rand.New(rand.NewPCG(*seed, 1))
	t.Logf("seed %d", *seed)
	picked, refused := 0, 0
	for range 5_000 {
		max := []int{0, 1, 2, 15, 16, 17, 63, 64, 65, 300}[random.IntN(10)]
		band := 0
		if max > 1 {
			band = random.IntN(max)
		}
		text := []string{"", "test", "10.0.0.0/24", "1000000000-1999999999/10000"}[random.IntN(4)]
		ours, theirs := compat.NewAllocationMapWithOffset(max, text, band), reference.NewAllocationMapWithOffset(max, text, band)
		if band == 0 && random.IntN(2) == 0 {
			ours, theirs = compat.NewAllocationMap(max, text), reference.NewAllocationMap(max, text)
		}
		for range random.IntN(60) {
			offset := random.IntN(max+4) - 1
			switch random.IntN(6) {
			case 0, 1:
				ok, err := ours.Allocate(offset)
				wantOK, wantErr := theirs.Allocate(offset)
				if ok != wantOK || textOf(err) != textOf(wantErr) {
					t.Fatalf("allocate %d of %d: %v, %v, not %v, %v", offset, max, ok, err, wantOK, wantErr)
				}
			case 2, 3:
				next, ok, err := ours.AllocateNext()
				if ok != (theirs.Free() > 0) || err != nil {
					t.Fatalf("allocate next with %d free: %v, %v", theirs.Free(), ok, err)
				}
				if !ok {
					continue
				}
				picked++
				for at := band; next < band && at < max; at++ {
					if !theirs.Has(at) {
						t.Fatalf("picked %d of the static band, though %d is free", next, at)
					}
				}
				if taken, err := theirs.Allocate(next); !taken || err != nil {
					t.Fatalf("picked %d of %d: %v, %v", next, max, taken, err)
				}
			case 4:
				if offset < 0 {
					continue // no offset of a map
				}
				if err := ours.Release(offset); err != nil {
					t.Fatal(err)
				}
				if err := theirs.Release(offset); err != nil {
					t.Fatal(err)
				}
			case 5:
				gotText, data := ours.Snapshot()
				ours = compat.NewAllocationMapWithOffset(max, text, band)
				if err := ours.Restore("another", data); textOf(err) != textOf(theirs.Restore("another", data)) {
					t.Fatalf("restore of another range: %v", err)
				}
				if err := ours.Restore(gotText, data); err != nil {
					t.Fatal(err)
				}
				// A difference (docs/differences.md, bits past the end of a range): refused, and nothing is changed.
				if err := ours.Restore(gotText, append([]byte{1}, make([]byte, max/8)...)); max%8 == 0 && err == nil {
					t.Fatalf("restored an offset %d of %d", max, max)
				} else if err != nil {
					refused++
				} else if err := ours.Restore(gotText, data); err != nil {
					t.Fatal(err)
				}
			}
			gotText, data := ours.Snapshot()
			wantText, want := theirs.Snapshot()
			if gotText != wantText || !bytes.Equal(data, want) || ours.Free() != theirs.Free() {
				t.Fatalf("%q %x with %d free, not %q %x with %d", gotText, data, ours.Free(), wantText, want, theirs.Free())
			}
			if offset >= 0 && ours.Has(offset) != theirs.Has(offset) {
				t.Fatalf("has %d: %v", offset, ours.Has(offset))
			}
		}
		var all, wanted []int
		ours.ForEach(func(offset int) { all = append(all, offset) })
		theirs.ForEach(func(offset int) { wanted = append(wanted, offset) })
		if !slices.Equal(all, wanted) {
			t.Fatalf("%v are in use, not %v", all, wanted)
		}
	}
	if picked < 500 || refused < 500 {
		t.Errorf("only %d picked, %d refused", picked, refused)
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
