package ipallocator

import (
	"errors"
	"net"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
)

// request records the effects of one API request on addresses: the objects that it creates, and the addresses that
// its Service gives up.
type request struct {
	addresses *ipaddress.Allocator
	// stored are the objects for releases; nil in tests without a storage.
	stored Objects
	// addressKeys and cidrKeys are those of the MetaAllocator.
	addressKeys, cidrKeys string
	// bitmap is the request to the bitmap of the first CIDR, which older servers read; nil if there is none.
	bitmap  allocator.Request
	created []*networkingv1.IPAddress
	// cidrs has an object for each created one, which has its address.
	cidrs    []*networkingv1.ServiceCIDR
	released []net.IP
	// failure is the error of the last allocation that failed because of the store.
	failure error
}

var _ allocator.Request = (*request)(nil)

// ForRequest returns an allocator of the same addresses for one request, and the request.
func (c *MetaAllocator) ForRequest() (Interface, allocator.Request) {
	own, q := *c, &request{addresses: c.objects, stored: BeginObjects(), addressKeys: c.addressKeys, cidrKeys: c.cidrKeys}
	own.request = q
	source, ok := c.bitmapAllocator.(interface {
		ForRequest() (Interface, allocator.Request)
	})
	if ok && c.dualWrite() {
		own.bitmapAllocator, q.bitmap = source.ForRequest()
	}
	return &own, q
}

// UseUntil returns that of the bitmap. An IPAddress object has none: the write of the Service has the condition that
// nobody has written the object since, or deleted it.
func (q *request) UseUntil() (until time.Time) {
	if q.bitmap != nil {
		until = q.bitmap.UseUntil()
	}
	return until
}

// Conditions are that the created objects are as they were created, that their ServiceCIDRs are there and not created
// after what this server has seen of them, and those of the bitmap. A repair writes an object before it looks for its
// Service and deletes it, so a Service is written before that look, or not at all. A restored etcd may lack a
// ServiceCIDR that the server's cache still has.
func (q *request) Conditions() (all []clientv3.Cmp) {
	if q.addressKeys != "" {
		for _, object := range q.created {
			all = append(all, clientv3.Compare(clientv3.ModRevision(q.addressKeys+object.Name), "=", revisionOf(object)))
		}
	}
	if q.cidrKeys != "" {
		for _, object := range q.cidrs {
			created := clientv3.CreateRevision(q.cidrKeys + object.Name)
			all = append(all, clientv3.Compare(created, ">", 0), clientv3.Compare(created, "<", revisionOf(object)+1))
		}
	}
	if q.bitmap != nil {
		all = append(all, q.bitmap.Conditions()...)
	}
	return all
}

// revisionOf returns the mod revision of an object.
func revisionOf(object metav1.Object) int64 {
	revision, _ := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	return revision
}

// Written records in the bitmap that the Service is stored.
func (q *request) Written() {
	if q.bitmap != nil {
		q.bitmap.Written()
	}
}

// Failure returns the error of the last allocation that failed because of the store, in the objects or in the bitmap.
func (q *request) Failure() error {
	if q.failure == nil && q.bitmap != nil {
		return q.bitmap.Failure()
	}
	return q.failure
}

// recordFailure records an error that is not about the request. The API server refuses an object with a code below 500,
// and asks with 429 to try again.
func (q *request) recordFailure(err error) {
	var refused apierrors.APIStatus
	switch {
	case errors.Is(err, ErrAllocated), errors.Is(err, ErrFull), errors.Is(err, ErrMismatchedNetwork):
	case errors.As(err, &refused) && refused.Status().Code < 500 && !apierrors.IsTooManyRequests(err):
	default:
		q.failure = err
	}
}

// Undo deletes the created objects, unless another client has written them since.
func (q *request) Undo() error {
	var errs []error
	for _, object := range q.created {
		errs = append(errs, q.addresses.Undo(releasing(q.stored), object))
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
		errs = append(errs, q.addresses.Release(releasing(q.stored), addressOf(ip), service, uint64(owner.AsOf)))
	}
	q.created, q.released = nil, nil
	if q.bitmap != nil {
		errs = append(errs, q.bitmap.Commit(owner))
	}
	return errors.Join(errs...)
}
