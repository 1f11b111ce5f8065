package ipallocator

import (
	"context"
	"sync/atomic"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
)

// Objects are the IPAddress objects in etcd, for one repair or for the releases of one request. A write is not sent
// over other connections to etcd than those of the beginning: in an etcd that was restored meanwhile another object can
// have the same name and revision, or the same object is that of a Service that has the address again. An update may
// change the reference of an object, which the API does not allow.
type Objects interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*networkingv1.IPAddress, error)
	Update(ctx context.Context, object *networkingv1.IPAddress, options metav1.UpdateOptions) (*networkingv1.IPAddress, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// stored returns the Objects of a repair or request that begins; nil without a storage.
var stored atomic.Pointer[func() Objects]

// SetObjects sets the storage of IPAddress objects, before the first repair and request, and returns a function that
// takes it back.
func SetObjects(begin func() Objects) func() {
	stored.Store(&begin)
	return func() { stored.CompareAndSwap(&begin, nil) }
}

// BeginObjects returns the objects for one repair or request; nil in tests without a storage.
func BeginObjects() Objects {
	if begin := stored.Load(); begin != nil {
		return (*begin)()
	}
	return nil
}

// storedKey is the key of a context's Objects.
type storedKey struct{}

// releasing returns the context of the releases of a request.
func releasing(objects Objects) context.Context {
	if objects == nil {
		return context.Background()
	}
	return context.WithValue(context.Background(), storedKey{}, objects)
}

// throughStored is a client of the API that gets and deletes the objects of a request through its Objects.
type throughStored struct {
	networkingv1client.NetworkingV1Interface
}

func (c throughStored) IPAddresses() networkingv1client.IPAddressInterface {
	return addressesThroughStored{c.NetworkingV1Interface.IPAddresses()}
}

type addressesThroughStored struct {
	networkingv1client.IPAddressInterface
}

func (c addressesThroughStored) Get(ctx context.Context, name string, options metav1.GetOptions) (*networkingv1.IPAddress, error) {
	if objects, ok := ctx.Value(storedKey{}).(Objects); ok {
		return objects.Get(ctx, name, options)
	}
	return c.IPAddressInterface.Get(ctx, name, options)
}

func (c addressesThroughStored) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if objects, ok := ctx.Value(storedKey{}).(Objects); ok {
		return objects.Delete(ctx, name, options)
	}
	return c.IPAddressInterface.Delete(ctx, name, options)
}
