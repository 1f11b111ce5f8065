package ipallocator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
)

// removeTries is the number of attempts to delete an object that other clients write concurrently.
const removeTries = 3

// request records the effects of one API request on addresses: the objects that it creates, and the addresses that
// its Service gives up.
type request struct {
	client networkingv1client.IPAddressInterface
	lister networkingv1listers.IPAddressLister
	// bitmap is the request to the bitmap of the first CIDR, which older servers read; nil if there is none.
	bitmap   allocator.Request
	created  []*networkingv1.IPAddress
	released []net.IP
}

var _ allocator.Request = (*request)(nil)

// ForRequest returns an allocator of the same addresses for one request, and the request.
func (c *MetaAllocator) ForRequest() (Interface, allocator.Request) {
	q := &request{client: c.client.IPAddresses(), lister: c.ipAddressInformer.Lister()}
	own := &MetaAllocator{shared: c.shared, bitmapAllocator: c.bitmapAllocator, request: q}
	source, ok := c.bitmapAllocator.(interface {
		ForRequest() (Interface, allocator.Request)
	})
	if ok && dualWrite() {
		own.bitmapAllocator, q.bitmap = source.ForRequest()
	}
	return own, q
}

// UseUntil returns that of the bitmap. An IPAddress object has no limit: it refers to its Service, which a repair reads before it
// deletes the object.
func (q *request) UseUntil() (until time.Time) {
	if q.bitmap != nil {
		until = q.bitmap.UseUntil()
	}
	return until
}

// Undo deletes the created objects, unless another client has written them since.
func (q *request) Undo() error {
	var errs []error
	for _, object := range q.created {
		err := remove(q.client, object)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			err = nil
		}
		errs = append(errs, err)
	}
	q.created, q.released = nil, nil
	if q.bitmap != nil {
		errs = append(errs, q.bitmap.Undo())
	}
	return errors.Join(errs...)
}

// Commit deletes the objects of the addresses that the Service gave up.
func (q *request) Commit(owner allocator.Owner) error {
	var errs []error
	for _, ip := range q.released {
		errs = append(errs, q.removeOf(owner, ip.String()))
	}
	q.created, q.released = nil, nil
	if q.bitmap != nil {
		errs = append(errs, q.bitmap.Commit(owner))
	}
	return errors.Join(errs...)
}

// removeOf deletes the object of an address if it refers to the owner and was not written since the owner gave up the address. It
// compares revisions, as IPAddress objects and Services are in one etcd. Where they are not (--etcd-servers-overrides), it may leave
// an object to the repair.
func (q *request) removeOf(owner allocator.Owner, name string) error {
	object, err := q.lister.Get(name)
	for range removeTries {
		if err == nil {
			revision, invalid := strconv.ParseInt(object.ResourceVersion, 10, 64)
			if invalid != nil || revision > owner.AsOf || !refersTo(object, owner) {
				return nil
			}
			if err = remove(q.client, object); !apierrors.IsConflict(err) {
				break
			}
		}
		// The cache is stale.
		if object, err = q.client.Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			break
		}
	}
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("IPAddress %s: %w", name, err)
}

func refersTo(object *networkingv1.IPAddress, owner allocator.Owner) bool {
	parent := object.Spec.ParentRef
	return parent != nil && parent.Group == "" && parent.Resource == "services" &&
		parent.Namespace == owner.Namespace && parent.Name == owner.Name
}

// remove deletes an object unless it was written since it was read.
func remove(client networkingv1client.IPAddressInterface, object *networkingv1.IPAddress) error {
	only := &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	return client.Delete(context.Background(), object.Name, metav1.DeleteOptions{Preconditions: only})
}
