// Package storage allocates the offsets of a range that is stored in etcd.
package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // to encode RangeAllocations
	"k8s.io/kubernetes/pkg/registry/core/rangeallocation"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/controlplane/repairloop"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// operationTimeout limits an allocation or release, which has no context. It is half the default timeout of a request.
const operationTimeout = 30 * time.Second

// Etcd allocates the offsets of a stored RangeAllocation. The operations of many requests share one compare-and-swap.
type Etcd struct {
	stored
	backend backend
	destroy func()
	// size is the number of offsets.
	size int
	// services lists Services for repair passes; NewREST sets it.
	services repaircontroller.ListServices
	// given is the allocator that NewEtcd was called with. Only the released tests read allocations from it.
	given allocator.Snapshottable
}

var (
	_ allocator.Interface           = (*Etcd)(nil)
	_ rangeallocation.RangeRegistry = (*Etcd)(nil)
	_ repairloop.Repairable         = (*Etcd)(nil)
)

// NewEtcd returns an Etcd of the object at baseKey. alloc is empty and has the expected range.
func NewEtcd(alloc allocator.Snapshottable, baseKey string, config *storagebackend.ConfigForResource) (*Etcd, error) {
	objects, destroy, err := generic.NewRawStorage(config, nil, nil, baseKey)
	if err != nil {
		return nil, err
	}
	e := &Etcd{stored: stored{config.GroupResource, baseKey, objects}, size: alloc.Free(), given: alloc}
	if e.backend, err = newBackend(e, config); err != nil {
		destroy()
		return nil, err
	}
	opened.Store(e, nil)
	e.destroy = sync.OnceFunc(func() {
		opened.Delete(e)
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

// Release releases an offset of any owner. It does nothing if the offset is free or not in the range.
func (e *Etcd) Release(offset int) error {
	ctx, cancel := operation()
	defer cancel()
	_, now, err := e.backend.read(ctx)
	if err != nil {
		return e.interpret(err)
	}
	return e.release([]owned{{offset, rangekeeper.OwnedSince(now)}})
}

// release releases offsets on behalf of their owners. After an error some of them are left to a repair pass; the caller
// only logs it.
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

// ForEach calls fn with each offset in use, ascending. If etcd does not answer, it calls fn with none.
func (e *Etcd) ForEach(fn func(int)) {
	now, err := e.now()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("list the offsets in use in %s: %w", e.key, err))
		return
	}
	now.ForEach(fn)
}

// Has returns whether an offset is in use. If etcd does not answer, it returns true.
func (e *Etcd) Has(offset int) bool {
	now, err := e.now()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("look up offset %d in %s: %w", offset, e.key, err))
		return true
	}
	return now.Has(offset)
}

// Free returns the number of free offsets in the newest known state. It sends no request, as metrics need it after
// every operation.
func (e *Etcd) Free() int { return e.size - e.backend.used() }

// DryRun returns a copy in memory for a dry run.
func (e *Etcd) DryRun() (allocator.Interface, error) { return e.now() }

// SetServices sets the list of Services for repair passes, before the first one.
func (e *Etcd) SetServices(list repaircontroller.ListServices) { e.services = list }

// ListServices lists Services for a repair pass.
func (e *Etcd) ListServices(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
	if e.services == nil {
		return nil, 0, errors.New("the storage of Services is not open yet")
	}
	return e.services(ctx, at)
}

// RepairRange returns the range for repair passes. It is in the etcd of Services: the API server uses their
// configuration for it, overrides included (k8s.io/kubernetes/pkg/registry/core/rest/storage_core.go).
func (e *Etcd) RepairRange(string) (passes repair.Range, services repaircontroller.ListServices) {
	return e.backend.repairRange(), e.ListServices
}

// Destroy closes the connections to etcd.
func (e *Etcd) Destroy() { e.destroy() }
