package storage

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore/storemetrics"
)

// stores has all open stores, by key. The API server's registry of metrics has one collector for all of them, as it
// cannot unregister one.
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
func (allStores) Collect(to chan<- prometheus.Metric) {
	stores.Lock()
	defer stores.Unlock()
	for _, store := range stores.open {
		storemetrics.Of(store).Collect(to)
	}
}

// cacheChecks counts the checks of watch caches.
var cacheChecks = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "rangekeeper_watch_cache_checks_total",
	Help: "How often the watch caches of Services, ServiceCIDRs and IPAddress objects were compared with etcd, at the start and after each new connection, by the result: right, or wrong, as after a restore of etcd.",
}, []string{"result"})

func init() { legacyregistry.MustRegister(cacheChecks) }

// wrongCache is the resource whose watch cache has what etcd has not; "" for none.
var wrongCache atomic.Value

// CheckedCaches records that watch caches were compared with etcd, and that the one of a resource is wrong; "" for
// none.
func CheckedCaches(wrong string) {
	if wrong == "" {
		cacheChecks.WithLabelValues("right").Inc()
		return
	}
	wrongCache.Store(wrong)
	cacheChecks.WithLabelValues("wrong").Inc()
	klog.ErrorS(nil, restored, "resource", wrong)
}

// ClosedCaches records that the wrong watch cache is closed.
func ClosedCaches() { wrongCache.Store("") }

// restoredRange is the key of a range whose store has noticed a restore, as long as that store is open; nil for none.
var restoredRange atomic.Pointer[string]

// restored is logged when a server notices it.
const restored = "etcd was restored under this server: its watch caches are wrong until it restarts, and /livez fails"

// Restored returns an error once etcd was restored under the running server.
func Restored() error {
	shown, _ := wrongCache.Load().(string)
	if key := restoredRange.Load(); shown == "" && key != nil {
		shown = *key
	}
	if shown == "" {
		return nil
	}
	return fmt.Errorf("etcd was restored under this server, as its data of %s shows: the server's watch caches are wrong until it restarts", shown)
}

// MayBeRestored reports whether etcd may have been restored under the running server, so that its watch caches may be
// wrong: a connection was lost since, or Restored returns an error.
func MayBeRestored() bool { return Connections() > 0 || Restored() != nil }

// observe adds a store to /metrics and the health check. Of two stores with the same key, the one counts that was
// opened last.
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
