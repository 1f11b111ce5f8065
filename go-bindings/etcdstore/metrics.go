package etcdstore

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats are the counters of a Store since it was opened.
type Stats struct {
	// Operations have ended; Swaps, Confirms and Reads are the requests to etcd that it took.
	Operations, Swaps, Confirms, Reads int64
	// Conflicts are compare-and-swaps and confirms that found another state, Unknown requests without an answer, Refused those that
	// etcd would not carry out.
	Conflicts, Unknown, Refused int64
	// Replaced committers have failed, by a fault of Rangekeeper.
	Replaced int64
}

type counters struct {
	operations, swaps, confirms, reads, conflicts, unknown, refused, replaced atomic.Int64
}

// Stats returns the counters of the store since it was opened.
func (s *Store) Stats() Stats {
	c := &s.counters
	return Stats{
		Operations: c.operations.Load(), Swaps: c.swaps.Load(), Confirms: c.confirms.Load(), Reads: c.reads.Load(),
		Conflicts: c.conflicts.Load(), Unknown: c.unknown.Load(), Refused: c.refused.Load(), Replaced: c.replaced.Load(),
	}
}

// descriptions are the metrics of one Store. The key is a constant label of each, so that a registry takes several Stores.
type descriptions struct{ operations, requests, conflicts, failures, replaced *prometheus.Desc }

func (s *Store) descriptions() descriptions {
	key := prometheus.Labels{"key": s.config.Key}
	return descriptions{
		operations: prometheus.NewDesc("rangekeeper_store_operations_total", "Operations that have ended.", nil, key),
		requests:   prometheus.NewDesc("rangekeeper_store_requests_total", "Requests to etcd.", []string{"kind"}, key),
		conflicts:  prometheus.NewDesc("rangekeeper_store_conflicts_total", "Swaps and confirms that found another state.", nil, key),
		failures:   prometheus.NewDesc("rangekeeper_store_request_failures_total", "Requests without an answer (unknown) and those that etcd would not carry out (refused).", []string{"reason"}, key),
		replaced:   prometheus.NewDesc("rangekeeper_store_committers_replaced_total", "Committers that have failed and were replaced: faults of Rangekeeper.", nil, key),
	}
}

// Describe makes a Store a prometheus.Collector.
func (s *Store) Describe(all chan<- *prometheus.Desc) {
	of := s.descriptions()
	for _, description := range []*prometheus.Desc{of.operations, of.requests, of.conflicts, of.failures, of.replaced} {
		all <- description
	}
}

// Collect returns the counters of Stats, with the key as a label.
func (s *Store) Collect(metrics chan<- prometheus.Metric) {
	stats, of := s.Stats(), s.descriptions()
	counter := func(description *prometheus.Desc, value int64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.CounterValue, float64(value), labels...)
	}
	counter(of.operations, stats.Operations)
	counter(of.requests, stats.Swaps, "swap")
	counter(of.requests, stats.Confirms, "confirm")
	counter(of.requests, stats.Reads, "read")
	counter(of.conflicts, stats.Conflicts)
	counter(of.failures, stats.Unknown, "unknown")
	counter(of.failures, stats.Refused, "refused")
	counter(of.replaced, stats.Replaced)
}
