// Package storemetrics has the counters of a Store as Prometheus metrics, so that a program without metrics does not
// link them.
package storemetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// collector has the metrics of one Store. The key is a constant label of each, so that a registry takes several Stores.
type collector struct{ store *etcdstore.Store }

// Of returns the metrics of a Store. Those of one Store are equal.
func Of(store *etcdstore.Store) prometheus.Collector { return collector{store} }

const (
	restoresName = "rangekeeper_store_restores_total"
	restoresHelp = "How often another etcd, or an older state of it, answered than before, as after a restore from a backup."
)

// RestoresOf returns a counter of restores that are noticed by keys of etcd that no Store has, beside those of [Of].
func RestoresOf(key string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: restoresName, Help: restoresHelp, ConstLabels: prometheus.Labels{"key": key}})
}

type descriptions struct{ operations, requests, conflicts, failures, replaced, restores *prometheus.Desc }

func (c collector) descriptions() descriptions {
	key := prometheus.Labels{"key": c.store.Key()}
	return descriptions{
		operations: prometheus.NewDesc("rangekeeper_store_operations_total", "Operations that have ended.", nil, key),
		requests:   prometheus.NewDesc("rangekeeper_store_requests_total", "Requests to etcd.", []string{"kind"}, key),
		conflicts:  prometheus.NewDesc("rangekeeper_store_conflicts_total", "Swaps and confirms that found another state.", nil, key),
		failures:   prometheus.NewDesc("rangekeeper_store_request_failures_total", "Requests without an answer (unknown) and those that etcd would not carry out (refused).", []string{"reason"}, key),
		replaced:   prometheus.NewDesc("rangekeeper_store_committers_replaced_total", "Committers that have failed and were replaced: faults of Rangekeeper.", nil, key),
		restores:   prometheus.NewDesc(restoresName, restoresHelp, nil, key),
	}
}

// Describe makes it a prometheus.Collector.
func (c collector) Describe(all chan<- *prometheus.Desc) {
	of := c.descriptions()
	for _, description := range []*prometheus.Desc{of.operations, of.requests, of.conflicts, of.failures, of.replaced, of.restores} {
		all <- description
	}
}

// Collect returns the counters.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	stats, of := c.store.Stats(), c.descriptions()
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
	counter(of.restores, stats.Restores)
}
