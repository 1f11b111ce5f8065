package storage

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/repair"
)

// swapped carries operations out one by one, each a compare-and-swap by the API server's own storage: for objects that
// only that can read, as they are encrypted, and for ranges that are neither addresses nor ports.
type swapped struct {
	key     string
	storage storage.Interface

	lock  sync.Mutex
	alloc allocator.Snapshottable
}

func (s *swapped) allocate(ctx context.Context, offset int) error {
	return s.swap(ctx, func() error {
		ok, err := s.alloc.Allocate(offset)
		if err == nil && !ok {
			err = rangekeeper.ErrAlreadyAllocated
		}
		return err
	})
}

func (s *swapped) allocateNext(ctx context.Context) (next int, err error) {
	err = s.swap(ctx, func() error {
		offset, ok, err := s.alloc.AllocateNext()
		if err == nil && !ok {
			err = rangekeeper.ErrFull
		}
		next = offset
		return err
	})
	return next, err
}

func (s *swapped) release(ctx context.Context, offset int) error {
	return s.swap(ctx, func() error { return s.alloc.Release(offset) })
}

// swap stores what is stored, changed.
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
		object.Range, object.Data = s.alloc.Snapshot()
		return object, nil
	})
	return s.storage.GuaranteedUpdate(ctx, s.key, &api.RangeAllocation{}, true, nil, update, nil)
}

// take makes alloc what is stored.
func (s *swapped) take(object *api.RangeAllocation) error {
	if object.ResourceVersion == "" {
		return rangekeeper.ErrNotInitialised
	}
	return s.alloc.Restore(object.Range, object.Data)
}

func (s *swapped) read(ctx context.Context) ([]byte, error) {
	object := &api.RangeAllocation{}
	err := s.storage.Get(ctx, s.key, storage.GetOptions{IgnoreNotFound: true}, object)
	return object.Data, err
}

func (s *swapped) used() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return offsets(s.alloc) - s.alloc.Free()
}

func (s *swapped) repairRange() (repair.Range, bool) { return nil, false }

func (s *swapped) close() {}

func errNoOffset(of string, offset int) error {
	return fmt.Errorf("%s has no offset %d", of, offset)
}
