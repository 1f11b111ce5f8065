package storage

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/registry/generic"
	apistorage "k8s.io/apiserver/pkg/storage"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rangekeeper/rangekeeper/compat/allocator"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const key = "/ranges/servicenodeports"

// start starts an etcd, and returns the configuration of a storage in it.
func start(t *testing.T) *storagebackend.ConfigForResource {
	t.Helper()
	server, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	t.Cleanup(func() { server.Terminate(t) })
	config.Codec = scheme.Codecs.LegacyCodec(api.SchemeGroupVersion)
	return config.ForResource(api.Resource("servicenodeportallocations"))
}

// open returns an Etcd of 100 offsets.
func open(t *testing.T, rangeSpec string, config *storagebackend.ConfigForResource) *Etcd {
	t.Helper()
	e, err := NewEtcd(allocator.NewAllocationMap(100, rangeSpec), key, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Destroy)
	return e
}

// openStorage returns an Etcd of the range of given, in a storage that the caller has opened.
func openStorage(t *testing.T, given allocator.Snapshottable) *Etcd {
	t.Helper()
	config := start(t)
	objects, destroy, err := generic.NewRawStorage(config, nil, nil, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	return NewWithStorage(given, key, objects, config.GroupResource)
}

// initialise stores an empty range.
func initialise(t *testing.T, e *Etcd, rangeSpec string) {
	t.Helper()
	if _, _, err := e.AllocateNext(); err == nil {
		t.Fatal("allocated from an object that does not exist")
	}
	if err := e.CreateOrUpdate(&api.RangeAllocation{Range: rangeSpec}); err != nil {
		t.Fatal(err)
	}
	if err := e.CreateOrUpdate(&api.RangeAllocation{Range: rangeSpec}); !apierrors.IsConflict(err) {
		t.Fatalf("created an object that exists: %v", err)
	}
}

// TestAllocateConcurrently allocates all offsets through two Etcds, as two API servers do, in each kind of storage.
// None may be given twice, and both must know all.
func TestAllocateConcurrently(t *testing.T) {
	for name, one := range map[string]struct {
		rangeSpec string
		encrypted bool
		backend   string
	}{
		"ports":           {rangeSpec: "30000-30099", backend: "committed"},
		"encrypted ports": {rangeSpec: "30000-30099", encrypted: true, backend: "swapped"},
		"another range":   {rangeSpec: "1000000000-1999999999/10000", backend: "swapped"},
	} {
		t.Run(name, func(t *testing.T) {
			config := start(t)
			if one.encrypted {
				config.Transformer = identity.NewEncryptCheckTransformer()
			}
			servers := []*Etcd{open(t, one.rangeSpec, config), open(t, one.rangeSpec, config)}
			if _, committed := servers[0].backend.(*committed); committed != (one.backend == "committed") {
				t.Fatalf("the backend is a %T", servers[0].backend)
			}
			initialise(t, servers[0], one.rangeSpec)
			var mu sync.Mutex
			owners := map[int]int{}
			var group sync.WaitGroup
			for i := range 100 {
				group.Go(func() {
					offset, ok, err := servers[i%2].AllocateNext()
					if !ok || err != nil {
						t.Errorf("%v, %v", ok, err)
					}
					mu.Lock()
					defer mu.Unlock()
					owners[offset]++
				})
			}
			group.Wait()
			if len(owners) != 100 {
				t.Errorf("%d offsets for 100 callers", len(owners))
			}
			for _, server := range servers {
				if _, ok, err := server.AllocateNext(); ok || err != nil {
					t.Errorf("a full range: %v, %v", ok, err)
				}
				if ok, err := server.Allocate(7); ok || err != nil {
					t.Errorf("an offset in use: %v, %v", ok, err)
				}
				n := 0
				server.ForEach(func(int) { n++ })
				if n != 100 || server.Free() != 0 || !server.Has(7) {
					t.Errorf("%d in use, %d free", n, server.Free())
				}
			}
			// The dry run of one server sees what another one has released, and changes nothing.
			if err := servers[1].Release(7); err != nil {
				t.Error(err)
			}
			dry, err := servers[0].DryRun()
			if err != nil {
				t.Fatal(err)
			}
			if offset, ok, err := dry.AllocateNext(); offset != 7 || !ok || err != nil {
				t.Errorf("dry run: %d, %v, %v", offset, ok, err)
			}
			if servers[1].Has(7) {
				t.Error("a dry run has allocated 7")
			}
			object, err := servers[0].Get()
			if err != nil || object.Range != one.rangeSpec || object.ResourceVersion == "" {
				t.Errorf("%+v, %v", object, err)
			}
			if _, err := servers[0].Allocate(100); err == nil {
				t.Error("allocated an offset past the end")
			}
			if err := servers[0].Release(100); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNewWithStorage allocates through a storage that the caller has opened.
func TestNewWithStorage(t *testing.T) {
	const rangeSpec = "4096-4195"
	given := allocator.NewAllocationMap(100, rangeSpec)
	e := openStorage(t, given)
	initialise(t, e, rangeSpec)
	if ok, err := e.Allocate(3); !ok || err != nil || !given.Has(3) || e.Free() != 99 {
		t.Errorf("%v, %v; %d free", ok, err, e.Free())
	}
	e.Destroy()
	if !e.Has(3) {
		t.Error("Destroy has closed the storage of the caller")
	}
}

// paused stops the second release of an offset, and the next snapshot with offset 7 until then.
type paused struct {
	*allocator.AllocationBitmap
	on              atomic.Bool
	releases        atomic.Int32
	snapshot, freed chan struct{}
}

func (p *paused) Release(offset int) error {
	if p.on.Load() && p.releases.Add(1) == 2 {
		<-p.snapshot
		defer close(p.freed)
	}
	return p.AllocationBitmap.Release(offset)
}

func (p *paused) Snapshot() (string, []byte) {
	if p.Has(7) && p.on.CompareAndSwap(true, false) {
		close(p.snapshot)
		select {
		case <-p.freed:
		case <-time.After(100 * time.Millisecond): // nobody releases it, as it should be
		}
	}
	return p.AllocationBitmap.Snapshot()
}

// TestAllocateDuringRelease allocates an offset while its release has not returned: the allocator of the caller is
// changed by one of them at a time, so that what is stored has the offset.
func TestAllocateDuringRelease(t *testing.T) {
	const rangeSpec = "4096-4195"
	given := &paused{AllocationBitmap: allocator.NewAllocationMap(100, rangeSpec), snapshot: make(chan struct{}), freed: make(chan struct{})}
	e := openStorage(t, given)
	initialise(t, e, rangeSpec)
	if ok, err := e.Allocate(7); !ok || err != nil {
		t.Fatal(ok, err)
	}
	given.on.Store(true)
	var release sync.WaitGroup
	release.Go(func() {
		if err := e.Release(7); err != nil {
			t.Error(err)
		}
	})
	for e.Has(7) {
		time.Sleep(time.Millisecond)
	}
	if ok, err := e.Allocate(7); !ok || err != nil {
		t.Error(ok, err)
	}
	release.Wait()
	if ok, err := e.Allocate(7); ok || err != nil {
		t.Error("7 was allocated twice:", ok, err)
	}
}

// alone notices a change that begins before another one has ended.
type alone struct {
	*allocator.AllocationBitmap
	changing, together atomic.Bool
}

func (a *alone) Restore(rangeSpec string, data []byte) error {
	if !a.changing.CompareAndSwap(false, true) {
		a.together.Store(true)
	}
	time.Sleep(time.Millisecond) // for others to come
	return a.AllocationBitmap.Restore(rangeSpec, data)
}

func (a *alone) Snapshot() (string, []byte) {
	defer a.changing.Store(false)
	return a.AllocationBitmap.Snapshot()
}

// TestChangesOneAtATime allocates by many callers at once: the allocator of the caller holds one change at a time.
func TestChangesOneAtATime(t *testing.T) {
	const rangeSpec = "4096-4195"
	given := &alone{AllocationBitmap: allocator.NewAllocationMap(100, rangeSpec)}
	e := openStorage(t, given)
	initialise(t, e, rangeSpec)
	given.changing.Store(false) // of what initialise has restored
	given.together.Store(false)
	var callers sync.WaitGroup
	var taken [100]atomic.Int32
	for range 8 {
		callers.Go(func() {
			for range 4 {
				offset, ok, err := e.AllocateNext()
				if !ok || err != nil {
					t.Error(ok, err)
					return
				}
				taken[offset].Add(1)
			}
		})
	}
	callers.Wait()
	for offset := range taken {
		if count := taken[offset].Load(); count > 1 {
			t.Errorf("%d was allocated %d times", offset, count)
		}
	}
	if given.together.Load() {
		t.Error("a change has begun before another one had ended")
	}
}

// TestOffsets passes offsets that no range has, and that are others if they are cut to 32 bits.
func TestOffsets(t *testing.T) {
	const rangeSpec = "30000-30099"
	e := open(t, rangeSpec, start(t))
	initialise(t, e, rangeSpec)
	if ok, err := e.Allocate(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	dry, err := e.DryRun()
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int{-1, 100, 1 << 32, 1<<32 + 1, -math.MaxUint32} {
		for _, one := range []allocator.Interface{e, dry} {
			if ok, err := one.Allocate(offset); ok || err == nil {
				t.Errorf("%T allocated offset %d", one, offset)
			}
			if err := one.Release(offset); err != nil || one.Free() != 99 {
				t.Errorf("%T: release of offset %d: %v, free %d", one, offset, err, one.Free())
			}
		}
	}
}

// pass makes a repair pass over a range of which no Service uses a value, and calls meanwhile once it has read the
// range. A conflict is no failure of the test: the pass is then made again by its caller.
func pass(t *testing.T, tracker *rangekeeper.LeakTracker, over repair.Range, meanwhile func()) {
	t.Helper()
	time.Sleep(time.Millisecond) // no leak is cleaned sooner after a pass has seen it first
	_, err := repair.Drive(t.Context(), tracker, []repair.Range{over}, false, func(p *rangekeeper.RepairPass, _ int64) (*rangekeeper.Report, rangekeeper.ServiceList, error) {
		meanwhile()
		audit, err := p.Audit()
		if err != nil {
			return nil, rangekeeper.ServiceList{}, err
		}
		defer audit.Close()
		report, err := p.Finish(audit)
		return report, rangekeeper.ServiceList{}, err
	})
	if err != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
}

// TestLeaksBesideOwnWrites cleans a leak in the third pass though the program allocates and releases other values all
// the time, between passes or during them. Not so if the leaked value itself is released and allocated, or if another
// program writes.
func TestLeaksBesideOwnWrites(t *testing.T) {
	const spec, leaked, other, passes = "30000-30099", 7, 50, 8
	for _, c := range []struct {
		name      string
		encrypted bool
		// between and during change the range between two passes, and while one is under way.
		between, during func(t *testing.T, own, foreign *Etcd)
		gone            int // in which pass; 0 for never
	}{
		{name: "nothing", gone: 3},
		{name: "another value", between: func(t *testing.T, own, _ *Etcd) { toggle(t, own, other) }, gone: 3},
		{name: "another value, encrypted", encrypted: true, between: func(t *testing.T, own, _ *Etcd) { toggle(t, own, other) }, gone: 3},
		{name: "another value during the passes", during: func(t *testing.T, own, _ *Etcd) { toggle(t, own, other) }, gone: 3},
		{name: "the leaked value", between: func(t *testing.T, own, _ *Etcd) { toggle(t, own, leaked) }},
		{name: "the leaked value during the passes", during: func(t *testing.T, own, _ *Etcd) { toggle(t, own, leaked) }},
		{name: "another value by another program", between: func(t *testing.T, _, foreign *Etcd) { toggle(t, foreign, other) }},
		{name: "both programs", between: func(t *testing.T, own, foreign *Etcd) {
			toggle(t, own, other)
			toggle(t, foreign, leaked)
			toggle(t, own, other)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := start(t)
			if c.encrypted {
				config.Transformer = identity.NewEncryptCheckTransformer()
			}
			objects, destroy, err := generic.NewRawStorage(config, nil, nil, key)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(destroy)
			with := func() *Etcd {
				if c.encrypted {
					return open(t, spec, config)
				}
				return NewWithStorage(allocator.NewAllocationMap(100, spec), key, objects, config.GroupResource)
			}
			own, foreign := with(), with()
			initialise(t, own, spec)
			if ok, err := own.Allocate(leaked); !ok || err != nil {
				t.Fatal(ok, err)
			}
			tracker, err := rangekeeper.NewLeakTracker(3, time.Microsecond)
			if err != nil {
				t.Fatal(err)
			}
			defer tracker.Close()
			over, _ := own.RepairRange(spec)
			gone := 0
			for n := 1; n <= passes && gone == 0; n++ {
				pass(t, tracker, over, func() {
					if c.during != nil {
						c.during(t, own, foreign)
					}
				})
				if !own.Has(leaked) {
					gone = n
				}
				if c.between != nil && gone == 0 {
					c.between(t, own, foreign)
				}
			}
			if gone != c.gone {
				t.Errorf("the leak was cleaned in pass %d, want %d (0: never)", gone, c.gone)
			}
		})
	}
}

// restored is the storage of an etcd until that is restored, and then of another one.
type restored struct{ apistorage.Interface }

// TestLeaksInAnotherHistory restores etcd between two passes, to a history in which others have written the range. It
// has come to the ResourceVersion of the program's own last write. So nothing is known of the leaked value since the
// pass before, and it is counted from the start.
func TestLeaksInAnotherHistory(t *testing.T) {
	const spec, leaked = "30000-30099", 7
	var histories [2]*Etcd
	for i := range histories {
		histories[i] = openStorage(t, allocator.NewAllocationMap(100, spec))
		initialise(t, histories[i], spec)
		if ok, err := histories[i].Allocate(leaked); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	objects := &restored{histories[0].storage}
	own := NewWithStorage(allocator.NewAllocationMap(100, spec), key, objects, histories[0].resource)
	tracker, err := rangekeeper.NewLeakTracker(3, time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	over, _ := own.RepairRange(spec)
	gone := 0
	for n := 1; n <= 8 && gone == 0; n++ {
		pass(t, tracker, over, func() {})
		if !own.Has(leaked) {
			gone = n
		}
		if n == 2 {
			toggle(t, own, 50)
			for offset := range 2 {
				if ok, err := histories[1].Allocate(offset); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
			var versions [2]string
			for i, history := range histories {
				object, err := history.Get()
				if err != nil {
					t.Fatal(err)
				}
				versions[i] = object.ResourceVersion
			}
			if versions[0] != versions[1] {
				t.Fatalf("the histories are at the ResourceVersions %v", versions)
			}
			objects.Interface = histories[1].storage
		}
	}
	if gone != 5 {
		t.Errorf("the leak was cleaned in pass %d, want 5 (0: never)", gone)
	}
}

// toggle changes a value and changes it back.
func toggle(t *testing.T, e *Etcd, offset int) {
	t.Helper()
	release := func() {
		if err := e.Release(offset); err != nil {
			t.Fatal(err)
		}
	}
	isUsed := e.Has(offset)
	if isUsed {
		release()
	}
	if ok, err := e.Allocate(offset); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if !isUsed {
		release()
	}
}
