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

// followDeletions has both stores release the values of a deleted Service on its behalf. It is called by NewREST, in the place
// of the released line that sets the status store's hook (see scripts/dropin.sh).
//
// The hook is also called when somebody else has deleted the Service (Store.deleteWithoutFinalizers in
// k8s.io/apiserver/pkg/registry/generic/registry/store.go), and its values may belong to other Services by then.
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

// deletions remembers at which revision each deleted Service was stored before, until its values are released.
type deletions struct {
	storage.Interface
	// before has that revision by the object that the deletion was decoded into.
	before sync.Map
}

func (d *deletions) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cachedExistingObject runtime.Object, options storage.DeleteOptions) error {
	var before int64
	err := d.Interface.Delete(ctx, key, out, preconditions, func(ctx context.Context, obj runtime.Object) error {
		// The last object that is validated is the one that is deleted.
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

// takeBefore returns the revision at which a Service was stored before its deletion. If somebody else has deleted it, the
// object is older than that, and so is its own revision.
func (d *deletions) takeBefore(service *api.Service, own int64) int64 {
	if before, ok := d.before.LoadAndDelete(service); ok {
		return before.(int64)
	}
	return own
}

// revisionOf returns the revision of an object from etcd; 0 if it has none, as of which nothing has an owner.
func revisionOf(service *api.Service) int64 {
	revision, _ := strconv.ParseInt(service.ResourceVersion, 10, 64)
	return revision
}
