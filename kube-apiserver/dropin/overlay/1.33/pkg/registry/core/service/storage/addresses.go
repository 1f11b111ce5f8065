package storage

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/networking"
	apiv1 "k8s.io/kubernetes/pkg/apis/networking/v1"
	"k8s.io/kubernetes/pkg/apis/networking/validation"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	ipaddressstorage "k8s.io/kubernetes/pkg/registry/networking/ipaddress/storage"

	"github.com/rangekeeper/rangekeeper/controlplane/requesttimeout"
)

// openAddresses gives the repair of IPAddress objects, and the releases of requests, a storage of them, without a watch
// cache, until it is closed.
func openAddresses(getter generic.RESTOptionsGetter) (closeAddresses func(), err error) {
	store, err := ipaddressstorage.NewREST(withoutCache{getter})
	if err != nil {
		return nil, err
	}
	store.UpdateStrategy = assigning{ipaddress.Strategy}
	takeBack := ipallocator.SetObjects(func() ipallocator.Objects { return addresses{store, allocatorstorage.Connections()} })
	return func() {
		takeBack()
		store.Destroy()
	}, nil
}

// withoutCache returns options for a storage like services.raw.
type withoutCache struct{ generic.RESTOptionsGetter }

func (g withoutCache) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	options.CountMetricPollPeriod = 0 // the storage of the API counts the objects
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
		newObject, newList func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		raw, _, closeRaw, err := openRaw(config, prefix, newObject, newList, nil)
		return raw, closeRaw, err
	}
	return options, err
}

// assigning lets an update change the reference of an object. The API does not, so a client would have to delete the
// object and to create another one. In between another Service could get the address.
type assigning struct{ rest.RESTUpdateStrategy }

func (assigning) ValidateUpdate(_ context.Context, object, _ runtime.Object) field.ErrorList {
	return validation.ValidateIPAddress(object.(*networking.IPAddress))
}

// addresses are the objects for one repair, or for the releases of one request. It writes an object only over the
// connections to etcd with which that began: an etcd that was restored meanwhile can have another object with the same
// name and revision, or the same one of a Service that is there again.
type addresses struct {
	store       *ipaddressstorage.REST
	connections int64
}

func (a addresses) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = genericapirequest.WithNamespace(ctx, metav1.NamespaceNone)
	return context.WithTimeout(withConditions(ctx, &request{connections: a.connections}), requesttimeout.Get())
}

func (a addresses) Get(ctx context.Context, name string, options metav1.GetOptions) (*networkingv1.IPAddress, error) {
	ctx, cancel := a.context(ctx)
	defer cancel()
	return external(a.store.Get(ctx, name, &options))
}

func (a addresses) Update(ctx context.Context, object *networkingv1.IPAddress, options metav1.UpdateOptions) (*networkingv1.IPAddress, error) {
	ctx, cancel := a.context(ctx)
	defer cancel()
	wanted := &networking.IPAddress{}
	if err := apiv1.Convert_v1_IPAddress_To_networking_IPAddress(object, wanted, nil); err != nil {
		return nil, err
	}
	written, _, err := a.store.Update(ctx, object.Name, rest.DefaultUpdatedObjectInfo(wanted), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &options)
	return external(written, err)
}

func (a addresses) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	ctx, cancel := a.context(ctx)
	defer cancel()
	_, _, err := a.store.Delete(ctx, name, rest.ValidateAllObjectFunc, &options)
	return err
}

// external converts a stored object.
func external(object runtime.Object, err error) (*networkingv1.IPAddress, error) {
	if err != nil {
		return nil, err
	}
	converted := &networkingv1.IPAddress{}
	err = apiv1.Convert_networking_IPAddress_To_v1_IPAddress(object.(*networking.IPAddress), converted, nil)
	return converted, err
}
