package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	api "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"

	"github.com/rangekeeper/rangekeeper/compat/allocator"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// operationTimeout limits an allocation or release, which has no context. It is half the default timeout of a request.
const operationTimeout = 30 * time.Second

func operation() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), operationTimeout)
}

// stored is a RangeAllocation in the storage of an API server.
type stored struct {
	resource schema.GroupResource
	key      string
	storage  storage.Interface
	// read returns what is stored, in memory.
	read func(context.Context) (allocator.Interface, error)
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

// DryRun returns a copy in memory, after a request.
func (e *stored) DryRun() (allocator.Interface, error) {
	ctx, cancel := operation()
	defer cancel()
	now, err := e.read(ctx)
	if err != nil {
		return nil, e.interpret(err)
	}
	return now, nil
}

// ForEach calls fn with each offset in use, ascending, after a request. If that fails, it calls fn with none.
func (e *stored) ForEach(fn func(int)) {
	now, err := e.DryRun()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("list the offsets in use in %s: %w", e.key, err))
		return
	}
	now.ForEach(fn)
}

// Has returns whether an offset is in use, after a request. If that fails, it returns true.
func (e *stored) Has(offset int) bool {
	now, err := e.DryRun()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("look up offset %d in %s: %w", offset, e.key, err))
		return true
	}
	return now.Has(offset)
}

// interpret returns the error of an operation as the API server's clients know it.
func (e *stored) interpret(err error) error {
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		return fmt.Errorf("cannot allocate resources of type %s at this time", e.resource)
	}
	return storeerr.InterpretUpdateError(err, e.resource, "")
}
