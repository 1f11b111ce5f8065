package ipallocator

import (
	"context"
	"sync/atomic"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
)

// Stored are the IPAddress objects in etcd, for the releases of one request. A deletion is not sent over other
// connections to etcd than those of the beginning: in an etcd that was restored meanwhile the object has the same UID
// and revision, and its Service may have the address again.
type Stored interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*networkingv1.IPAddress, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// stored returns the Stored of a request that begins; nil without a storage.
var stored atomic.Pointer[func() Stored]

// SetStored sets the storage of IPAddress objects, before the first request, and returns a function that takes it back.
func SetStored(begin func() Stored) func() {
	stored.Store(&begin)
	return func() { stored.CompareAndSwap(&begin, nil) }
}

// beginStored returns the objects for one request; nil in tests without a storage.
func beginStored() Stored {
	if begin := stored.Load(); begin != nil {
		return (*begin)()
	}
	return nil
}

// storedKey is the key of a context's Stored.
type storedKey struct{}

// releasing returns the context of the releases of a request.
func releasing(objects Stored) context.Context {
	if objects == nil {
		return context.Background()
	}
	return context.WithValue(context.Background(), storedKey{}, objects)
}

// throughStored is a client of the API that gets and deletes the objects of a request through its Stored.
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
	if objects, ok := ctx.Value(storedKey{}).(Stored); ok {
		return objects.Get(ctx, name, options)
	}
	return c.IPAddressInterface.Get(ctx, name, options)
}

func (c addressesThroughStored) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if objects, ok := ctx.Value(storedKey{}).(Stored); ok {
		return objects.Delete(ctx, name, options)
	}
	return c.IPAddressInterface.Delete(ctx, name, options)
}
