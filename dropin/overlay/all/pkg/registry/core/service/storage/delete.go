package storage

import (
	"context"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// followDeletions makes both stores release the values of a deleted Service on its behalf. NewREST calls it instead of setting the
// status store's hook (see scripts/dropin.sh).
//
// The stores also call the hook if another client has deleted the Service (Store.deleteWithoutFinalizers in
// k8s.io/apiserver/pkg/registry/generic/registry/store.go). Other Services may own its values by then.
func (r *REST) followDeletions(status *genericregistry.Store) {
	d := &deletions{Interface: r.Store.Storage.Storage}
	for _, store := range []*genericregistry.Store{r.Store, status} {
		store.Storage.Storage = d
		store.AfterDelete = func(obj runtime.Object, options *metav1.DeleteOptions) {
			service := obj.(*api.Service)
			asOf := revisionOf(service)
			oldest := d.takeBefore(service, asOf)
			q := r.newRequest()
			q.afterDelete(withAllocatedPorts(service), options)
			q.commit(context.Background(), ownerOf(service, asOf, oldest))
		}
	}
}

// deletions holds the last revision of each deleted Service until its values are released.
type deletions struct {
	storage.Interface
	// before has the revision by the object into which the deletion was decoded.
	before sync.Map
}

func (d *deletions) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cachedExistingObject runtime.Object, options storage.DeleteOptions) error {
	var before int64
	err := d.Interface.Delete(ctx, key, out, preconditions, func(ctx context.Context, obj runtime.Object) error {
		// The storage deletes the object that it validated last.
		if service, ok := obj.(*api.Service); ok {
			before = revisionOf(service)
		}
		return validate(ctx, obj)
	}, cachedExistingObject, options)
	if service, ok := out.(*api.Service); ok && err == nil {
		d.before.Store(service, before)
	}
	return err
}

// takeBefore returns the last revision of a Service before its deletion. If another client has deleted the Service, the object is
// from before that deletion, and its own revision is returned.
func (d *deletions) takeBefore(service *api.Service, own int64) int64 {
	if before, ok := d.before.LoadAndDelete(service); ok {
		return before.(int64)
	}
	return own
}

// revisionOf returns the revision of a Service from etcd; 0 if it has none. As of 0 nothing has an owner.
func revisionOf(service *api.Service) int64 {
	revision, _ := strconv.ParseInt(service.ResourceVersion, 10, 64)
	return revision
}
