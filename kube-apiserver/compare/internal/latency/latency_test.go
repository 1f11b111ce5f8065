package latency

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i+1) * time.Millisecond
	}
	for _, c := range []struct {
		sorted []time.Duration
		share  float64
		want   float64
	}{
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 0.999, 100},
		{hundred, 1, 100},
		{hundred[:1], 0.01, 1},
		{hundred[:3], 0.5, 2},
	} {
		if got := Percentile(c.sorted, c.share); got != c.want {
			t.Errorf("percentile %v of %d latencies: got %v ms, want %v ms", c.share, len(c.sorted), got, c.want)
		}
	}
}
