package storage

import (
	"context"
	"errors"
	"fmt"

	api "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// stored is a RangeAllocation in the storage of an API server.
type stored struct {
	resource schema.GroupResource
	key      string
	storage  storage.Interface
}

// Get returns the stored object. If there is none, the returned object has no ResourceVersion.
func (e *stored) Get() (*api.RangeAllocation, error) {
	object := &api.RangeAllocation{}
	err := e.storage.Get(context.Background(), e.key, storage.GetOptions{IgnoreNotFound: true}, object)
	if err != nil {
		return nil, storeerr.InterpretGetError(err, e.resource, "")
	}
	return object, nil
}

// CreateOrUpdate replaces the stored object of the same ResourceVersion, or creates it if there is none. Otherwise the
// error is a conflict. The given object gets the ResourceVersion of the stored one.
func (e *stored) CreateOrUpdate(snapshot *api.RangeAllocation) error {
	update := storage.SimpleUpdate(func(stored runtime.Object) (runtime.Object, error) {
		if is := stored.(*api.RangeAllocation).ResourceVersion; is != "" && is != snapshot.ResourceVersion {
			return nil, apierrors.NewConflict(e.resource, "", fmt.Errorf("the stored object has revision %s, not %q", is, snapshot.ResourceVersion))
		}
		return snapshot, nil
	})
	written := &api.RangeAllocation{}
	if err := e.storage.GuaranteedUpdate(context.Background(), e.key, written, true, nil, update, nil); err != nil {
		return storeerr.InterpretUpdateError(err, e.resource, "")
	}
	snapshot.ResourceVersion = written.ResourceVersion
	return nil
}

// interpret returns the error of an operation as the API server's clients know it.
func (e *stored) interpret(err error) error {
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		return fmt.Errorf("cannot allocate resources of type %s at this time", e.resource)
	}
	return storeerr.InterpretUpdateError(err, e.resource, "")
}
