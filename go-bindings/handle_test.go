package rangekeeper

import (
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"
)

// A copy of a handle's struct keeps what the handle refers to, also where the original is unreachable.
func TestCopiedHandles(t *testing.T) {
	cidr := must(ParseCIDR("10.0.0.0/24"))
	t.Run("Allocator", func(t *testing.T) {
		testCopies(t, func() *Allocator { return must(NewAllocator(cidr, Contiguous, 0)) },
			func(a *Allocator) error { _, err := a.Release(Value{}); return err })
	})
	t.Run("RangeAllocation", func(t *testing.T) {
		testCopies(t, func() *RangeAllocation { return must(DecodeRangeAllocation([]byte(storedJSON))) },
			func(o *RangeAllocation) error { _, err := o.Range(); return err })
	})
	t.Run("LeakCounters", func(t *testing.T) {
		testCopies(t, func() *LeakCounters { return must(NewLeakCounters(cidr, 3)) },
			func(c *LeakCounters) error { _, err := c.Advance(nil); return err })
	})
	t.Run("Passes", func(t *testing.T) {
		testCopies(t, func() *LeakTracker { return must(NewLeakTracker(3, time.Minute)) },
			func(p *LeakTracker) error { _, err := p.NewAudit(); return err })
	})
	t.Run("Audit", func(t *testing.T) {
		testCopies(t, func() *Audit { return must(NewAudit()) },
			func(a *Audit) error { return a.Observe(new(Services)) })
	})
	t.Run("Report", func(t *testing.T) {
		testCopies(t, func() *Report { return must(must(NewAudit()).Finish()) },
			func(r *Report) error { _, err := r.Findings(); return err })
	})
	t.Run("Committer", func(t *testing.T) {
		testCopies(t, func() *Committer { return must(NewCommitter(cidr, CommitterConfig{})) },
			func(c *Committer) error { return c.Cancel(0) })
	})
	t.Run("Bootstrap", func(t *testing.T) {
		config := []byte(`{"advertiseAddress":"192.0.2.10"}`)
		testCopies(t, func() *Bootstrap { return must(NewBootstrap(config)) },
			func(b *Bootstrap) error { _, err := b.Poll(0, nil); return err })
	})
	t.Run("Range", func(t *testing.T) {
		held := [1]Range{must(ParseCIDR("10.1.0.0/24"))}
		collectAmid(func() { must(ParseCIDR("10.2.0.0/24")) })
		if first, ok := held[0].ValueAt(0); !ok || first != ip("10.1.0.1") {
			t.Error(first, ok)
		}
	})
	t.Run("ServiceCIDR", func(t *testing.T) {
		held := [1]ServiceCIDR{must(ParseServiceCIDR("10.1.0.0/24"))}
		collectAmid(func() { must(ParseServiceCIDR("10.2.0.0/24")) })
		if offset, ok := held[0].OffsetOf(netip.MustParseAddr("10.1.0.1")); !ok || offset != 0 {
			t.Error(offset, ok)
		}
	})
}

// Freed memory is given to the handles that come next: an embedded copy must not see what they have.
func TestCopiedAllocatorKeepsItsValues(t *testing.T) {
	type serviceIPs struct {
		Allocator
		name string
	}
	embed := func() *serviceIPs {
		a := must(NewAllocator(must(ParseCIDR("10.0.0.0/24")), Contiguous, 0))
		must(a.AllocateNext())
		return &serviceIPs{*a, "serviceips"}
	}
	own := embed()
	r := must(ParseCIDR("10.9.0.0/24"))
	collectAmid(func() { must(NewAllocator(r, Contiguous, 0)) })
	if next, err := own.AllocateNext(); err != nil || next != ip("10.0.0.2") {
		t.Error(own.name, next, err)
	}
}

// Close comes before or after each call beside it, and the last call frees the memory that it uses.
func TestCloseBesideCalls(t *testing.T) {
	for range 200 {
		a := must(NewAllocator(must(ParseCIDR("10.0.0.0/16")), Contiguous, 0))
		var began, ended sync.WaitGroup
		for range 3 {
			began.Add(1)
			ended.Go(func() {
				for n := 0; ; n++ {
					value, err := a.AllocateNext()
					if n == 0 {
						began.Done()
					}
					if errors.Is(err, ErrClosed) {
						return
					}
					if _, released := a.Release(value); err != nil || released != nil && !errors.Is(released, ErrClosed) {
						t.Error(value, err, released)
						return
					}
				}
			})
		}
		began.Wait()
		for range 2 {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		if a.Used() != 0 {
			t.Error("a closed allocator has values")
		}
		ended.Wait()
	}
}

type handle[T any] interface {
	*T
	Close() error
}

// testCopies uses copies by value of handles of one type after the originals are gone and many others were closed,
// which are likely to have got the memory of what was freed.
func testCopies[T any, P handle[T]](t *testing.T, create func() P, use func(P) error) {
	copies := func() (inSlice []T, inStruct struct{ value T }) {
		first, second := create(), create()
		return []T{*first}, struct{ value T }{*second}
	}
	inSlice, inStruct := copies()
	var closed []P
	collectAmid(func() {
		other := create()
		other.Close()
		closed = append(closed, other)
	})
	if err := use(&inSlice[0]); err != nil {
		t.Error("in a slice:", err)
	}
	if err := use(&inStruct.value); err != nil {
		t.Error("in a struct:", err)
	}
	runtime.KeepAlive(closed)
}

// collectAmid runs the garbage collector and, in between, work, which makes new handles.
func collectAmid(work func()) {
	for range 5 {
		runtime.GC()
		time.Sleep(2 * time.Millisecond) // cleanups run in a goroutine of their own
		for range 100 {
			work()
		}
	}
}
