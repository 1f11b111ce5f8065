// Package storage allocates the offsets of a range that is stored where an API server stores its objects.
package storage

import (
	"context"
	"errors"
	"path"
	"sync"

	api "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/rangekeeper/rangekeeper/compat/allocator"
	"github.com/rangekeeper/rangekeeper/compat/rangeallocation"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/controlplane/repairloop"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Etcd allocates the offsets of a stored RangeAllocation. It needs one that was initialised: by CreateOrUpdate, or by a
// repair.
type Etcd struct {
	stored
	backend backend
	destroy func()
	// size is the number of offsets.
	size int
	// given is the allocator of the caller. It follows what this Etcd allocates and releases; only backend changes it.
	given allocator.Snapshottable
}

var (
	_ allocator.Interface           = (*Etcd)(nil)
	_ rangeallocation.RangeRegistry = (*Etcd)(nil)
	_ repairloop.Repairable         = (*Etcd)(nil)
)

// backend carries out operations on the stored object. Their error is rangekeeper.ErrNotInitialised if the object is
// missing or was never initialised.
type backend interface {
	// allocate returns rangekeeper.ErrAlreadyAllocated for an offset in use.
	allocate(ctx context.Context, offset int) error
	// allocateNext returns rangekeeper.ErrFull if there is none.
	allocateNext(ctx context.Context) (int, error)
	release(ctx context.Context, offset int) error
	// restored records that this was stored instead.
	restored(*api.RangeAllocation) error
	// now returns what is stored, in memory.
	now(ctx context.Context) (allocator.Interface, error)
	// used returns the number of offsets in use in the newest known state, without a request.
	used() int
	// repairRange returns the range for repair passes.
	repairRange(rangeSpec string) repair.Range
}

// NewEtcd returns an Etcd of the object at baseKey. alloc says which range it is of.
//
// A range of addresses or ports, in an etcd, is read and written by package etcdstore: the operations of many callers
// share one compare-and-swap. No repair frees a value within etcdstore.DefaultGrace, 6 minutes, however short its
// interval is: a request may take a minute until its Service is written. A range of another rangeSpec, and one whose
// values config.Transformer encrypts, is read and written as by NewWithStorage. config.Codec has to encode
// k8s.io/api/core/v1.
func NewEtcd(alloc allocator.Snapshottable, baseKey string, config *storagebackend.ConfigForResource) (*Etcd, error) {
	objects, destroy, err := generic.NewRawStorage(config, nil, nil, baseKey)
	if err != nil {
		return nil, err
	}
	e := NewWithStorage(alloc, baseKey, objects, config.GroupResource)
	e.destroy = sync.OnceFunc(destroy)
	isEtcd := config.Type == "" || config.Type == storagebackend.StorageTypeETCD3
	values, ok := e.values()
	if !ok || !isEtcd || config.Transformer != nil {
		return e, nil
	}
	committed, err := openCommitted(alloc, values, path.Join("/", config.Prefix, baseKey), config)
	if err != nil {
		destroy()
		return nil, err
	}
	e.backend = committed
	e.destroy = sync.OnceFunc(func() {
		committed.close()
		destroy()
	})
	return e, nil
}

// NewWithStorage returns an Etcd of the object at baseKey of a storage, which the caller closes. Each operation is a
// compare-and-swap of the storage; operations of one Etcd wait for each other.
func NewWithStorage(alloc allocator.Snapshottable, baseKey string, objects storage.Interface, resource schema.GroupResource) *Etcd {
	e := &Etcd{
		stored: stored{resource: resource, key: baseKey, storage: objects}, destroy: func() {},
		given: alloc, size: alloc.Free(),
	}
	e.read = func(ctx context.Context) (allocator.Interface, error) { return e.backend.now(ctx) }
	alloc.ForEach(func(int) { e.size++ })
	e.backend = &swapped{of: e}
	return e
}

// values returns the range of addresses or ports; false if it is neither.
func (e *Etcd) values() (rangekeeper.Range, bool) {
	rangeSpec, _ := e.given.Snapshot()
	if cidr, err := rangekeeper.ParseCIDR(rangeSpec); err == nil {
		return cidr, int(cidr.Size()) == e.size
	}
	ports, err := rangekeeper.ParsePortRange(rangeSpec)
	return ports, err == nil && int(ports.Size()) == e.size
}

// Allocate allocates an offset, and returns whether it was free.
func (e *Etcd) Allocate(offset int) (bool, error) {
	ctx, cancel := operation()
	defer cancel()
	err := e.backend.allocate(ctx, offset)
	if errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		return false, nil
	}
	if err != nil {
		return false, e.interpret(err)
	}
	return true, nil
}

// AllocateNext allocates a free offset, and returns whether there was one.
func (e *Etcd) AllocateNext() (int, bool, error) {
	ctx, cancel := operation()
	defer cancel()
	offset, err := e.backend.allocateNext(ctx)
	if errors.Is(err, rangekeeper.ErrFull) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, e.interpret(err)
	}
	return offset, true, nil
}

// Release releases an offset of any owner. It does nothing if the offset is free or not in the range.
func (e *Etcd) Release(offset int) error {
	ctx, cancel := operation()
	defer cancel()
	return e.interpret(e.backend.release(ctx, offset))
}

// Free returns the number of free offsets in the newest known state. It sends no request, as metrics need it after
// every operation.
func (e *Etcd) Free() int { return e.size - e.backend.used() }

// RepairRange returns the range for repair passes: they share writes with allocations if the range is in an etcd, and
// else call Get and CreateOrUpdate.
func (e *Etcd) RepairRange(rangeSpec string) (passes repair.Range, services repaircontroller.ListStored) {
	return e.backend.repairRange(rangeSpec), nil
}

// CreateOrUpdate replaces the stored object of the same ResourceVersion, or creates it if there is none. Otherwise the
// error is a conflict.
func (e *Etcd) CreateOrUpdate(snapshot *api.RangeAllocation) error {
	if err := e.stored.CreateOrUpdate(snapshot); err != nil {
		return err
	}
	return e.backend.restored(snapshot)
}

// Destroy closes the connections to etcd that NewEtcd has made. It may be called again.
func (e *Etcd) Destroy() { e.destroy() }
