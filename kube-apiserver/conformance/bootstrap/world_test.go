package bootstrap

import (
	"context"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	endpointstore "k8s.io/kubernetes/pkg/registry/core/endpoint/storage"
	namespacestore "k8s.io/kubernetes/pkg/registry/core/namespace/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"
	slicestore "k8s.io/kubernetes/pkg/registry/discovery/endpointslice/storage"
	netutils "k8s.io/utils/net"
)

// kinds are the compared kinds, with their resources.
var kinds = map[string]schema.GroupVersionResource{
	"Namespace":     {Version: "v1", Resource: "namespaces"},
	"Service":       {Version: "v1", Resource: "services"},
	"Endpoints":     {Version: "v1", Resource: "endpoints"},
	"EndpointSlice": {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
}

// world is the cluster of one side: the storage layers of a kube-apiserver, which set defaults, validate and allocate,
// over a prefix of a real etcd.
type world struct {
	etcd      *clientv3.Client
	endpoints []string
	// prefix begins all keys of this world.
	prefix  string
	storage map[string]storage
	stores  map[string]*genericregistry.Store
}

// storage serves the requests for a resource.
type storage interface {
	rest.Getter
	rest.Lister
	rest.CreaterUpdater
	rest.GracefulDeleter
	Destroy()
}

func newWorld(t *testing.T, etcd *clientv3.Client, prefix string, c config) *world {
	t.Helper()
	w := &world{etcd: etcd, endpoints: etcd.Endpoints(), prefix: prefix}
	_, err := etcd.Delete(t.Context(), prefix+"/", clientv3.WithPrefix())
	check(t, err)
	namespaces, _, _, err := namespacestore.NewREST(w)
	check(t, err)
	endpoints, err := endpointstore.NewREST(w)
	check(t, err)
	slices, err := slicestore.NewREST(w)
	check(t, err)
	allocators := map[api.IPFamily]ipallocator.Interface{}
	var primary api.IPFamily
	for _, serviceRange := range []string{c.serviceRange, c.secondRange} {
		if serviceRange == "" {
			continue
		}
		_, cidr, err := netutils.ParseCIDRSloppy(serviceRange)
		check(t, err)
		addresses, err := ipallocator.NewInMemory(cidr)
		check(t, err)
		if primary == "" {
			primary = addresses.IPFamily()
		}
		allocators[addresses.IPFamily()] = addresses
	}
	ports, err := portallocator.NewInMemory(utilnet.PortRange{Base: 30000, Size: 2768})
	check(t, err)
	services, _, _, err := servicestore.NewREST(w, primary, allocators, ports, nil, nil, nil)
	check(t, err)
	w.storage = map[string]storage{
		"Namespace": namespaces, "Service": services, "Endpoints": endpoints, "EndpointSlice": slices,
	}
	w.stores = map[string]*genericregistry.Store{"Service": services.Store, "Endpoints": endpoints.Store, "EndpointSlice": slices.Store}
	t.Cleanup(func() {
		for _, s := range w.storage {
			s.Destroy()
		}
	})
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// GetRESTOptions returns the storage options of a resource.
func (w *world) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config, err := w.storageConfig(resource)
	return generic.RESTOptions{
		StorageConfig: config, Decorator: generic.UndecoratedStorage, DeleteCollectionWorkers: 1, ResourcePrefix: resource.Resource,
	}, err
}

func (w *world) storageConfig(resource schema.GroupResource) (*storagebackend.ConfigForResource, error) {
	codec, versioner, err := serverstorage.NewStorageCodec(serverstorage.StorageCodecConfig{
		StorageMediaType:  runtime.ContentTypeProtobuf,
		StorageSerializer: legacyscheme.Codecs,
		StorageVersion:    schema.GroupVersion{Group: resource.Group, Version: "v1"},
		MemoryVersion:     schema.GroupVersion{Group: resource.Group, Version: runtime.APIVersionInternal},
	})
	if err != nil {
		return nil, err
	}
	config := storagebackend.NewDefaultConfig(w.prefix, codec)
	config.EncodeVersioner = versioner
	config.Transport.ServerList = w.endpoints
	config.CompactionInterval = 0
	return config.ForResource(resource), nil
}

// seed stores an object without validation.
func (w *world) seed(t *testing.T, versioned runtime.Object) {
	t.Helper()
	object, kind := internal(versioned)
	m, err := meta.Accessor(object)
	check(t, err)
	ctx := w.context(kind, m.GetNamespace(), m.GetName(), "create")
	rest.FillObjectMetaSystemFields(m)
	store := w.stores[kind]
	if store == nil { // no situation damages namespaces
		_, err = w.create(versioned)
		check(t, err)
		return
	}
	key, err := store.KeyFunc(ctx, m.GetName())
	check(t, err)
	check(t, store.Storage.Storage.Create(ctx, key, object, nil, 0))
}

// remove deletes an object.
func (w *world) remove(t *testing.T, object runtime.Object) {
	t.Helper()
	m, err := meta.Accessor(object)
	check(t, err)
	check(t, w.delete(kindOf(object), m.GetNamespace(), m.GetName(), nil))
}

func (w *world) get(kind, namespace, name string) (runtime.Object, error) {
	object, err := w.storage[kind].Get(w.context(kind, namespace, name, "get"), name, &metav1.GetOptions{})
	return external(object, kind, err)
}

// all returns the objects of a kind.
func (w *world) all(kind string) ([]runtime.Object, error) {
	list, err := w.storage[kind].List(w.context(kind, "", "", "list"), nil)
	if err != nil {
		return nil, err
	}
	objects, err := meta.ExtractList(list)
	for i := range objects {
		if err == nil {
			objects[i], err = external(objects[i], kind, nil)
		}
	}
	return objects, err
}

func (w *world) create(versioned runtime.Object) (runtime.Object, error) {
	object, kind := internal(versioned)
	m, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	ctx := w.context(kind, m.GetNamespace(), m.GetName(), "create")
	object, err = w.storage[kind].Create(ctx, object, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	return external(object, kind, err)
}

func (w *world) update(versioned runtime.Object) (runtime.Object, error) {
	object, kind := internal(versioned)
	m, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	ctx := w.context(kind, m.GetNamespace(), m.GetName(), "update")
	object, _, err = w.storage[kind].Update(ctx, m.GetName(), rest.DefaultUpdatedObjectInfo(object),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return external(object, kind, err)
}

func (w *world) delete(kind, namespace, name string, preconditions *metav1.Preconditions) error {
	ctx := w.context(kind, namespace, name, "delete")
	_, _, err := w.storage[kind].Delete(ctx, name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{Preconditions: preconditions})
	return err
}

func (w *world) context(kind, namespace, name, verb string) context.Context {
	resource := kinds[kind]
	ctx := request.WithNamespace(context.Background(), namespace)
	return request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: verb, APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource,
		Namespace: namespace, Name: name,
	})
}

// lease is the value of a key under the prefix of leases.
type lease struct {
	key   string
	value []byte
}

func (w *world) leaseKey(name string) string { return w.prefix + "/masterleases/" + name }

// put stores a lease with a time to live.
func (w *world) put(t *testing.T, l lease) {
	t.Helper()
	granted, err := w.etcd.Grant(t.Context(), 15)
	check(t, err)
	_, err = w.etcd.Put(t.Context(), w.leaseKey(l.key), string(l.value), clientv3.WithLease(granted.ID))
	check(t, err)
}

// expire makes a lease expire.
func (w *world) expire(t *testing.T, name string) {
	t.Helper()
	gone, err := w.etcd.Delete(t.Context(), w.leaseKey(name))
	check(t, err)
	if gone.Deleted != 1 {
		t.Fatalf("lease %s does not exist", name)
	}
}

// storedLeases returns the leases by key under their prefix, and the granted times to live.
func (w *world) storedLeases(ctx context.Context) (map[string][]byte, map[string]int64, error) {
	got, err := w.etcd.Get(ctx, w.leaseKey(""), clientv3.WithPrefix())
	if err != nil {
		return nil, nil, err
	}
	values, ttls := map[string][]byte{}, map[string]int64{}
	for _, kv := range got.Kvs {
		name := strings.TrimPrefix(string(kv.Key), w.leaseKey(""))
		values[name] = kv.Value
		left, err := w.etcd.TimeToLive(ctx, clientv3.LeaseID(kv.Lease))
		if err != nil {
			return nil, nil, err
		}
		ttls[name] = left.GrantedTTL
	}
	return values, ttls, nil
}

// internal returns the internal version of an object, with defaults, and its kind.
func internal(versioned runtime.Object) (runtime.Object, string) {
	kind := kindOf(versioned)
	copied := versioned.DeepCopyObject()
	legacyscheme.Scheme.Default(copied)
	object, err := legacyscheme.Scheme.ConvertToVersion(copied, schema.GroupVersion{Group: kinds[kind].Group, Version: runtime.APIVersionInternal})
	if err != nil {
		panic(err)
	}
	return object, kind
}

// external returns the version of an object that clients see.
func external(object runtime.Object, kind string, err error) (runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	return legacyscheme.Scheme.ConvertToVersion(object, kinds[kind].GroupVersion())
}

func kindOf(object runtime.Object) string {
	known, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", object, err))
	}
	return known[0].Kind
}
