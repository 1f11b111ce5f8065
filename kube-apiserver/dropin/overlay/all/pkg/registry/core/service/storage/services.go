package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/component-base/tracing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	apiv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install" // for the decoder of cacheOf
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"

	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
)

// services stores Services.
type services struct {
	storage.Interface
	// raw stores the same objects without a watch cache. Its writes have the conditions in their context.
	raw storage.Interface
	// prefix is that of the keys, as the storages know them.
	prefix string
	// etcd is the client of raw.
	etcd *clientv3.Client
	// caches are the watch caches that are compared with etcd, the largest last. unchecked has an element if they are
	// to be.
	caches     []*watchCache
	unchecked  chan struct{}
	newRequest func() *request
	// deleting has the deletion of each deleted Service, by the object into which it was decoded, until its values are
	// released.
	deleting sync.Map
}

// follow gives both stores the storage and the hooks of this package, and the allocators what they need of it. NewREST
// calls it instead of setting the status store's hook (see kube-apiserver/dropin.sh).
func (r *REST) follow(status *genericregistry.Store, getter generic.RESTOptionsGetter) error {
	options, err := getter.GetRESTOptions(r.Store.DefaultQualifiedResource, &api.Service{})
	if err != nil {
		return err
	}
	s := &services{
		Interface: r.Store.Storage.Storage, prefix: path.Join("/", options.ResourcePrefix), unchecked: make(chan struct{}, 1),
	}
	raw, etcd, closeRaw, err := openRaw(options.StorageConfig, s.prefix, r.Store.NewFunc, r.Store.NewListFunc, s.checkAgain)
	if err != nil {
		return fmt.Errorf("open the storage of Services: %w", err)
	}
	s.raw, s.etcd = raw, etcd
	closeAddresses, err := openAddresses(getter)
	if err != nil {
		closeRaw()
		return fmt.Errorf("open the storage of IPAddress objects: %w", err)
	}
	var checks sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	destroy := r.Store.DestroyFunc
	closeAll := sync.OnceFunc(func() {
		cancel()
		checks.Wait()
		closeAddresses()
		closeRaw()
	})
	r.Store.DestroyFunc = func() {
		destroy()
		closeAll()
	}
	s.followDeletions(r, status)

	cidrs, err := cacheOf(networking.Resource("servicecidrs"), &networking.ServiceCIDR{}, options.StorageConfig, getter)
	if err != nil {
		return err
	}
	addresses, err := cacheOf(networking.Resource("ipaddresses"), &networking.IPAddress{}, options.StorageConfig, getter)
	if err != nil {
		return err
	}
	allocators := []any{r.alloc.serviceNodePorts}
	for _, addresses := range r.alloc.serviceIPAllocatorsByFamily {
		allocators = append(allocators, addresses)
	}
	list := func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
		return s.list(ctx, at, r.defaultOnRead)
	}
	for _, one := range allocators {
		if one, ok := one.(interface {
			SetServices(repaircontroller.ListStored)
		}); ok {
			one.SetServices(list)
		}
		if one, ok := one.(interface{ SetObjectKeys(addresses, cidrs string) }); ok {
			one.SetObjectKeys(addresses.keys, cidrs.keys)
		}
		if one, ok := one.(interface {
			CachedCIDRs(context.Context) (runtime.Object, error)
			CachedAddresses(context.Context) (runtime.Object, error)
		}); ok {
			cidrs.list, addresses.list = one.CachedCIDRs, one.CachedAddresses
		}
	}
	services, err := cacheOf(r.Store.DefaultQualifiedResource, &api.Service{}, options.StorageConfig, getter)
	if err != nil {
		return err
	}
	services.decoder = options.StorageConfig.Codec
	services.list = func(ctx context.Context) (runtime.Object, error) {
		list := &api.ServiceList{}
		return list, s.Interface.GetList(ctx, s.prefix, storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true}, list)
	}
	for _, cache := range []*watchCache{cidrs, addresses, services} {
		if cache.keys != "" && cache.list != nil { // else in another etcd, or servers do not follow them
			s.caches = append(s.caches, cache)
		}
	}
	s.checkAgain() // the first check connects the client
	checks.Go(func() { s.checkCaches(ctx) })
	return nil
}

// openRaw opens a storage like k8s.io/apiserver/pkg/storage/storagebackend/factory, without a watch cache and with
// conditions in the transactions. It returns its client and a function that closes both. again is that of
// allocatorstorage.Connect.
func openRaw(config *storagebackend.ConfigForResource, prefix string, newObject, newList func() runtime.Object, again func()) (storage.Interface, *clientv3.Client, func(), error) {
	etcd, err := allocatorstorage.Connect(config.Transport, again, grpc.WithStatsHandler(otelgrpc.NewClientHandler(
		otelgrpc.WithPropagators(tracing.Propagators()), otelgrpc.WithTracerProvider(config.Transport.TracerProvider),
	)))
	if err != nil {
		return nil, nil, nil, err
	}
	etcd.KV = etcd3.NewETCDLatencyTracker(clientv3.NewKVFromKVClient(guarded{clientv3.RetryKVClient(etcd)}, etcd))
	client := &kubernetes.Client{Client: etcd}
	client.Kubernetes = conditional{client}
	own := *config
	if own.Transformer == nil {
		own.Transformer = identity.NewEncryptCheckTransformer()
	}
	decoder := etcd3.NewDefaultDecoder(own.Codec, storage.APIObjectVersioner{})
	raw, closeStore, err := newRaw(client, &own, newObject, newList, prefix, decoder)
	if err != nil {
		return nil, nil, nil, errors.Join(err, etcd.Close())
	}
	return raw, etcd, func() {
		closeStore()
		_ = etcd.Close()
	}, nil
}

// cacheOf returns the watch cache of a resource, without its list, with objects of networking/v1. It has no keys if the
// objects are not in the etcd of Services.
func cacheOf(resource schema.GroupResource, example runtime.Object, services *storagebackend.ConfigForResource, getter generic.RESTOptionsGetter) (*watchCache, error) {
	options, err := getter.GetRESTOptions(resource, example)
	if err != nil {
		return nil, err
	}
	cache := &watchCache{
		resource: resource.Resource, transformer: options.StorageConfig.Transformer, decoder: legacyscheme.Codecs.UniversalDecoder(networkingv1.SchemeGroupVersion),
	}
	if cache.transformer == nil {
		cache.transformer = identity.NewEncryptCheckTransformer()
	}
	ours, theirs := slices.Sorted(slices.Values(services.Transport.ServerList)), slices.Sorted(slices.Values(options.StorageConfig.Transport.ServerList))
	if slices.Equal(ours, theirs) {
		cache.keys = path.Join("/", options.StorageConfig.Prefix, options.ResourcePrefix) + "/"
	}
	return cache, nil
}

// cached returns the object in the watch cache, so that a write does not read it from etcd; nil if there is none. It is
// also nil once etcd may have been restored: it can have another object with the same revision, and would accept a
// write that began with the one of the cache, with values that other Services have by now. The cache is right again
// once the server restarts.
func (s *services) cached(ctx context.Context, key string) runtime.Object {
	if allocatorstorage.MayBeRestored() {
		return nil
	}
	found := &api.Service{}
	err := s.Interface.Get(ctx, key, storage.GetOptions{ResourceVersion: "0", IgnoreNotFound: true}, found)
	if err != nil || found.ResourceVersion == "" {
		return nil
	}
	return found.DeepCopy()
}

// pageSize is that of the API server's own lists.
const pageSize = 500

// list lists the Services of all namespaces in etcd, at a revision if that is not 0, with defaults like those that
// clients get.
func (s *services) list(ctx context.Context, at int64, setDefaults func(runtime.Object)) (all []*corev1.Service, revision int64, err error) {
	options := storage.ListOptions{Predicate: storage.Everything, Recursive: true}
	options.Predicate.Limit = pageSize
	if at != 0 {
		options.ResourceVersion, options.ResourceVersionMatch = strconv.FormatInt(at, 10), metav1.ResourceVersionMatchExact
	}
	for {
		var page api.ServiceList
		if err := s.raw.GetList(ctx, s.prefix, options, &page); err != nil {
			return nil, 0, err
		}
		for i := range page.Items {
			service, converted := &page.Items[i], &corev1.Service{}
			setDefaults(service)
			service.ManagedFields = nil // no repair needs them, and they are most of the memory
			if err := apiv1.Convert_core_Service_To_v1_Service(service, converted, nil); err != nil {
				return nil, 0, err
			}
			all = append(all, converted)
		}
		if page.Continue == "" {
			revision, err = strconv.ParseInt(page.ResourceVersion, 10, 64)
			return all, revision, err
		}
		options.Predicate.Continue = page.Continue
		options.ResourceVersion, options.ResourceVersionMatch = "", "" // they are in it
	}
}
