package servicetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
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

// TestWatchCacheIsChecked loses the connections to etcd, which then is the same, and later another history of it. The
// server must say so, though no key of a range has changed.
func TestWatchCacheIsChecked(t *testing.T) {
	for _, other := range []struct {
		what string
		etcd func(*cluster, *testing.T) (url string)
	}{
		{"an older state", func(c *cluster, t *testing.T) string {
			etcd, url, reached := c.restored(t, "/registry/")
			for written := int64(0); written <= reached+100; {
				written = must(etcd.Put(t.Context(), "/registry/other", "")).Header.Revision
			}
			return url
		}},
		{"another Service at the revision", func(c *cluster, t *testing.T) string {
			return c.otherHistory(t, func(stored *api.Service) { stored.UID = "other" })
		}},
		{"another state of the Service at the revision", func(c *cluster, t *testing.T) string {
			return c.otherHistory(t, func(stored *api.Service) { stored.Spec.Ports[0].NodePort++ })
		}},
	} {
		t.Run(other.what, func(t *testing.T) {
			c := start(t, nil)
			services, _ := c.open(t, genericregistry.StorageWithCacher())
			create := func(name string) {
				t.Helper()
				if _, err := services.Create(request(t), nodePort(name), rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
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
			c.proxy.turn(other.etcd(c, t))
			awaitChecks(t, "wrong", before["wrong"]+1)
			if allocatorstorage.Restored() == nil {
				t.Error("the server takes a restored etcd for the one before")
			}
		})
	}
}

// otherHistory starts another etcd, with the same Services at the same mod revisions, and writes since. The Service a
// is changed. It returns its URL.
func (c *cluster) otherHistory(t *testing.T, change func(*api.Service)) (url string) {
	t.Helper()
	stored := must(c.etcd.Get(t.Context(), key(""), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend)))
	etcd, url, _ := c.restored(t, "/registry/none")
	written := must(etcd.Get(t.Context(), "/")).Header.Revision
	fill := func(to int64) {
		for written < to {
			written = must(etcd.Put(t.Context(), "/registry/other", "")).Header.Revision
		}
	}
	for _, of := range stored.Kvs {
		if string(of.Key) == key("a") {
			service := must(runtime.Decode(c.config.Codec, of.Value)).(*api.Service)
			change(service)
			of.Value = must(runtime.Encode(c.config.Codec, service))
		}
		fill(of.ModRevision - 1)
		if written = must(etcd.Put(t.Context(), string(of.Key), string(of.Value))).Header.Revision; written != of.ModRevision {
			t.Fatalf("%s is of revision %d, not %d", of.Key, written, of.ModRevision)
		}
	}
	fill(stored.Header.Revision + 100)
	return url
}

// lists are lists of objects, as the watch cache of their resource has them.
var lists = map[string]func(metav1.ListMeta, ...metav1.ObjectMeta) runtime.Object{
	"servicecidrs": func(meta metav1.ListMeta, objects ...metav1.ObjectMeta) runtime.Object {
		list := &networkingv1.ServiceCIDRList{ListMeta: meta}
		for _, object := range objects {
			list.Items = append(list.Items, networkingv1.ServiceCIDR{ObjectMeta: object})
		}
		return list
	},
	"ipaddresses": func(meta metav1.ListMeta, objects ...metav1.ObjectMeta) runtime.Object {
		list := &networkingv1.IPAddressList{ListMeta: meta}
		for _, object := range objects {
			list.Items = append(list.Items, networkingv1.IPAddress{ObjectMeta: object})
		}
		return list
	},
}

// TestCachesOfObjectsAreChecked has an object in a watch cache that a restored etcd lacks, or has another one for at
// the same revision, and a right cache of Services.
func TestCachesOfObjectsAreChecked(t *testing.T) {
	for resource, kind := range map[string]string{"servicecidrs": "ServiceCIDR", "ipaddresses": "IPAddress"} {
		for what, alive := range map[string]string{"is lost": "", "is another one": "alive"} {
			t.Run(resource+" "+what, func(t *testing.T) {
				var written, cached atomic.Int64 // the revisions of the object and of the caches
				client := fake.NewClientset()
				client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if cached.Load() == 0 {
						return true, nil, errors.New("the cache is not filled")
					}
					of, meta := action.GetResource().Resource, metav1.ListMeta{ResourceVersion: revisionText(cached.Load())}
					if of != resource {
						return true, lists[of](meta), nil
					}
					return true, lists[of](meta, metav1.ObjectMeta{Name: "one", UID: "lost", ResourceVersion: revisionText(written.Load())}), nil
				})
				factory := informers.NewSharedInformerFactory(client, 0)
				addresses := must(ipallocator.NewMetaAllocator(client.NetworkingV1(), factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses(), false, nil))
				before := cacheChecks(t)
				c := start(t, addresses)
				key := "/registry/" + resource + "/one"
				put := func(uid string) {
					t.Helper()
					value := `{"apiVersion":"networking.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"one","uid":"` + uid + `"}}`
					revision := must(c.etcd.Put(t.Context(), key, value)).Header.Revision
					written.Store(revision)
					cached.Store(revision)
				}
				put("lost")
				awaitChecks(t, "right", before["right"]+1)
				if err := allocatorstorage.Restored(); err != nil {
					t.Error(err)
				}
				if alive != "" {
					put(alive)
				} else {
					cached.Store(must(c.etcd.Delete(t.Context(), key)).Header.Revision)
				}
				c.proxy.cut()
				awaitChecks(t, "wrong", before["wrong"]+1)
				if err := allocatorstorage.Restored(); err == nil || !strings.Contains(err.Error(), resource) {
					t.Errorf("error %v, want one about %s", err, resource)
				}
			})
		}
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
