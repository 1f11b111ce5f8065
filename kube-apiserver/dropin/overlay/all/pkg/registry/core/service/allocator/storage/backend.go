package storage

import (
	"context"
	"fmt"
	"path"
	"time"

	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// backend carries out operations on the stored object. Their error is rangekeeper.ErrNotInitialised if the object is
// missing or was never initialised.
type backend interface {
	// allocate returns rangekeeper.ErrAlreadyAllocated for an offset in use.
	allocate(ctx context.Context, offset int) (allocation, error)
	// allocateNext returns rangekeeper.ErrFull if there is none.
	allocateNext(ctx context.Context) (allocation, error)
	release(ctx context.Context, all []owned) error
	// written records that the Services of allocated offsets are stored.
	written(offsets []int)
	// store returns which store is known; see rangekeeper.Ownership.
	store() uint32
	// read returns the stored bitmap and its revision.
	read(ctx context.Context) (bitmap []byte, revision int64, err error)
	// memory returns an allocator in memory with a bitmap from read.
	memory(bitmap []byte) (allocator.Interface, error)
	// used returns the number of offsets in use in the newest known state, without a request to etcd.
	used() int
	// repairRange returns the range for repair passes.
	repairRange() repair.Range
	close()
}

// allocation is an offset that was allocated.
type allocation struct {
	offset int
	// owner is that of a rollback.
	owner rangekeeper.Ownership
	// useUntil is when its Service must be written.
	useUntil time.Time
	// of is the etcdstore's; nil if another backend has allocated it.
	of *etcdstore.Allocation
}

// owned is an offset to be released on behalf of its owner.
type owned struct {
	offset int
	owner  rangekeeper.Ownership
}

// newBackend opens an etcdstore of addresses or ports.
var newBackend = func(e *Etcd, config *storagebackend.ConfigForResource) (backend, error) {
	rangeSpec, _ := e.given.Snapshot()
	key := path.Join("/", config.Prefix, e.key)
	if cidr, err := rangekeeper.ParseCIDR(rangeSpec); err == nil && int(cidr.Size()) == e.size {
		return openCommitted(cidr, key, config)
	}
	if ports, err := rangekeeper.ParsePortRange(rangeSpec); err == nil && int(ports.Size()) == e.size {
		return openCommitted(ports, key, config)
	}
	return nil, fmt.Errorf("%s: %q is not a range of %d addresses or ports", key, rangeSpec, e.size)
}
