package storage

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// stores has the collectors of all open stores, by key. The API server's registry has one collector for all of them, as it cannot
// unregister one.
var stores = struct {
	sync.Mutex
	registered bool
	open       map[string]prometheus.Collector
}{open: make(map[string]prometheus.Collector)}

// allStores collects the metrics of all open stores.
type allStores struct{}

// Describe describes nothing, as the keys are not known beforehand.
func (allStores) Describe(chan<- *prometheus.Desc) {}

// Collect returns the metrics of etcdstore, with the key as a label.
func (allStores) Collect(metrics chan<- prometheus.Metric) {
	stores.Lock()
	defer stores.Unlock()
	for _, store := range stores.open {
		store.Collect(metrics)
	}
}

// observe adds a store to /metrics. Of two stores with the same key, /metrics has the one that was opened last.
func observe(key string, store prometheus.Collector) {
	stores.Lock()
	defer stores.Unlock()
	stores.open[key] = store
	if !stores.registered {
		stores.registered = true
		legacyregistry.RawMustRegister(allStores{})
	}
}

// forget removes a store from /metrics.
func forget(key string, store prometheus.Collector) {
	stores.Lock()
	defer stores.Unlock()
	if stores.open[key] == store {
		delete(stores.open, key)
	}
}
