package etcdstore

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats counts what a Store has done since it was opened.
type Stats struct {
	// Operations have ended; Swaps, Confirms, Reads and Fences are the requests to etcd that it took.
	Operations, Swaps, Confirms, Reads, Fences int64
	// Conflicts are swaps and confirms that found another state, Unknown requests without an answer, Refused those that
	// etcd would not carry out.
	Conflicts, Unknown, Refused int64
}

type counters struct {
	operations, swaps, confirms, reads, fences, conflicts, unknown, refused atomic.Int64
}

// Stats tells what the store has done since it was opened.
func (s *Store[V]) Stats() Stats {
	c := &s.counters
	return Stats{
		Operations: c.operations.Load(), Swaps: c.swaps.Load(), Confirms: c.confirms.Load(), Reads: c.reads.Load(),
		Fences: c.fences.Load(), Conflicts: c.conflicts.Load(), Unknown: c.unknown.Load(), Refused: c.refused.Load(),
	}
}

var (
	operationsTotal = prometheus.NewDesc("rangekeeper_store_operations_total", "Operations that have ended.", []string{"key"}, nil)
	requestsTotal   = prometheus.NewDesc("rangekeeper_store_requests_total", "Requests to etcd.", []string{"key", "kind"}, nil)
	conflictsTotal  = prometheus.NewDesc("rangekeeper_store_conflicts_total", "Swaps and confirms that found another state.", []string{"key"}, nil)
	failuresTotal   = prometheus.NewDesc("rangekeeper_store_request_failures_total", "Requests without an answer (unknown) and those that etcd would not carry out (refused).", []string{"key", "reason"}, nil)
)

// Describe makes a Store a prometheus.Collector.
func (s *Store[V]) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- operationsTotal
	descriptions <- requestsTotal
	descriptions <- conflictsTotal
	descriptions <- failuresTotal
}

// Collect gives the counters of Stats, with the key as a label.
func (s *Store[V]) Collect(metrics chan<- prometheus.Metric) {
	stats, key := s.Stats(), s.config.Key
	counter := func(description *prometheus.Desc, value int64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.CounterValue, float64(value), append([]string{key}, labels...)...)
	}
	counter(operationsTotal, stats.Operations)
	counter(requestsTotal, stats.Swaps, "swap")
	counter(requestsTotal, stats.Confirms, "confirm")
	counter(requestsTotal, stats.Reads, "read")
	counter(requestsTotal, stats.Fences, "fence")
	counter(conflictsTotal, stats.Conflicts)
	counter(failuresTotal, stats.Unknown, "unknown")
	counter(failuresTotal, stats.Refused, "refused")
}
