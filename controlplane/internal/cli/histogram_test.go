package cli

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPercentiles compares with durations that are sorted.
func TestPercentiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	checked := 0
	for _, n := range []int{1, 2, 10, 1000, 20000} {
		var h histogram
		var sorted []time.Duration
		for range n {
			d := time.Duration(r.Uint64N(1 << r.UintN(63))) // of all sizes
			h.add(d)
			sorted = append(sorted, d)
		}
		slices.Sort(sorted)
		c := h.counts()
		if c.total() != int64(n) {
			t.Errorf("%d of %d", c.total(), n)
		}
		for i, exact := range sorted {
			// The middle of what this one is the percentile of.
			got := c.percentile((float64(i) + 0.5) / float64(n))
			checked++
			if got < exact || float64(got) > float64(exact)*(1+1.0/64) {
				t.Fatalf("%d of %d: %d, want %d", i, n, got, exact)
			}
		}
	}
	if checked < 20000 {
		t.Errorf("only %d durations checked", checked)
	}
	if got := new(counts).percentile(0.5); got != 0 {
		t.Errorf("of none: %v", got)
	}
	var h histogram
	h.add(1<<63 - 1) // the longest
	h.add(-1)        // a clock that went back
	if got := h.counts().percentile(1); got != 1<<63-1 {
		t.Errorf("%d", got)
	}
	before := h.counts()
	h.add(time.Second)
	if got := h.counts().since(before); got.total() != 1 || got.percentile(0.5) < time.Second {
		t.Errorf("%d, %v", got.total(), got.percentile(0.5))
	}
	if got := before.plus(before).total(); got != 4 {
		t.Errorf("%d", got)
	}
}
