package storage

import (
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// services returns the storage that follow has set.
func (r *REST) services() *services { return r.Store.Storage.Storage.(*services) }

// followDeletions makes both stores release the values of a deleted Service on its behalf.
//
// The stores also call the hook if another client has deleted the Service (Store.deleteWithoutFinalizers in
// k8s.io/apiserver/pkg/registry/generic/registry/store.go). Other Services may own its values by then.
func (s *services) followDeletions(r *REST, status *genericregistry.Store) {
	s.newRequest = r.newRequest
	for _, store := range []*genericregistry.Store{r.Store, status} {
		store.Storage.Storage = s
		store.AfterDelete = func(obj runtime.Object, options *metav1.DeleteOptions) {
			service := obj.(*api.Service)
			asOf := revisionOf(service)
			owner := ownerOf(service, asOf, asOf)
			var q *request
			if found, ok := s.deleting.LoadAndDelete(service); ok {
				followed := found.(deletion)
				q, owner.Oldest = followed.request, followed.before
			} else { // another client has deleted the Service, and this object is from before that
				q, owner.Late = r.newRequest(), true
			}
			q.afterDelete(withAllocatedPorts(service), options)
			q.commit(context.Background(), owner)
		}
	}
}

// deletion is a deletion whose values are not released yet.
type deletion struct {
	// request began before the deletion.
	request *request
	// before is the last revision of the Service before the deletion.
	before int64
}

// Delete deletes without the watch cache. Like the cache it begins with the object in it, if that is of the same etcd.
func (s *services) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, options storage.DeleteOptions) error {
	following := deletion{request: s.newRequest()}
	deleting, cancel := uncancelled(withConditions(ctx, following.request))
	defer cancel()
	err := s.raw.Delete(deleting, key, out, preconditions, func(_ context.Context, obj runtime.Object) error {
		// The storage deletes the object that it validated last.
		if service, ok := obj.(*api.Service); ok {
			following.before = revisionOf(service)
		}
		err := validate(ctx, obj)
		if err == nil {
			err = ctx.Err() // send nothing if the client disconnected before
		}
		return err
	}, s.cached(ctx, key), options)
	if service, ok := out.(*api.Service); ok && err == nil {
		s.deleting.Store(service, following)
	}
	return deleted.explain(err)
}

// revisionOf returns the revision of a Service from etcd; 0 if it has none. As of 0 nothing has an owner.
func revisionOf(service *api.Service) int64 {
	revision, _ := strconv.ParseInt(service.ResourceVersion, 10, 64)
	return revision
}
