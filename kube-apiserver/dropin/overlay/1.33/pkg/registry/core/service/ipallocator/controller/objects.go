package controller

import (
	"context"
	"sync/atomic"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects are the IPAddress objects in etcd, for one repair. An update may change the reference of an object, which the
// API does not allow.
type Objects interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*networkingv1.IPAddress, error)
	Update(ctx context.Context, object *networkingv1.IPAddress, options metav1.UpdateOptions) (*networkingv1.IPAddress, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

type objects = Objects

// stored returns the Objects of a repair that begins; nil without a storage.
var stored atomic.Pointer[func() Objects]

// SetObjects sets the storage of IPAddress objects, before the first repair, and returns a function that takes it back.
func SetObjects(begin func() Objects) func() {
	stored.Store(&begin)
	return func() { stored.CompareAndSwap(&begin, nil) }
}

// begin returns the objects for one repair: those of the API in tests without a storage.
func (r *RepairIPAddress) begin() objects {
	if begin := stored.Load(); begin != nil {
		return (*begin)()
	}
	return r.client.NetworkingV1().IPAddresses()
}
