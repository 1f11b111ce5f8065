package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// Create creates a Service. It releases the allocated values only if the Service was certainly not written.
//
// Store.Create releases them after every error of the write (k8s.io/apiserver/pkg/registry/generic/registry/store.go),
// even if etcd has not answered or the client disconnected before the answer. Then the Service may be stored, and other
// Services get its values.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	q := r.newRequest()
	store := *r.Store
	write := &creation{services: r.services(), request: q}
	store.Storage.Storage = write
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		name := obj.(*api.Service).Name
		finish, err := q.beginCreate(ctx, obj, options)
		if err != nil {
			// The released code keeps the address of the first family if the second one has none.
			q.undo(ctx, name)
			return nil, q.explain(err)
		}
		return func(ctx context.Context, success bool) {
			if !success && write.unknown {
				logUnknown(ctx, name)
				return
			}
			finish(ctx, success)
			if !success {
				q.undo(ctx, name)
			}
		}, nil
	}
	return store.Create(ctx, obj, createValidation, options)
}

// creation records whether the outcome of its write is unknown.
type creation struct {
	*services
	request *request
	unknown bool
}

func (c *creation) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	// Send nothing if the client disconnected during the allocation.
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.request.checkTime(); err != nil {
		return err
	}
	into := c.Interface
	if len(c.request.conditions()) > 0 {
		ctx, into = withConditions(ctx, c.request), c.raw
	}
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	c.unknown = true // even after a panic
	err := into.Create(ctx, key, obj, out, ttl)
	c.unknown = err != nil && !isRefusal(err)
	if err == nil {
		c.request.written()
	}
	return written.explain(err)
}
