package ipaddress

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ManagedBy is the value of the label ipaddress.kubernetes.io/managed-by of the objects that allocators create. The
// repair of kube-apiserver removes such an object if no Service has its address.
const ManagedBy = "ipallocator.k8s.io"

// releaseTries is the number of attempts to delete an object that other clients write concurrently.
const releaseTries = 3

func labelsOf(family corev1.IPFamily) labels.Set {
	return labels.Set{networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: ManagedBy}
}

// creation returns a function that creates the object of an address for an owner.
func (a *Allocator) creation(ctx context.Context, owner *networkingv1.ParentReference) func(netip.Addr) (*networkingv1.IPAddress, error) {
	return func(address netip.Addr) (*networkingv1.IPAddress, error) {
		return a.client.Create(ctx, &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: address.String(), Labels: labelsOf(a.family)},
			Spec:       networkingv1.IPAddressSpec{ParentRef: owner},
		}, metav1.CreateOptions{})
	}
}

// Undo deletes an object that Allocate or AllocateNext has returned, unless another client has written it since.
func (a *Allocator) Undo(ctx context.Context, object *networkingv1.IPAddress) error {
	err := a.delete(ctx, object)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Release deletes the object of an address that an owner has given up, if it refers to the owner. asOf is the resource
// version of the write by which the owner gave up the address: an object that was written later belongs to a later
// allocation, and stays. A missing object is no error.
//
// It compares resource versions, as IPAddress objects and Services are in one etcd. Where they are not
// (--etcd-servers-overrides), it may leave an object to the repair.
func (a *Allocator) Release(ctx context.Context, address netip.Addr, owner networkingv1.ParentReference, asOf uint64) error {
	name := address.Unmap().String()
	object, err := a.lister.Get(name)
	for range releaseTries {
		if err == nil {
			revision, invalid := strconv.ParseUint(object.ResourceVersion, 10, 64)
			if invalid != nil || revision > asOf || object.Spec.ParentRef == nil || *object.Spec.ParentRef != owner {
				return nil
			}
			if err = a.delete(ctx, object); !apierrors.IsConflict(err) {
				break
			}
		}
		// The cache is stale.
		if object, err = a.client.Get(ctx, name, metav1.GetOptions{}); err != nil {
			break
		}
	}
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("IPAddress %s: %w", name, err)
}

// delete deletes an object unless it was written since it was read.
func (a *Allocator) delete(ctx context.Context, object *networkingv1.IPAddress) error {
	only := &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	err := a.client.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: only})
	if address, ok := a.index.addressOf(object); ok && err == nil {
		a.index.refill()
		a.setGaugesOf(address)
	}
	return err
}
