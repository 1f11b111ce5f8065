package ipallocator

import (
	"context"
	"errors"
	"net"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
)

// request records the effects of one API request on addresses: the objects that it creates, and the addresses that
// its Service gives up.
type request struct {
	addresses *ipaddress.Allocator
	// bitmap is the request to the bitmap of the first CIDR, which older servers read; nil if there is none.
	bitmap   allocator.Request
	created  []*networkingv1.IPAddress
	released []net.IP
}

var _ allocator.Request = (*request)(nil)

// ForRequest returns an allocator of the same addresses for one request, and the request.
func (c *MetaAllocator) ForRequest() (Interface, allocator.Request) {
	own, q := *c, &request{addresses: c.addresses}
	own.request = q
	source, ok := c.bitmapAllocator.(interface {
		ForRequest() (Interface, allocator.Request)
	})
	if ok && c.dualWrite() {
		own.bitmapAllocator, q.bitmap = source.ForRequest()
	}
	return &own, q
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
		errs = append(errs, q.addresses.Undo(context.Background(), object))
	}
	q.created, q.released = nil, nil
	if q.bitmap != nil {
		errs = append(errs, q.bitmap.Undo())
	}
	return errors.Join(errs...)
}

// Commit deletes the objects of the addresses that the Service gave up.
func (q *request) Commit(owner allocator.Owner) error {
	service := networkingv1.ParentReference{Resource: "services", Namespace: owner.Namespace, Name: owner.Name}
	var errs []error
	for _, ip := range q.released {
		errs = append(errs, q.addresses.Release(context.Background(), addressOf(ip), service, uint64(owner.AsOf)))
	}
	q.created, q.released = nil, nil
	if q.bitmap != nil {
		errs = append(errs, q.bitmap.Commit(owner))
	}
	return errors.Join(errs...)
}
