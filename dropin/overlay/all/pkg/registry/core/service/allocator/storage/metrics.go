package storage

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore/storemetrics"
)

// stores has all open stores, by key. The API server's registry of metrics has one collector for all of them, as it cannot
// unregister one.
var stores = struct {
	sync.Mutex
	registered bool
	open       map[string]*etcdstore.Store
}{open: make(map[string]*etcdstore.Store)}

// allStores collects the metrics of all open stores.
type allStores struct{}

// Describe describes nothing, as the keys are not known beforehand.
func (allStores) Describe(chan<- *prometheus.Desc) {}

// Collect returns the metrics of etcdstore, with the key as a label.
func (allStores) Collect(metrics chan<- prometheus.Metric) {
	stores.Lock()
	defer stores.Unlock()
	for _, store := range stores.open {
		storemetrics.Of(store).Collect(metrics)
	}
}

// Restored returns an error once etcd was restored under the running server.
func Restored() error {
	stores.Lock()
	defer stores.Unlock()
	for key, store := range stores.open {
		if restores := store.Stats().Restores; restores > 0 {
			return fmt.Errorf("etcd was restored under this server, as %s shows: the server's watch caches are wrong until it restarts", key)
		}
	}
	return nil
}

// observe adds a store to /metrics and the health check. Of two stores with the same key, the one counts that was opened last.
func observe(store *etcdstore.Store) {
	stores.Lock()
	defer stores.Unlock()
	stores.open[store.Key()] = store
	if !stores.registered {
		stores.registered = true
		legacyregistry.RawMustRegister(allStores{})
	}
}

// forget removes a store.
func forget(store *etcdstore.Store) {
	stores.Lock()
	defer stores.Unlock()
	if stores.open[store.Key()] == store {
		delete(stores.open, store.Key())
	}
}
