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
)

// backend carries out operations on the stored object. One that is missing or was never initialised is
// rangekeeper.ErrNotInitialised.
type backend interface {
	// allocate returns rangekeeper.ErrAlreadyAllocated for an offset in use.
	allocate(ctx context.Context, offset int) (allocation, error)
	// allocateNext returns rangekeeper.ErrFull if there is none.
	allocateNext(ctx context.Context) (allocation, error)
	release(ctx context.Context, all []owned) error
	// read returns the stored bitmap, and the revision that it is the state of.
	read(ctx context.Context) (bitmap []byte, revision int64, err error)
	// memory returns a copy in memory, with a bitmap that was read.
	memory(bitmap []byte) (allocator.Interface, error)
	// used returns the number of offsets in use, as far as it is known without asking etcd.
	used() int
	// repairRange returns the range that repair passes are made over.
	repairRange() repair.Range
	close()
}

// allocation is an offset that was allocated.
type allocation struct {
	offset   int
	revision int64
	// useUntil is when its Service must be written.
	useUntil time.Time
}

// owned is an offset that is released on behalf of its owner.
type owned struct {
	offset int
	owner  rangekeeper.Ownership
}

// newBackend opens a Rangekeeper store of addresses or ports.
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
