package rangekeeper

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
)

// mappings is how many areas of memory the process has; the system allows some 65,000.
func mappings(t *testing.T) int {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("\n"))
}

func TestManyAllocatorsNeedFewMappings(t *testing.T) {
	r := must(ParseCIDR("10.0.0.0/24"))
	all := []*Allocator[netip.Addr]{must(NewAllocator(r, RandomScan, 0))}
	before := mappings(t)
	for range 20_000 {
		all = append(all, must(NewAllocator(r, RandomScan, 0)))
	}
	if grown := mappings(t) - before; grown > 1000 {
		t.Errorf("20,000 allocators need %d more mappings", grown)
	}
	for _, a := range all {
		a.Close()
	}
}

// grow makes the goroutine's stack move: each level is larger than what a fresh goroutine has.
func grow(depth int, then func()) int {
	var room [1 << 12]byte
	if depth == 0 {
		then()
		return int(room[0])
	}
	room[depth%len(room)] = byte(depth)
	return grow(depth-1, then) + int(room[depth%len(room)])
}

// Calls that leave out cgo's crossing stand beside ones that do not, in goroutines that come and go, while the collector
// runs all the time and the profiler interrupts them: each value has one owner, and nothing is lost.
func TestCallsFromManyGoroutines(t *testing.T) {
	const (
		goroutines = 8
		calls      = 40_000
	)
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	defer pprof.StopCPUProfile()
	done := make(chan struct{})
	var collector sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	})

	r := must(ParseCIDR("10.0.0.0/22"))
	a := must(NewAllocator(r, RandomScan, 1))
	defer a.Close()
	owners := make([]atomic.Int32, r.Size())
	offset := func(addr netip.Addr) uint32 {
		offset, ok := r.OffsetOf(addr)
		if !ok {
			t.Errorf("%v is not in range", addr)
		}
		return offset
	}
	var work sync.WaitGroup
	var allocated atomic.Int64
	for id := int32(1); id <= goroutines; id++ {
		work.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(id)))
			var own []netip.Addr
			step := func() {
				if len(own) < 100 && random.IntN(2) == 0 {
					addr, err := a.AllocateNext()
					if err != nil {
						t.Error(err)
						return
					}
					if before := owners[offset(addr)].Swap(id); before != 0 {
						t.Errorf("%v was %d's and was given to %d", addr, before, id)
					}
					if err := a.Allocate(addr); !errors.Is(err, ErrAlreadyAllocated) {
						t.Errorf("%v was allocated twice: %v", addr, err)
					}
					own = append(own, addr)
					allocated.Add(1)
				} else if len(own) > 0 {
					at := random.IntN(len(own))
					addr := own[at]
					if has, err := a.Has(addr); !has || err != nil {
						t.Error(addr, has, err)
					}
					owners[offset(addr)].Store(0)
					if used, err := a.Release(addr); !used || err != nil {
						t.Error(addr, used, err)
					}
					own[at] = own[len(own)-1]
					own = own[:len(own)-1]
				}
			}
			for i := range calls {
				if i%1000 == 0 {
					// A goroutine of its own, whose stack is as small as they come and then grows.
					var fresh sync.WaitGroup
					fresh.Go(func() { step(); grow(4, step); step() })
					fresh.Wait()
				}
				step()
			}
			for _, addr := range own {
				owners[offset(addr)].Store(0)
				if used, err := a.Release(addr); !used || err != nil {
					t.Error(addr, used, err)
				}
			}
		})
	}
	work.Wait()
	close(done)
	collector.Wait()
	if used := must(a.Used()); used != 0 {
		t.Errorf("%d values are left", used)
	}
	if n := allocated.Load(); n < goroutines*calls/4 {
		t.Errorf("only %d allocations", n)
	}
}
