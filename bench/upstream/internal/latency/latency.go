// Package latency computes the latencies that the comparisons report.
package latency

import (
	"math"
	"time"
)

// Percentile is the smallest latency that this share of all, in (0, 1], is not above, in milliseconds. There is at least one.
func Percentile(sorted []time.Duration, share float64) float64 {
	rank := int(math.Ceil(share * float64(len(sorted))))
	return float64(sorted[rank-1].Nanoseconds()) / 1e6
}
