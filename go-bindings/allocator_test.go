package rangekeeper

import (
	"bytes"
	"errors"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// model is the naive allocator: one big integer, as the reference stores it.
type model struct {
	bits big.Int
	size uint32
}

func (m *model) used() (n int) {
	for i := range int(m.size) {
		n += int(m.bits.Bit(i))
	}
	return n
}

func testAgainstModel(t *testing.T, r Range, outside Value) {
	random := rand.New(rand.NewPCG(1, uint64(r.Size())))
	for _, strategy := range []Strategy{Contiguous, RandomScan, DynamicBandFirst} {
		a := must(NewAllocator(r, strategy, 7))
		defer a.Close()
		m := model{size: r.Size()}
		for step := range 3000 {
			offset := random.Uint32N(r.Size())
			value, _ := r.ValueAt(offset)
			taken := m.bits.Bit(int(offset)) == 1
			switch random.IntN(6) {
			case 0, 1:
				err := a.Allocate(value)
				if taken != errors.Is(err, ErrAlreadyAllocated) || !taken && err != nil {
					t.Fatal(step, value, err)
				}
				m.bits.SetBit(&m.bits, int(offset), 1)
			case 2:
				if wasUsed := must(a.Release(value)); wasUsed != taken {
					t.Fatal(step, value, wasUsed)
				}
				m.bits.SetBit(&m.bits, int(offset), 0)
			case 3:
				if a.Has(value) != taken {
					t.Fatal(step, value)
				}
			default:
				next, err := a.AllocateNext()
				if errors.Is(err, ErrFull) && m.used() == int(m.size) {
					continue
				}
				at, ok := r.OffsetOf(next)
				if err != nil || !ok || m.bits.Bit(int(at)) == 1 {
					t.Fatal(step, next, ok, err)
				}
				m.bits.SetBit(&m.bits, int(at), 1)
			}
		}
		if used, free := a.Used(), a.Free(); used != m.used() || used+free != int(m.size) {
			t.Error(used, free)
		}
		snapshot := must(a.Snapshot(nil))
		if !bytes.Equal(snapshot, m.bits.Bytes()) {
			t.Error("the snapshot differs from the model's")
		}
		var all []Value
		for value := range a.All() {
			all = append(all, value)
		}
		var rebuilt big.Int
		for _, value := range all {
			at, _ := r.OffsetOf(value)
			rebuilt.SetBit(&rebuilt, int(at), 1)
		}
		if rebuilt.Cmp(&m.bits) != 0 {
			t.Error("iteration differs from the model")
		}
		copied := must(NewAllocator(r, strategy, 8))
		defer copied.Close()
		if err := copied.Restore(r.String(), snapshot); err != nil || copied.Used() != m.used() {
			t.Error(err)
		}
		var of *ValueError
		err := a.Allocate(outside)
		if !errors.As(err, &of) || *of != (ValueError{outside, r, ErrNotInRange}) || outside != (Value{}) && !strings.Contains(err.Error(), outside.String()) {
			t.Error(err)
		}
		if a.Has(outside) || must(a.Release(outside)) {
			t.Error("a value outside is in use")
		}
	}
}

func TestAllocatorAgainstModel(t *testing.T) {
	testAgainstModel(t, must(ParseCIDR("10.0.0.0/22")), ip("10.0.0.0"))
	testAgainstModel(t, must(ParseCIDR("fd00::/118")), ip("fe80::1%eth0"))
	testAgainstModel(t, must(ParseCIDR("10.0.0.0/26")), Value{})
	testAgainstModel(t, must(ParsePortRange("30000-32767")), PortValue(29999))
	testAgainstModel(t, must(ParsePortRange("0-100")), AddrValue(netip.Addr{}))
}

func TestBatches(t *testing.T) {
	a := must(NewAllocator(must(ParsePortRange("1-4")), Contiguous, 0))
	defer a.Close()
	got, err := a.AllocateBatch([]Request{Any(), Named(PortValue(1)), {}})
	if err != nil || !slices.Equal(got, ports(2, 1, 3)) {
		t.Fatal(got, err)
	}
	var batch *BatchError
	var of *ValueError
	_, err = a.AllocateBatch([]Request{Named(PortValue(4)), Named(PortValue(9))})
	if !errors.As(err, &batch) || batch.Index != 1 || !errors.As(err, &of) || *of != (ValueError{PortValue(9), a.Range(), ErrNotInRange}) {
		t.Error(err)
	}
	_, err = a.AllocateBatch([]Request{Named(PortValue(4)), Named(PortValue(3))})
	if !errors.Is(err, ErrAlreadyAllocated) || !errors.As(err, &of) || of.Value != PortValue(3) || of.Range != a.Range() {
		t.Error(err)
	}
	if _, err = a.AllocateBatch([]Request{{}, {}}); !errors.Is(err, ErrFull) || !errors.As(err, &of) || *of != (ValueError{Range: a.Range(), Err: ErrFull}) {
		t.Error(err)
	}
	if got, err := a.AllocateBatch(nil); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	if used := slices.Collect(a.All()); !slices.Equal(used, ports(1, 2, 3)) {
		t.Error(used)
	}
	cidr := must(NewAllocator(must(ParseCIDR("10.0.0.0/24")), Contiguous, 0))
	defer cidr.Close()
	if _, err := cidr.AllocateBatch([]Request{Named(Value{})}); !errors.Is(err, ErrNotInRange) {
		t.Error("the zero address was taken for the next one:", err)
	}
}

func TestRestoreErrors(t *testing.T) {
	a := must(NewAllocator(must(ParseCIDR("10.0.0.0/28")), RandomScan, 0))
	defer a.Close()
	must(a.AllocateNext())
	before := must(a.Snapshot(nil))
	var mismatched *MismatchedRangeError
	if err := a.Restore("10.0.1.0/28", nil); !errors.As(err, &mismatched) || mismatched.Found != "10.0.1.0/28" || mismatched.Expected != "10.0.0.0/28" {
		t.Error(err)
	}
	var past *BitsPastRangeError
	if err := a.Restore("10.0.0.0/28", []byte{0x40, 0}); !errors.As(err, &past) || past.Offset != 14 || past.Byte != 0 {
		t.Error(err)
	}
	if err := a.Restore("10.0.0.0/28", make([]byte, 1<<20)); err != nil {
		t.Error("leading zeros:", err)
	}
	if err := a.Restore("10.0.0.0/28", before); err != nil || a.Used() != 1 {
		t.Error(err)
	}
}

func TestDryRun(t *testing.T) {
	a := must(NewAllocator(must(ParsePortRange("1-100")), RandomScan, 42))
	defer a.Close()
	dry := must(a.DryRun())
	defer dry.Close()
	tried := must(dry.AllocateNext())
	if a.Has(tried) {
		t.Error("a dry run changed the allocator")
	}
	if real := must(a.AllocateNext()); real != tried {
		t.Errorf("dry run gave %v, then it was %v", tried, real)
	}
}

func TestSeedDecides(t *testing.T) {
	pick := func(seed uint64) (values []Value) {
		a := must(NewAllocator(must(ParsePortRange("1-60000")), RandomScan, seed))
		defer a.Close()
		for range 8 {
			values = append(values, must(a.AllocateNext()))
		}
		return values
	}
	if !slices.Equal(pick(1), pick(1)) || slices.Equal(pick(1), pick(2)) {
		t.Error("the seed does not decide")
	}
}

func testClosed(t *testing.T, a *Allocator) {
	t.Helper()
	calls := map[string]error{}
	calls["Allocate"] = a.Allocate(PortValue(1))
	_, calls["AllocateNext"] = a.AllocateNext()
	_, calls["Release"] = a.Release(PortValue(1))
	_, calls["AllocateBatch"] = a.AllocateBatch([]Request{{}})
	_, calls["Snapshot"] = a.Snapshot(nil)
	calls["Restore"] = a.Restore("1-2", nil)
	_, calls["DryRun"] = a.DryRun()
	for name, err := range calls {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a.Has(PortValue(1)) || a.Used() != 0 || a.Free() != 0 {
		t.Error("a getter of a closed allocator returns something else than zero")
	}
	for range a.All() {
		t.Error("All is not empty")
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// All returns just what Has affirms, in ranges of every kind and fill, and stops when its loop does.
func TestAll(t *testing.T) {
	cases := 0
	for _, cidr := range []string{"10.96.0.0/20", "10.255.255.0/24", "10.0.0.0/30", "10.0.0.0/31", "fd00::/108", "fd00::ffff:0/112", "fd00::ffff:ff00/120"} {
		cases += checkAll(t, must(ParseCIDR(cidr)))
	}
	for _, ports := range []string{"30000-32767", "1-65535", "80", "65000-65064"} {
		cases += checkAll(t, must(ParsePortRange(ports)))
	}
	if cases < 100_000 {
		t.Errorf("only %d values", cases)
	}
	t.Logf("%d values", cases)
}

func checkAll(t *testing.T, r Range) (cases int) {
	random := rand.New(rand.NewPCG(7, 7))
	for _, share := range []float64{0, 0.01, 0.5, 0.99, 1} {
		a := must(NewAllocator(r, Contiguous, 1))
		defer a.Close()
		var want []Value
		for offset := range r.Size() {
			if random.Float64() < share {
				value, ok := r.ValueAt(offset)
				if err := a.Allocate(value); !ok || err != nil {
					t.Fatal(r, offset, err)
				}
				want = append(want, value)
			}
		}
		if got := slices.Collect(a.All()); !slices.Equal(got, want) {
			t.Errorf("%v, %v full: %d values, not %d", r, share, len(got), len(want))
		}
		stop := random.IntN(len(want) + 1)
		var got []Value
		for value := range a.All() {
			if len(got) == stop {
				break
			}
			got = append(got, value)
		}
		if !slices.Equal(got, want[:stop]) {
			t.Errorf("%v, %v full: %d values before a stop after %d", r, share, len(got), stop)
		}
		cases += len(want)
	}
	return cases
}

func TestUseAfterClose(t *testing.T) {
	a := must(NewAllocator(must(ParsePortRange("1-2")), RandomScan, 0))
	a.Close()
	testClosed(t, a)
	testClosed(t, new(Allocator))
	testClosed(t, nil)
}

// A value must never be handed out twice, whatever runs beside: allocations, iteration, snapshots and in the end Close.
func TestConcurrentUseAndClose(t *testing.T) {
	a := must(NewAllocator(must(ParseCIDR("10.0.0.0/16")), RandomScan, 3))
	var owners sync.Map
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var mine []Value
			for step := 0; ; step++ {
				addr, err := a.AllocateNext()
				if errors.Is(err, ErrClosed) {
					return
				}
				if errors.Is(err, ErrFull) {
					for _, addr := range mine {
						owners.Delete(addr)
						a.Release(addr)
					}
					mine = mine[:0]
					continue
				}
				if _, taken := owners.LoadOrStore(addr, true); taken || err != nil {
					t.Error(addr, "is handed out twice, or", err)
					return
				}
				mine = append(mine, addr)
				if step%3 == 0 {
					last := mine[len(mine)-1]
					mine = mine[:len(mine)-1]
					owners.Delete(last)
					a.Release(last)
				}
			}
		})
	}
	group.Go(func() {
		for range 20 {
			before := Value{}
			for addr := range a.All() {
				if !before.Addr().Less(addr.Addr()) {
					t.Error("not ascending")
				}
				before = addr
			}
			must(a.Snapshot(nil))
			runtime.GC()
		}
		a.Close()
		a.Close()
	})
	group.Wait()
}

// vmSize returns the process's virtual memory in MiB.
func vmSize(t *testing.T) int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	return must(strconv.Atoi(strings.Fields(string(statm))[0])) * os.Getpagesize() >> 20
}

// freeUnreachable runs the garbage collector and waits until it has run a cleanup. Cleanups run in several goroutines,
// so that a few of the same collection may still be to come.
func freeUnreachable() {
	ran := make(chan struct{})
	runtime.AddCleanup(new([4]uintptr), func(ran chan struct{}) { close(ran) }, ran)
	runtime.GC()
	<-ran
}

func TestUnreachableHandlesAreFreed(t *testing.T) {
	r := must(ParseCIDR("10.0.0.0/8")) // 2 MiB each
	create := func(count int) {
		for i := range count {
			must(NewAllocator(r, RandomScan, 0))
			if i%20 == 19 {
				freeUnreachable()
			}
		}
	}
	create(60) // What is reused afterwards.
	before := vmSize(t)
	create(600)
	if grown := vmSize(t) - before; grown > 300 {
		t.Errorf("600 allocators of 2 MiB left %d MiB", grown)
	}
}
