package storage

import (
	"context"
	"errors"
	"maps"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// request is the REST storage for one request to the API server. Its allocators record the values that the released
// code allocates and releases. They release on behalf of the Service, and only when the outcome of its write is known.
// Allocators in memory, and those of other code, release immediately.
type request struct {
	REST
	parts []part
	// connections are those to etcd when the request began.
	connections int64
}

var errReconnected = errors.New("a connection to etcd was lost or made again since the request began")

// part is the part of a request that one allocator has.
type part struct {
	allocator.Request
	// kind is that of the values.
	kind string
}

func (r *REST) newRequest() *request {
	q := &request{REST: *r, connections: allocatorstorage.Connections()}
	q.alloc.serviceIPAllocatorsByFamily = maps.Clone(r.alloc.serviceIPAllocatorsByFamily)
	for family, addresses := range r.alloc.serviceIPAllocatorsByFamily {
		source, ok := addresses.(interface {
			ForRequest() (ipallocator.Interface, allocator.Request)
		})
		if ok {
			own, part := source.ForRequest()
			q.alloc.serviceIPAllocatorsByFamily[family] = own
			q.add("ClusterIP", part)
		}
	}
	ports, ok := r.alloc.serviceNodePorts.(interface {
		ForRequest() (portallocator.Interface, allocator.Request)
	})
	if ok {
		own, part := ports.ForRequest()
		q.alloc.serviceNodePorts = own
		q.add("node port", part)
	}
	return q
}

func (q *request) add(kind string, of allocator.Request) {
	if of != nil {
		q.parts = append(q.parts, part{of, kind})
	}
}

// conditions are those of all allocated values.
func (q *request) conditions() (all []clientv3.Cmp) {
	for _, part := range q.parts {
		all = append(all, part.Conditions()...)
	}
	return all
}

// written records that the Service was written with the allocated values.
func (q *request) written() {
	for _, part := range q.parts {
		part.Written()
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

// settle goes on after an error. It leaves values that were not released to the next repair: all of them if the
// connections to etcd are others than those of the beginning, as in an etcd that was restored a Service may still have
// them, or another one may.
func (q *request) settle(ctx context.Context, name string, settle func(allocator.Request) error) {
	var errs []error
	if allocatorstorage.Connections() != q.connections {
		errs = append(errs, errReconnected)
	} else {
		for _, part := range q.parts {
			errs = append(errs, settle(part))
		}
	}
	if err := errors.Join(errs...); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Failed to release values of a Service; keeping them allocated until the next repair", "service", name)
	}
}

// checkTime refuses a late write: a repair of another server may have released the allocated values.
func (q *request) checkTime() error {
	for _, part := range q.parts {
		if until := part.UseUntil(); !until.IsZero() && time.Now().After(until) {
			return apierrors.NewTimeoutError("the request took so long that the values allocated for it may be in use elsewhere; try again", 1)
		}
	}
	return nil
}

// ownerOf returns the owner of values that a Service gave up at revision asOf and was stored with at revision oldest.
func ownerOf(service *api.Service, asOf, oldest int64) allocator.Owner {
	owner := allocator.Owner{Namespace: service.Namespace, Name: service.Name}
	owner.AsOf, owner.Oldest = asOf, oldest
	return owner
}
