package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	api "k8s.io/kubernetes/pkg/apis/core"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
)

// Update updates a Service, or creates it. It releases values only after the write.
//
// Store.Update releases them before the write (k8s.io/apiserver/pkg/registry/generic/registry/store.go). Then another
// Service can get a NodePort that the stored Service still has: for a moment, or until the next repair if the write
// fails because of a concurrent change.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	q := r.newRequest()
	store := *r.Store
	write := &update{services: r.services(), request: q, name: name}
	store.Storage.Storage = write
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		return write.begun(q.beginCreate(ctx, obj, options))
	}
	store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		// The released code sets the defaults of the old object; withAllocatedPorts may pass it a copy.
		q.defaultOnRead(old)
		return write.begun(q.beginUpdate(ctx, obj, withAllocatedPorts(old.(*api.Service)), options))
	}
	out, created, err := store.Update(ctx, name, objInfo, createValidation, updateValidation, forceAllowCreate, options)
	switch {
	case err == nil:
		if service, ok := out.(*api.Service); ok && write.finish != nil {
			write.finish(ctx, true)
			q.commit(ctx, ownerOf(service, revisionOf(service), int64(write.oldest)))
		}
	case write.finish != nil:
		logUnknown(ctx, name)
	}
	return out, created, err
}

// update undoes the attempts that were not written.
type update struct {
	*services
	request *request
	name    string
	// finish ends the last attempt that may have been written; nil if there is none.
	finish genericregistry.FinishFunc
	// oldest is the revision of the Service that the last attempt was based on; 0 if there was none.
	oldest uint64
}

// begun defers the end of an attempt until its outcome is known.
func (u *update) begun(finish genericregistry.FinishFunc, err error) (genericregistry.FinishFunc, error) {
	if err != nil {
		u.request.undo(context.Background(), u.name)
		return nil, u.request.explain(err)
	}
	return func(ctx context.Context, success bool) {
		u.finish = finish
		if !success {
			u.undo(ctx)
		}
	}, nil
}

// undo ends the last attempt, which was certainly not written.
func (u *update) undo(ctx context.Context) {
	if u.finish != nil {
		u.finish(ctx, false)
		u.finish = nil
		u.request.undo(ctx, u.name)
	}
}

// GuaranteedUpdate writes a status or finalizers without the watch cache. Like the cache it begins with the object in
// it, if that is of the same etcd.
func (s *services) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object) error {
	writing := withConditions(ctx, &request{connections: allocatorstorage.Connections()})
	return s.raw.GuaranteedUpdate(writing, key, destination, ignoreNotFound, preconditions, tryUpdate, s.cached(ctx, key))
}

// GuaranteedUpdate writes without the watch cache, as an attempt has conditions only if it allocates. Like the cache it
// begins with the object in it, if that is of the same etcd.
func (u *update) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object) error {
	attempt := func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		u.undo(ctx) // the storage repeats an attempt only if it was not written
		u.oldest = meta.ResourceVersion
		output, ttl, err := tryUpdate(input, meta)
		if err == nil {
			// Send nothing if the client disconnected during the allocation.
			err = ctx.Err()
		}
		if err == nil {
			err = u.request.checkTime()
		}
		if err != nil {
			u.undo(ctx)
			return nil, nil, err
		}
		return output, ttl, nil
	}
	writing, cancel := uncancelled(withConditions(ctx, u.request))
	defer cancel()
	err := u.raw.GuaranteedUpdate(writing, key, destination, ignoreNotFound, preconditions, attempt, u.cached(ctx, key))
	switch {
	case err == nil:
		u.request.written()
	case isRefusal(err):
		u.undo(ctx)
	}
	return written.explain(err)
}
