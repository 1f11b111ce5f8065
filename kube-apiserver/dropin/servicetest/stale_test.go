package servicetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	svctest "k8s.io/kubernetes/pkg/api/service/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// staleCache is a watch cache that has Services of an etcd that was restored: the revision of a lost Service is that of
// the stored one.
type staleCache struct {
	storage.Interface
	lost map[string]*api.Service
}

func (s *staleCache) Get(ctx context.Context, key string, options storage.GetOptions, into runtime.Object) error {
	if lost := s.lost[key]; lost != nil && options.ResourceVersion == "0" {
		lost.DeepCopyInto(into.(*api.Service))
		return nil
	}
	return s.Interface.Get(ctx, key, options, into)
}

// GuaranteedUpdate and Delete begin with the object in the cache, as those of the API server do.
func (s *staleCache) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	if lost := s.lost[key]; lost != nil {
		cached = lost.DeepCopy()
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, cached)
}

func (s *staleCache) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions) error {
	if lost := s.lost[key]; lost != nil {
		cached = lost.DeepCopy()
	}
	return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, options)
}

func (s *staleCache) decorate(config *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	of, destroy, err := generic.UndecoratedStorage(config, resourcePrefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
	s.Interface = of
	return s, destroy, err
}

// TestStaleCacheAfterARestore changes Services whose cached objects are of a history that a restore of etcd has undone:
// with another node port, which another Service has by now, and with the same revision. A lost connection says that
// there may have been a restore.
func TestStaleCacheAfterARestore(t *testing.T) {
	c := start(t, nil)
	stale := &staleCache{lost: map[string]*api.Service{}}
	services, status := c.open(t, stale.decorate)
	owner := must(c.create(request(t), nodePort("owner"), nil))
	port := owner.Spec.Ports[0].NodePort
	lose := func(name string) *api.Service {
		t.Helper()
		stored := must(c.create(request(t), nodePort(name), nil))
		lost := stored.DeepCopy()
		lost.Spec.Ports[0].NodePort = port
		stale.lost[key(name)[len("/registry"):]] = lost
		return stored
	}
	updated, finalized, deleted := lose("updated"), lose("finalized"), lose("deleted")
	c.reconnect(t, c.REST, services)
	label := func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		changed := old.(*api.Service).DeepCopy()
		changed.Labels = map[string]string{"a": "b"}
		return changed, nil
	}
	for service, update := range map[*api.Service]rest.Updater{updated: services, finalized: status} {
		result, _, err := update.Update(request(t), service.Name, rest.DefaultUpdatedObjectInfo(nil, label),
			rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if err != nil {
			t.Errorf("%s: %v", service.Name, err)
			continue
		}
		if got, want := result.(*api.Service).Spec.Ports[0].NodePort, service.Spec.Ports[0].NodePort; got != want {
			t.Errorf("%s has node port %d after the update, not %d", service.Name, got, want)
		}
	}
	if _, _, err := services.Delete(request(t), deleted.Name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if c.ports.Has(int(deleted.Spec.Ports[0].NodePort)) {
		t.Error("the deletion has not released the port of the stored Service")
	}
	if !c.ports.Has(int(port)) {
		t.Error("a node port of another Service is released")
	}
}

// TestWatchCacheIsChecked loses the connections to etcd, which then is the same, and later an older state of it. The
// server must say so, though no key of a range has changed.
func TestWatchCacheIsChecked(t *testing.T) {
	c := start(t, nil)
	services, _ := c.open(t, genericregistry.StorageWithCacher())
	create := func(name string) {
		t.Helper()
		if _, err := services.Create(request(t), svctest.MakeService(name, svctest.SetHeadless), rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("a")
	create("b")
	c.reconnect(t, c.REST, services)
	before := cacheChecks(t)
	c.proxy.cut()
	awaitChecks(t, "right", before["right"]+2) // also by the storage without a cache
	if err := allocatorstorage.Restored(); err != nil {
		t.Error(err)
	}

	etcd, restored, reached := c.restored(t, "/registry/")
	// What others write since has the revisions of the lost history.
	for written := int64(0); written <= reached+100; {
		written = must(etcd.Put(t.Context(), "/registry/other", "")).Header.Revision
	}
	c.proxy.turn(restored)
	awaitChecks(t, "wrong", before["wrong"]+1)
	if allocatorstorage.Restored() == nil {
		t.Error("the server takes a restored etcd for the one before")
	}
}

// TestServiceCIDRCacheIsChecked has a ServiceCIDR in the watch cache that a restored etcd lacks, and a right cache of
// Services.
func TestServiceCIDRCacheIsChecked(t *testing.T) {
	cached := &networkingv1.ServiceCIDRList{Items: []networkingv1.ServiceCIDR{{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}}}
	var revision atomic.Int64
	client := fake.NewClientset()
	client.PrependReactor("list", "servicecidrs", func(clienttesting.Action) (bool, runtime.Object, error) {
		if revision.Load() == 0 {
			return true, nil, errors.New("the cache is not filled")
		}
		list := cached.DeepCopy()
		list.ResourceVersion = revisionText(revision.Load())
		return true, list, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	addresses := must(ipallocator.NewMetaAllocator(client.NetworkingV1(), factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses(), false, nil))
	before := cacheChecks(t)
	c := start(t, addresses)
	written := must(c.etcd.Put(t.Context(), cidrKeys+"lost", "the ServiceCIDR")).Header.Revision
	cached.Items[0].ResourceVersion = revisionText(written)
	revision.Store(written)
	awaitChecks(t, "right", before["right"]+1)
	if err := allocatorstorage.Restored(); err != nil {
		t.Error(err)
	}
	revision.Store(must(c.etcd.Delete(t.Context(), cidrKeys+"lost")).Header.Revision)
	c.proxy.cut()
	awaitChecks(t, "wrong", before["wrong"]+1)
	if err := allocatorstorage.Restored(); err == nil || !strings.Contains(err.Error(), "servicecidrs") {
		t.Errorf("error %v, want one about servicecidrs", err)
	}
}

// cacheChecks returns how often watch caches were compared with etcd, by the result.
func cacheChecks(t *testing.T) map[string]float64 {
	t.Helper()
	checks := map[string]float64{}
	for _, family := range must(legacyregistry.DefaultGatherer.Gather()) {
		if family.GetName() != "rangekeeper_watch_cache_checks_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			checks[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return checks
}

// awaitChecks waits until watch caches were found right, or wrong, so often.
func awaitChecks(t *testing.T, result string, count float64) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if cacheChecks(t)[result] >= count {
			return
		}
	}
	t.Fatalf("checks: %v; %v must be %s", cacheChecks(t), count, result)
}
