package cli

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// subBits makes a bucket at most 1/64 wider than its lower end.
	subBits = 6
	buckets = (63-subBits)<<subBits + 1<<subBits
)

// histogram counts durations. It may be used from several goroutines at once.
// Memory: 30 KiB, however many there are.
type histogram [buckets]atomic.Int64

func (h *histogram) add(d time.Duration) { h[bucketOf(d)].Add(1) }

// counts gives how many durations are in each bucket.
func (h *histogram) counts() *counts {
	c := new(counts)
	for i := range h {
		c[i] = h[i].Load()
	}
	return c
}

// bucketOf counts single nanoseconds up to 128, and then with each power of two 64
// buckets that are twice as wide as those before.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 0))
	shift := max(bits.Len64(n)-subBits-1, 0)
	return shift<<subBits + int(n>>shift)
}

// upperEnd is the longest duration that a bucket holds.
func upperEnd(bucket int) time.Duration {
	shift := max(bucket>>subBits-1, 0)
	return time.Duration(bucket-shift<<subBits+1)<<shift - 1
}

// counts are those of a histogram at one time.
type counts [buckets]int64

// plus gives the counts of both together.
func (c *counts) plus(other *counts) *counts {
	sum := *c
	for i, n := range other {
		sum[i] += n
	}
	return &sum
}

// since gives what was counted after an earlier time.
func (c *counts) since(earlier *counts) *counts {
	rest := *c
	for i, n := range earlier {
		rest[i] -= n
	}
	return &rest
}

func (c *counts) total() int64 {
	total := int64(0)
	for _, n := range c {
		total += n
	}
	return total
}

// percentile gives a duration that this share of all does not exceed, at most 1/64
// above the smallest such one; 0 if there are none.
func (c *counts) percentile(share float64) time.Duration {
	rank := int64(math.Ceil(share * float64(c.total())))
	for i, n := range c {
		if rank -= n; rank <= 0 && n > 0 {
			return upperEnd(i)
		}
	}
	return 0
}
