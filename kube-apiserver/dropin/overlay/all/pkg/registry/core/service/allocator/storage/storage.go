// Package storage allocates the offsets of a range that is stored in etcd.
package storage

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
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

// Etcd allocates the offsets of a stored RangeAllocation. The operations of many requests share one compare-and-swap.
type Etcd struct {
	stored
	backend backend
	destroy func()
	// size is the number of offsets.
	size int
	// services lists Services for repair passes; NewREST sets it.
	services repaircontroller.ListStored
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
	e := &Etcd{
		stored: stored{resource: config.GroupResource, key: baseKey, storage: objects}, size: alloc.Free(), given: alloc,
	}
	e.read = e.now
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

// now returns what is stored, in memory.
func (e *Etcd) now(ctx context.Context) (allocator.Interface, error) {
	bitmap, _, err := e.backend.read(ctx)
	if err != nil {
		return nil, err
	}
	return e.backend.memory(bitmap)
}

// Free returns the number of free offsets in the newest known state. It sends no request, as metrics need it after
// every operation.
func (e *Etcd) Free() int { return e.size - e.backend.used() }

// SetServices sets the list of Services for repair passes, before the first one.
func (e *Etcd) SetServices(list repaircontroller.ListStored) { e.services = list }

// ListServices lists Services for a repair pass.
func (e *Etcd) ListServices(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
	if e.services == nil {
		return nil, 0, errors.New("the storage of Services is not open yet")
	}
	return e.services(ctx, at)
}

// RepairRange returns the range for repair passes. It is in the etcd of Services: the API server uses their
// configuration for it, overrides included (k8s.io/kubernetes/pkg/registry/core/rest/storage_core.go).
func (e *Etcd) RepairRange(string) (passes repair.Range, services repaircontroller.ListStored) {
	return e.backend.repairRange(), e.ListServices
}

// Destroy closes the connections to etcd.
func (e *Etcd) Destroy() { e.destroy() }
