package storage

import (
	"bytes"
	"context"
	"maps"
	"slices"
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
	// own are the writes since the last repair pass has read the object; nil before the first pass.
	own *ownWrites
}

// ownWrites are writes of this program, one after the other without one of another program between them.
type ownWrites struct {
	// from and to are the ResourceVersions before the first and after the last write, which has written data.
	from, to string
	data     []byte
	// changed has the offsets that they have changed.
	changed map[int]bool
}

// maxOwnChanges bounds what is remembered of a program whose repair passes fail: counters begin again then.
const maxOwnChanges = 8192

// add records a write of an offset, which begins again if another write came before. One that has changed nothing has
// not been made.
func (w *ownWrites) add(offset int, before string, written *api.RangeAllocation) {
	if before == written.ResourceVersion {
		return
	}
	if before != w.to || len(w.changed) == maxOwnChanges {
		*w = ownWrites{from: before, changed: map[int]bool{}}
	}
	w.to, w.data = written.ResourceVersion, written.Data
	w.changed[offset] = true
}

func (s *swapped) allocate(ctx context.Context, offset int) error {
	return s.swap(ctx, func() (int, error) {
		ok, err := s.of.given.Allocate(offset)
		if err == nil && !ok {
			err = rangekeeper.ErrAlreadyAllocated
		}
		return offset, err
	})
}

func (s *swapped) allocateNext(ctx context.Context) (next int, err error) {
	err = s.swap(ctx, func() (int, error) {
		offset, ok, err := s.of.given.AllocateNext()
		if err == nil && !ok {
			err = rangekeeper.ErrFull
		}
		next = offset
		return offset, err
	})
	return next, err
}

func (s *swapped) release(ctx context.Context, offset int) error {
	return s.swap(ctx, func() (int, error) { return offset, s.of.given.Release(offset) })
}

// swap applies a change to the stored object, which returns the offset that it is about.
func (s *swapped) swap(ctx context.Context, change func() (int, error)) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	var before string
	var changed int
	update := storage.SimpleUpdate(func(stored runtime.Object) (runtime.Object, error) {
		object := stored.(*api.RangeAllocation)
		if object.ResourceVersion == "" {
			return nil, rangekeeper.ErrNotInitialised
		}
		before = object.ResourceVersion
		err := s.of.given.Restore(object.Range, object.Data)
		if err == nil {
			changed, err = change()
		}
		if err != nil {
			return nil, err
		}
		object.Range, object.Data = s.of.given.Snapshot()
		return object, nil
	})
	written := &api.RangeAllocation{}
	err := s.of.storage.GuaranteedUpdate(ctx, s.of.key, written, true, nil, update, nil)
	if err == nil && s.own != nil {
		s.own.add(changed, before, written)
	}
	return err
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
	return repairloop.OverRegistry(follower{s}, rangeSpec, 0)
}

// follower is the registry of repair passes, which know what this program writes between them.
type follower struct{ of *swapped }

var _ repairloop.Follower = follower{}

func (f follower) Get() (*api.RangeAllocation, error) { return f.of.of.Get() }

func (f follower) CreateOrUpdate(object *api.RangeAllocation) error {
	return f.of.of.CreateOrUpdate(object)
}

func (f follower) GetSince(resourceVersion string) (object *api.RangeAllocation, changed []int, isKnown bool, err error) {
	s := f.of
	s.lock.Lock()
	defer s.lock.Unlock()
	object, err = f.Get()
	if err != nil {
		return nil, nil, false, err
	}
	if own := s.own; own != nil && own.from == resourceVersion {
		// The data are compared, too: an etcd that was restored can have another object of this version.
		isKnown = own.to == object.ResourceVersion && bytes.Equal(own.data, object.Data)
		changed = slices.Collect(maps.Keys(own.changed))
	}
	s.own = &ownWrites{from: object.ResourceVersion, to: object.ResourceVersion, data: object.Data, changed: map[int]bool{}}
	return object, changed, isKnown, nil
}
