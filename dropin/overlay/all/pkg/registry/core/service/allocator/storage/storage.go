// Package storage hands out the offsets of a range that is stored in etcd.
package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // RangeAllocations can be encoded
	"k8s.io/kubernetes/pkg/registry/core/rangeallocation"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/dropin/repairloop"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// operationTimeout is for an allocation or release, whose callers do not say how long they can wait. The request that
// needs it has a minute.
const operationTimeout = 30 * time.Second

// Etcd hands out the offsets of a stored RangeAllocation. The operations of many requests share one compare-and-swap.
type Etcd struct {
	resource schema.GroupResource
	key      string
	storage  storage.Interface
	backend  backend
	destroy  func()
	// size is the number of offsets.
	size int
	// given is the bitmap that NewEtcd got. Nothing here reads it, but the released tests look there for allocations.
	given allocator.Snapshottable
}

var (
	_ allocator.Interface           = (*Etcd)(nil)
	_ rangeallocation.RangeRegistry = (*Etcd)(nil)
	_ repairloop.Repairable         = (*Etcd)(nil)
)

// NewEtcd makes an Etcd of the object under baseKey. alloc is empty and says which range is expected there.
func NewEtcd(alloc allocator.Snapshottable, baseKey string, config *storagebackend.ConfigForResource) (*Etcd, error) {
	objects, destroy, err := generic.NewRawStorage(config, nil, nil, baseKey)
	if err != nil {
		return nil, err
	}
	e := &Etcd{resource: config.GroupResource, key: baseKey, storage: objects, size: alloc.Free(), given: alloc}
	if e.backend, err = newBackend(e, config); err != nil {
		destroy()
		return nil, err
	}
	e.destroy = sync.OnceFunc(func() {
		e.backend.close()
		destroy()
	})
	return e, nil
}

// Allocate allocates an offset, and returns whether it was free.
func (e *Etcd) Allocate(offset int) (bool, error) {
	_, ok, err := e.allocate(offset)
	return ok, err
}

func (e *Etcd) allocate(offset int) (a allocation, ok bool, err error) {
	ctx, cancel := operation()
	defer cancel()
	a, err = e.backend.allocate(ctx, offset)
	if errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		return a, false, nil
	}
	return e.allocated(a, err)
}

// AllocateNext allocates a free offset, and returns whether there was one.
func (e *Etcd) AllocateNext() (int, bool, error) {
	a, ok, err := e.allocateNext()
	return a.offset, ok, err
}

func (e *Etcd) allocateNext() (a allocation, ok bool, err error) {
	ctx, cancel := operation()
	defer cancel()
	a, err = e.backend.allocateNext(ctx)
	if errors.Is(err, rangekeeper.ErrFull) {
		return a, false, nil
	}
	return e.allocated(a, err)
}

func (e *Etcd) allocated(a allocation, err error) (allocation, bool, error) {
	if err != nil {
		return a, false, e.interpret(err)
	}
	e.given.Allocate(a.offset)
	return a, true, nil
}

// Release releases an offset that is in use now, of any owner, as the caller names none. It does
// nothing if the offset is free or not in the range.
func (e *Etcd) Release(offset int) error {
	ctx, cancel := operation()
	defer cancel()
	_, now, err := e.backend.read(ctx)
	if err != nil {
		return e.interpret(err)
	}
	return e.release([]owned{{offset, rangekeeper.OwnedSince(now)}})
}

// release releases offsets on behalf of their owners. Those that are left to a repair are no reason for the caller to keep
// others, so that the error is for the log.
func (e *Etcd) release(all []owned) error {
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := operation()
	defer cancel()
	return e.interpret(e.backend.release(ctx, all))
}

func operation() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), operationTimeout)
}

func (e *Etcd) interpret(err error) error {
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		return fmt.Errorf("cannot allocate resources of type %s at this time", e.resource)
	}
	return storeerr.InterpretUpdateError(err, e.resource, "")
}

// now returns a copy in memory of the stored object.
func (e *Etcd) now() (allocator.Interface, error) {
	ctx, cancel := operation()
	defer cancel()
	bitmap, _, err := e.backend.read(ctx)
	if err != nil {
		return nil, e.interpret(err)
	}
	return e.backend.memory(bitmap)
}

// ForEach calls fn with each offset in use, ascending; with none if etcd does not answer.
func (e *Etcd) ForEach(fn func(int)) {
	now, err := e.now()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("list the offsets in use in %s: %w", e.key, err))
		return
	}
	now.ForEach(fn)
}

// Has returns whether an offset is in use; if etcd does not answer, it may be.
func (e *Etcd) Has(offset int) bool {
	now, err := e.now()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("look up offset %d in %s: %w", offset, e.key, err))
		return true
	}
	return now.Has(offset)
}

// Free returns the number of free offsets, as far as it is known without asking etcd: metrics want it after every
// operation.
func (e *Etcd) Free() int { return e.size - e.backend.used() }

// DryRun returns a copy in memory: operations on it end as they would here, and change nothing here.
func (e *Etcd) DryRun() (allocator.Interface, error) { return e.now() }

// RepairRange returns the range that repair passes are made over. It is in the etcd of Services, whose configuration the API
// server takes for it (k8s.io/kubernetes/pkg/registry/core/rest/storage_core.go), overrides included.
func (e *Etcd) RepairRange(string) (passes repair.Range, sameEtcd bool) {
	return e.backend.repairRange(), true
}

// Get returns the stored object; one that is missing has no ResourceVersion.
func (e *Etcd) Get() (*api.RangeAllocation, error) {
	object := &api.RangeAllocation{}
	err := e.storage.Get(context.Background(), e.key, storage.GetOptions{IgnoreNotFound: true}, object)
	if err != nil {
		return nil, storeerr.InterpretGetError(err, e.resource, "")
	}
	return object, nil
}

// CreateOrUpdate stores an object in the place of the one with the same ResourceVersion; without one, if there is none
// yet. Otherwise the error is a conflict.
func (e *Etcd) CreateOrUpdate(snapshot *api.RangeAllocation) error {
	update := storage.SimpleUpdate(func(stored runtime.Object) (runtime.Object, error) {
		if is := stored.(*api.RangeAllocation).ResourceVersion; is != "" && is != snapshot.ResourceVersion {
			return nil, apierrors.NewConflict(e.resource, "", fmt.Errorf("the stored object has revision %s, not %q", is, snapshot.ResourceVersion))
		}
		return snapshot, nil
	})
	err := e.storage.GuaranteedUpdate(context.Background(), e.key, &api.RangeAllocation{}, true, nil, update, nil)
	return storeerr.InterpretUpdateError(err, e.resource, "")
}

// Destroy ends the connections to etcd.
func (e *Etcd) Destroy() { e.destroy() }
