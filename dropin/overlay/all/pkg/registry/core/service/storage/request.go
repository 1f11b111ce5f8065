package storage

import (
	"context"
	"errors"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// request is the REST storage for one request to the API server. Its allocators record what the released code allocates and
// releases; nothing is released before the outcome of the Service's write is known, and then on behalf of that Service and
// since when it had the values. Allocators in memory, and those of other code, release at once.
type request struct {
	REST
	parts []allocator.Request
}

func (r *REST) newRequest() *request {
	q := &request{REST: *r}
	q.alloc.serviceIPAllocatorsByFamily = maps.Clone(r.alloc.serviceIPAllocatorsByFamily)
	for family, addresses := range r.alloc.serviceIPAllocatorsByFamily {
		source, ok := addresses.(interface {
			ForRequest() (ipallocator.Interface, allocator.Request)
		})
		if ok {
			own, part := source.ForRequest()
			q.alloc.serviceIPAllocatorsByFamily[family] = own
			q.follow(part)
		}
	}
	ports, ok := r.alloc.serviceNodePorts.(interface {
		ForRequest() (portallocator.Interface, allocator.Request)
	})
	if ok {
		own, part := ports.ForRequest()
		q.alloc.serviceNodePorts = own
		q.follow(part)
	}
	return q
}

func (q *request) follow(part allocator.Request) {
	if part != nil {
		q.parts = append(q.parts, part)
	}
}

// undo releases the allocated values: the Service was certainly not written.
func (q *request) undo(ctx context.Context, name string) {
	q.settle(ctx, name, allocator.Request.Undo)
}

// commit releases the values that the Service gave up: it was written without them, or deleted.
func (q *request) commit(ctx context.Context, owner allocator.Owner) {
	q.settle(ctx, owner.Name, func(part allocator.Request) error { return part.Commit(owner) })
}

// settle goes on after an error: values that are not released are left to the next repair.
func (q *request) settle(ctx context.Context, name string, settle func(allocator.Request) error) {
	var errs []error
	for _, part := range q.parts {
		errs = append(errs, settle(part))
	}
	if err := errors.Join(errs...); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Values of a Service stay allocated until the next repair", "service", name)
	}
}

// checkTime refuses a write that comes too late: the repair of another server may have released what was allocated.
func (q *request) checkTime() error {
	for _, part := range q.parts {
		if until := part.UseUntil(); !until.IsZero() && time.Now().After(until) {
			return apierrors.NewTimeoutError("the request took so long that the values allocated for it may be in use elsewhere; try again", 1)
		}
	}
	return nil
}

// ownerOf returns a Service as the owner of values that it gave up at one revision, and was stored with at an older one.
func ownerOf(service *api.Service, asOf, oldest int64) allocator.Owner {
	owner := allocator.Owner{Namespace: service.Namespace, Name: service.Name}
	owner.AsOf, owner.Oldest = asOf, oldest
	return owner
}
