package storage

import (
	"context"
	"path"

	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/repair"
)

// backend carries out operations on the stored object. One that is missing or was never initialised gives
// rangekeeper.ErrNotInitialised.
type backend interface {
	// allocate gives rangekeeper.ErrAlreadyAllocated for an offset in use.
	allocate(ctx context.Context, offset int) error
	// allocateNext gives rangekeeper.ErrFull if there is none.
	allocateNext(ctx context.Context) (int, error)
	release(ctx context.Context, offset int) error
	// read gives the bitmap that is stored.
	read(ctx context.Context) ([]byte, error)
	// used is how many offsets are in use, as far as that is known without asking etcd.
	used() int
	// repairRange gives the range that repair passes are made over, if operations go through a committer.
	repairRange() (repair.Range, bool)
	close()
}

// newBackend has a Rangekeeper store carry the operations out if it can read what is stored: a range of addresses or ports
// that is not encrypted.
func (e *Etcd) newBackend(config *storagebackend.ConfigForResource) (backend, error) {
	plain := config.Transformer == nil || config.Transformer == identity.NewEncryptCheckTransformer()
	rangeSpec, _ := e.known.Snapshot()
	key := path.Join("/", config.Prefix, e.key)
	if cidr, err := rangekeeper.ParseCIDR(rangeSpec); plain && err == nil && int(cidr.Size()) == e.size {
		return openCommitted(cidr, repair.Addresses, strategyOf(e.known), key, config)
	}
	if ports, err := rangekeeper.ParsePortRange(rangeSpec); plain && err == nil && int(ports.Size()) == e.size {
		return openCommitted(ports, repair.Ports, strategyOf(e.known), key, config)
	}
	return &swapped{e}, nil
}

// strategyOf is how alloc picks offsets.
func strategyOf(alloc allocator.Snapshottable) rangekeeper.Strategy {
	if bitmap, ok := alloc.(interface{ Strategy() rangekeeper.Strategy }); ok {
		return bitmap.Strategy()
	}
	return rangekeeper.RandomScanSparingStaticBand
}

// offsets is how many alloc has, in use or not.
func offsets(alloc allocator.Snapshottable) int {
	used := 0
	alloc.ForEach(func(int) { used++ })
	return used + alloc.Free()
}
