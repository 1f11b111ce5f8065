package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// Create makes a Service. What it has taken is given back only if the Service was certainly not written.
//
// Store.Create has it given back whenever the write has not succeeded (k8s.io/apiserver/pkg/registry/generic/registry/store.go),
// also if etcd has not answered, or the client has gone before it did: then the Service is there, and others get what it has.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	store := *r.Store
	write := &creation{Interface: store.Storage.Storage}
	store.Storage.Storage = write
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		finish, err := r.BeginCreate(ctx, obj, options)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, success bool) {
			if success || !write.inDoubt {
				finish(ctx, success)
				return
			}
			tellDoubt(ctx, obj.(*api.Service).Name)
		}, nil
	}
	return store.Create(ctx, obj, createValidation, options)
}

// creation notes whether what it was to write may have been written though it has failed.
type creation struct {
	storage.Interface
	inDoubt bool
}

func (c *creation) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	// A client that has gone while addresses were taken leaves no doubt.
	if err := ctx.Err(); err != nil {
		return err
	}
	c.inDoubt = true // also if it panics
	err := c.Interface.Create(ctx, key, obj, out, ttl)
	c.inDoubt = err != nil && !isRefusal(err)
	return err
}
