package servicetest

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// staleCache is a watch cache that has Services of an etcd that was restored: the revision of a lost Service is that of the stored one.
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

// TestStaleCacheAfterARestore changes Services whose cached objects are of a history that a restore of etcd has undone: with another node
// port, which another Service has by now, and with the same revision. A lost connection says that there may have been a restore.
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
