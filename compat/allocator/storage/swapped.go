package storage

import (
	"context"
	"sync"

	api "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rangekeeper/rangekeeper/compat/allocator"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repairloop"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// swapped carries out each operation by a compare-and-swap of the API server's own storage. It evaluates the operation
// in the allocator of the caller.
type swapped struct {
	of   *Etcd
	lock sync.Mutex
}

func (s *swapped) allocate(ctx context.Context, offset int) error {
	return s.swap(ctx, func() error {
		ok, err := s.of.given.Allocate(offset)
		if err == nil && !ok {
			err = rangekeeper.ErrAlreadyAllocated
		}
		return err
	})
}

func (s *swapped) allocateNext(ctx context.Context) (next int, err error) {
	err = s.swap(ctx, func() error {
		offset, ok, err := s.of.given.AllocateNext()
		if err == nil && !ok {
			err = rangekeeper.ErrFull
		}
		next = offset
		return err
	})
	return next, err
}

func (s *swapped) release(ctx context.Context, offset int) error {
	return s.swap(ctx, func() error { return s.of.given.Release(offset) })
}

// swap applies a change to the stored object.
func (s *swapped) swap(ctx context.Context, change func() error) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	update := storage.SimpleUpdate(func(stored runtime.Object) (runtime.Object, error) {
		object := stored.(*api.RangeAllocation)
		if object.ResourceVersion == "" {
			return nil, rangekeeper.ErrNotInitialised
		}
		err := s.of.given.Restore(object.Range, object.Data)
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

func (s *swapped) restored(object *api.RangeAllocation) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.of.given.Restore(object.Range, object.Data)
}

func (s *swapped) now(ctx context.Context) (allocator.Interface, error) {
	object := &api.RangeAllocation{}
	if err := s.of.storage.Get(ctx, s.of.key, storage.GetOptions{IgnoreNotFound: true}, object); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if object.ResourceVersion != "" {
		if err := s.of.given.Restore(object.Range, object.Data); err != nil {
			return nil, err
		}
	}
	numbers, err := rangekeeper.Numbers(uint32(s.of.size), 0)
	if err != nil {
		return nil, err
	}
	return allocator.DryRun(s.of.given, numbers)
}

func (s *swapped) used() int { return s.of.size - s.of.given.Free() }

func (s *swapped) repairRange(rangeSpec string) repair.Range {
	return repairloop.OverRegistry(s.of, rangeSpec, 0)
}
