package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// Update changes a Service, or makes it. What it takes and gives back is settled by what became of the write.
//
// Store.Update has it settled before the write (k8s.io/apiserver/pkg/registry/generic/registry/store.go): then others get
// a NodePort that the stored Service still has, for a moment, and for as long as until a repair if somebody else has
// changed the Service meanwhile and the write is in vain.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	store := *r.Store
	write := &update{Interface: store.Storage.Storage}
	store.Storage.Storage = write
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		return write.begun(r.BeginCreate(ctx, obj, options))
	}
	store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		return write.begun(r.BeginUpdate(ctx, obj, old, options))
	}
	out, created, err := store.Update(ctx, name, objInfo, createValidation, updateValidation, forceAllowCreate, options)
	switch {
	case err == nil:
		write.settle(ctx, true)
	case write.finish != nil:
		tellDoubt(ctx, name)
	}
	return out, created, err
}

// update settles the attempts at an update that were not written. finish is the end of the last one that may have been; nil
// if there is nothing to settle.
type update struct {
	storage.Interface
	finish genericregistry.FinishFunc
}

// begun puts the end of an attempt off that is about to be written.
func (u *update) begun(finish genericregistry.FinishFunc, err error) (genericregistry.FinishFunc, error) {
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, success bool) {
		if success {
			u.finish = finish
		} else {
			finish(ctx, false)
		}
	}, nil
}

func (u *update) settle(ctx context.Context, success bool) {
	if u.finish != nil {
		u.finish(ctx, success)
		u.finish = nil
	}
}

func (u *update) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object) error {
	attempt := func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		u.settle(ctx, false) // there is another attempt only if the last one was not written
		output, ttl, err := tryUpdate(input, meta)
		if err == nil {
			// A client that has gone while addresses were taken leaves no doubt.
			err = ctx.Err()
		}
		if err != nil {
			u.settle(ctx, false)
			return nil, nil, err
		}
		return output, ttl, nil
	}
	err := u.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, attempt, cachedExistingObject)
	if err != nil && isRefusal(err) {
		u.settle(ctx, false)
	}
	return err
}
