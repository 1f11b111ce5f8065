// Package latency computes the latencies that the comparisons report.
package latency

import (
	"math"
	"time"
)

// Percentile returns the smallest latency, in milliseconds, that a share of all latencies, in (0, 1], does not exceed.
// There must be at least one latency.
func Percentile(sorted []time.Duration, share float64) float64 {
	rank := int(math.Ceil(share * float64(len(sorted))))
	return float64(sorted[rank-1].Nanoseconds()) / 1e6
}
