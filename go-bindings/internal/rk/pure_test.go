//go:build !(cgo && (rangekeeper_native || rangekeeper_dynamic))

package rk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func newAllocator(t *testing.T, cidr string) *Allocator {
	t.Helper()
	var r Range
	var allocator *Allocator
	var details Error
	if result := RangeParse(cidr, RangeKindCIDR, &r, &details); result != ResultOK {
		t.Fatal(result, details.Message)
	}
	if result := AllocatorNew(&r, StrategyContiguous, 0, &allocator, &details); result != ResultOK {
		t.Fatal(result, details.Message)
	}
	return allocator
}

// outsideMemory lets the next calls of an instance trap where the library writes an answer.
func outsideMemory(i *instance) (restore func()) {
	first, end := i.arguments, i.argumentsEnd
	i.arguments, i.argumentsEnd = maximalSize-2*pageSize, maximalSize-pageSize
	return func() { i.arguments, i.argumentsEnd = first, end }
}

// The call traps where the library writes its answer, when the value is taken already.
func TestTrapPoisonsTheHandle(t *testing.T) {
	trapped := newAllocator(t, "10.0.0.0/24")
	var other *Allocator // beside it
	if result := AllocatorDryRun(trapped, &other); result != ResultOK {
		t.Fatal(result)
	}
	in := trapped.in
	stack := *in.stack
	restore := outsideMemory(in)
	var value Value
	result := AllocatorAllocateNext(trapped, &value)
	restore()
	if result != ResultPanic {
		t.Fatal(result)
	}
	if value != (Value{}) {
		t.Error("the result was written", value)
	}
	if now := *in.stack; now != stack {
		t.Errorf("the stack pointer is %d, was %d", now, stack)
	}
	var used uint32
	for range 2 {
		if result := AllocatorUsed(trapped, &used); result != ResultPoisoned {
			t.Error(result)
		}
	}
	AllocatorFree(trapped)
	if result := AllocatorUsed(trapped, &used); result != ResultClosed {
		t.Error(result)
	}
	AllocatorFree(trapped)
	if result := AllocatorAllocateNext(other, &value); result != ResultOK || value.Low != 0x0a000001 {
		t.Error(result, value)
	}
	AllocatorFree(other)
}

// The first fault of a program is kept: what the library's panic says, and where it was called.
func TestFirstFault(t *testing.T) {
	defer firstFault.Store(firstFault.Swap(nil))
	var value Value
	// One of the words of an allocator is the length of its bitmap.
	words := *newAllocator(t, "10.0.0.0/12").in.memory
	for at := 0; at < len(words) && FirstFault() == ""; at += 4 {
		if word := endian.Uint32(words[at:]); word > 1<<14 && word < 1<<15 {
			damaged := newAllocator(t, "10.0.0.0/12")
			endian.PutUint32((*damaged.in.memory)[at:], 0)
			AllocatorAllocateNext(damaged, &value)
		}
	}
	for _, part := range []string{"index out of bounds: the len is 0", "core/src/bitmap", "AllocatorAllocateNext"} {
		if !strings.Contains(FirstFault(), part) {
			t.Errorf("%q is not in %s", part, FirstFault())
		}
	}
	first := FirstFault()
	other := newAllocator(t, "10.0.0.0/24")
	restore := outsideMemory(other.in)
	AllocatorAllocateNext(other, &value)
	restore()
	if FirstFault() != first {
		t.Error("a later fault is the first one")
	}
}

// A call that might need more memory than there is changes nothing, and its objects go on.
func TestNoMemory(t *testing.T) {
	var details Error
	var audit *Audit
	var report *Report
	var none *Allocator
	a, value := newAllocator(t, "10.0.0.0/12"), Value{}
	if result := AuditNew(nil, false, nil, &audit); result != ResultOK {
		t.Fatal(result)
	}
	services := &Services{Batch: Batch{Words: []uint32{0, 0, 0}}}
	large := &Services{Batch: Batch{Words: make([]uint32, argumentsLimit/4)}}
	if result := AuditObserveServices(audit, nil, large, &details); result != ResultNoMemory {
		t.Errorf("%v, with more than there may be in one argument", result)
	}
	allocateMany := func(n int) (result Result) {
		c := call{first: (*object)(a)}
		if result = c.enter(nil); result != ResultOK {
			return result
		}
		defer c.leave(&result)
		c.allocateMany(n, 24, 8)
		c.done = true
		return ResultOK
	}
	for n, want := range map[int]Result{argumentsLimit/24 - 1: ResultOK, argumentsLimit/24 + 1: ResultNoMemory, 1 << 30: ResultNoMemory} {
		if result := allocateMany(n); result != want {
			t.Errorf("%d times 24 bytes: %v", n, result)
		}
	}
	defer func(limit int) { objectLimit = limit }(objectLimit)
	objectLimit = 1 << 16
	var index *Index
	if result := IndexNew(1, &index); result != ResultOK {
		t.Fatal(result)
	}
	address, reservation := Value{Kind: ValueKindIPv4, Low: 10 << 24}, Reservation{}
	for i, result := range []Result{
		AllocatorDryRun(a, &none), AuditObserveServices(audit, nil, services, &details), IndexAdded(index, &address, 1),
		IndexReserveAddress(index, &address, 1, &reservation), IndexConfirm(index, &Reservation{Address: address}, 1), IndexCreated(index, &address, 1),
	} {
		if result != ResultNoMemory || none != nil {
			t.Error(i, result)
		}
	}
	for i, result := range []Result{AllocatorAllocateNext(a, &value), AuditFinish(audit, &report, &details)} {
		if result != ResultOK {
			t.Error(i, result)
		}
	}
}

// What an object has grown to is no other object's: not that of one that comes after it in its instance, nor of those
// that it shares one with once it is closed.
func TestLargeInstances(t *testing.T) {
	var details Error
	old := newAllocator(t, "10.0.0.0/12")
	argument := func(a *Allocator, size int) {
		if result := AllocatorRestore(a, "10.0.0.0/24", make([]byte, size), &details); result == ResultPanic {
			t.Fatal(FirstFault())
		}
	}
	argument(old, reusedMemory+1)
	in := old.in
	AllocatorFree(old)
	for range 100 {
		if next := newAllocator(t, "10.0.0.0/12"); next.in == in {
			t.Fatal("a new object is in the large instance of a closed one")
		}
	}
	ports := Range{First: Value{Kind: ValueKindPort, Low: 30000}, Extent: 32767}
	if size := bitmapSize(&ports); size != 346 || size > smallSize {
		t.Errorf("%d bytes for the node ports of kube-apiserver's default", size)
	}
	small := newAllocator(t, "10.0.0.0/24")
	argument(small, 2*smallMemory)
	for i := range smallInstances {
		if smallInstances[i].current == small.in {
			t.Error("an instance that has grown takes more objects")
		}
	}
}

// Whatever the arguments are, the library writes to its own memory only: what lies before and behind it stays.
func TestCanaries(t *testing.T) {
	const canary, margin, count = 0xa5, 4096, 8_000
	var details Error
	var audit *Audit
	if result := AuditNew(nil, false, nil, &audit); result != ResultOK {
		t.Fatal(result)
	}
	a := newAllocator(t, "10.0.0.0/12")
	var around []byte
	enclose := func(in *instance) {
		memory := *in.memory
		around = bytes.Repeat([]byte{canary}, margin+len(memory)+margin)
		copy(around[margin:], memory)
		*in.memory = around[margin:][:len(memory):len(memory)]
	}
	random, played, taken := rand.New(rand.NewPCG(1, 2)), 0, 0
	for ; played < count; played++ {
		in := audit.in
		if played%4 == 0 {
			in = a.in
		}
		if around == nil || &(*in.memory)[0] != &around[margin] {
			enclose(in)
		}
		text := make([]byte, random.IntN(200))
		words := make([]uint32, random.IntN(60))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		for i := range words {
			words[i] = random.Uint32() >> random.IntN(32)
		}
		var result Result
		if in == a.in {
			result = AllocatorRestore(a, "10.0.0.0/12", text, &details)
		} else {
			batch := Batch{Words: words, Text: text, Count: uint(random.IntN(4))}
			if played%2 == 0 { // one that is right, but for a word and a byte
				batch = Batch{Words: slices.Repeat([]uint32{1, 0, 8}, 9), Text: bytes.Repeat([]byte("10.0.0.1"), 9), Count: 9}
				batch.Words[random.IntN(27)] = random.Uint32() >> random.IntN(32)
				batch.Text[random.IntN(72)] = byte(random.Uint32())
			}
			result = AuditObserveServices(audit, nil, &Services{batch}, &details)
		}
		if result == ResultPanic || result == ResultPoisoned {
			t.Fatal(FirstFault())
		}
		if result == ResultOK {
			taken++
		}
		for _, side := range [][]byte{around[:margin], around[len(around)-margin:]} {
			if bytes.Count(side, []byte{canary}) != margin {
				t.Fatalf("call %d wrote outside of its memory", played)
			}
		}
	}
	t.Logf("%d calls, of which the library took %d", played, taken)
}

// Both handles of a call that traps are poisoned.
func TestTrapPoisonsBothHandles(t *testing.T) {
	var audit *Audit
	var tracker *LeakTracker
	var pass *RepairPass
	var report *Report
	var details Error
	for _, result := range []Result{
		LeakTrackerNew(3, 1, false, &tracker, &details), RepairPassNew(tracker, &pass), RepairPassAudit(pass, false, nil, &audit, &details),
	} {
		if result != ResultOK {
			t.Fatal(result, details.Message)
		}
	}
	restore := outsideMemory(tracker.in)
	result := RepairPassFinish(pass, audit, &report, &details)
	restore()
	if result != ResultPanic || report != nil {
		t.Fatal(result, report)
	}
	if result := AuditObserveServices(audit, nil, new(Services), &details); result != ResultPoisoned {
		t.Error(result)
	}
	if result := RepairPassFinish(pass, audit, &report, &details); result != ResultPoisoned {
		t.Error(result)
	}
	if result := RepairPassAudit(pass, false, nil, &audit, &details); result != ResultPoisoned {
		t.Error(result)
	}
}

// The memory of freed handles is used again, also that of those that share an instance.
func TestMemoryIsUsedAgain(t *testing.T) {
	large := newAllocator(t, "10.0.0.0/12")
	small := newAllocator(t, "10.0.0.0/16")
	for _, a := range []*Allocator{large, small} {
		for round := range 3 {
			before := len(*a.in.memory)
			for range 1000 {
				var other *Allocator
				if result := AllocatorDryRun(a, &other); result != ResultOK {
					t.Fatal(result)
				}
				AllocatorFree(other)
			}
			if after := len(*a.in.memory); round > 0 && after != before {
				t.Errorf("%d bytes grew to %d although each handle was freed", before, after)
			}
		}
		if a.in.objects != 1 && a == large {
			t.Errorf("%d objects", a.in.objects)
		}
	}
}

// A committer never waits for a repair pass, which waits for no other of another server.
func TestCommittersAndPassesAreApart(t *testing.T) {
	var details Error
	committer := func() *Committer {
		var r Range
		var c *Committer
		for _, result := range []Result{
			RangeParse("10.0.0.0/24", RangeKindCIDR, &r, &details), CommitterNew(&r, StrategyContiguous, 1, ReplaceAlways, 1, &c, &details),
		} {
			if result != ResultOK {
				t.Fatal(result, details.Message)
			}
		}
		return c
	}
	ours, others := committer(), committer()
	var passes [2]*RepairPass
	var audit *Audit
	for i := range passes {
		var tracker *LeakTracker
		for _, result := range []Result{LeakTrackerNew(3, 1, false, &tracker, &details), RepairPassNew(tracker, &passes[i])} {
			if result != ResultOK {
				t.Fatal(result, details.Message)
			}
		}
	}
	if result := RepairPassBegin(passes[0], ours, &details); result != ResultOK {
		t.Fatal(result, details.Message)
	}
	if result := AuditNew(nil, false, nil, &audit); result != ResultOK {
		t.Fatal(result)
	}
	instances := map[*instance]bool{ours.in: true, others.in: true, passes[0].in: true, passes[1].in: true, audit.in: true}
	if len(instances) != 5 {
		t.Errorf("%d instances", len(instances))
	}
}

// What is closed or forgotten leaves no memory behind.
func TestMemoryGoesBack(t *testing.T) {
	heap := func() int {
		var stats runtime.MemStats
		for range 3 { // a pool keeps what it has for one collection
			// The goroutines that run cleanups may get no turn between two collections on a busy machine.
			ran := make(chan struct{})
			runtime.AddCleanup(new([4]uintptr), func(ran chan struct{}) { close(ran) }, ran)
			runtime.GC()
			<-ran
		}
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	const most = 16 << 20
	before := heap()
	for range 200_000 {
		AllocatorFree(newAllocator(t, "10.0.0.0/24"))
	}
	if more := heap() - before; more > most {
		t.Errorf("200,000 allocators of a /24 that were closed left %d bytes", more)
	}
	for range 2_000 {
		newAllocator(t, "10.0.0.0/12")
	}
	if more := heap() - before; more > most {
		t.Errorf("2,000 forgotten allocators of a /12 left %d bytes", more)
	}
	var all []*Allocator
	for range 100 {
		all = append(all, newAllocator(t, "10.0.0.0/12"))
	}
	if each := (heap() - before) / len(all); each > 300<<10 {
		t.Errorf("an allocator of a /12 takes %d bytes", each)
	}
	runtime.KeepAlive(all)
}

// Large objects have an instance each, small ones share some, and none stays in an instance that nobody refers to.
func TestPlaces(t *testing.T) {
	large, other := newAllocator(t, "10.0.0.0/12"), newAllocator(t, "10.0.0.0/12")
	if large.in == other.in || !large.alone {
		t.Error("two large objects share an instance")
	}
	var dryRun *Allocator
	if result := AllocatorDryRun(large, &dryRun); result != ResultOK || dryRun.in != large.in || dryRun.alone {
		t.Error(result, "a dry run is elsewhere than its allocator, or is not freed")
	}
	var used uint32
	if AllocatorFree(large); AllocatorUsed(dryRun, &used) != ResultOK {
		t.Error("a dry run has lost its memory")
	}
	if AllocatorFree(dryRun); large.in.objects != 0 {
		t.Errorf("%d objects are left", large.in.objects)
	}
	again := map[*instance]bool{}
	for range 100 {
		a := newAllocator(t, "10.0.0.0/12")
		again[a.in] = true
		AllocatorFree(a)
	}
	// The race detector has a pool lose some.
	if len(again) > 90 {
		t.Errorf("100 allocators one after the other had %d instances", len(again))
	}
	const count = 10 * smallObjects * len(smallInstances)
	in := map[*instance]int{}
	var all []*Allocator
	for range count {
		a := newAllocator(t, "10.0.0.0/24")
		in[a.in]++
		all = append(all, a)
	}
	for i, n := range in {
		if n > smallObjects || len(*i.memory) > smallMemory+pageSize {
			t.Errorf("%d objects in %d bytes", n, len(*i.memory))
		}
	}
	if most := count/smallObjects + len(smallInstances); len(in) > most {
		t.Errorf("%d objects in %d instances, expected at most %d", count, len(in), most)
	}
	if all[0].in == all[1].in {
		t.Error("two objects that were made one after the other share an instance")
	}
	for _, a := range all {
		AllocatorFree(a)
	}
	for i := range in {
		if i.objects != 0 && i.objects != 1 { // that of another test
			t.Errorf("%d objects are left", i.objects)
		}
	}
}

// No call of the tests goes deep into the stack: this one has the most frames. What lies below is 0 as long as nothing
// was there.
func TestStack(t *testing.T) {
	nested := func(n int) string {
		return `{"kind":"RangeAllocation","apiVersion":"v1","a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	var object *RangeAllocation
	var details Error
	if result := RangeAllocationDecode([]byte(nested(1000)), &object, &details); result != ResultOK {
		t.Fatal(result, details.Message)
	}
	const pool = `{"range":"0-18446744073709551615","choice":"Random"}`
	var ledger, opened *Ledger
	if result := LedgerNew(pool, nil, 1, &ledger, &details); result != ResultOK {
		t.Fatal(result, details.Message)
	}
	var n uint
	made, stored := make([]LedgerAllocation, 1), make([]byte, 1<<20)
	for i := range 3000 {
		change := LedgerChange{Kind: LedgerChangeAllocateBlock, N: uint32(i % 4)}
		if result := LedgerApply(ledger, &change, fmt.Sprint(i), 1, made, &n, &details); result != ResultOK {
			t.Fatal(result, details.Message)
		}
	}
	if result := LedgerEncode(ledger, stored, &n); result != ResultOK {
		t.Fatal(result)
	}
	if result := LedgerNew(pool, stored[:n], 1, &opened, &details); result != ResultOK {
		t.Fatal(result, details.Message)
	}
	if result := LedgerAudit(opened, `{"owners":[],"passes":3}`, make([]byte, 1<<20), &n, &details); result != ResultOK {
		t.Fatal(result, details.Message)
	}
	for _, in := range []*instance{object.in, ledger.in, opened.in} {
		if unused := bytes.IndexFunc(*in.memory, func(r rune) bool { return r != 0 }); unused < 8<<10 {
			t.Errorf("%d bytes of the stack are unused", unused)
		}
	}
}

// Arguments that are larger than those of earlier calls get memory of their own.
func TestLargeArguments(t *testing.T) {
	a := newAllocator(t, "10.0.0.0/8")
	defer AllocatorFree(a)
	data := make([]byte, 1<<21)
	data[len(data)-1] = 1
	var details Error
	for range 3 {
		if result := AllocatorRestore(a, "10.0.0.0/8", data, &details); result != ResultOK {
			t.Fatal(result, details.Message)
		}
	}
	var used uint32
	if result := AllocatorUsed(a, &used); result != ResultOK || used != 1 {
		t.Error(result, used)
	}
	before := len(*a.in.memory)
	for range 100 {
		AllocatorRestore(a, "10.0.0.0/8", data, &details)
	}
	if after := len(*a.in.memory); after != before {
		t.Errorf("%d bytes grew to %d", before, after)
	}
}

// No argument lies beyond the memory for arguments, wherever the one before it ends.
func TestArgumentsEnd(t *testing.T) {
	i := newCore()
	for rest := range uint32(20) {
		c := call{instance: i}
		c.enter(nil)
		c.allocate(c.argumentsEnd-c.next-rest, 1)
		at := c.allocate(8, 8)
		if within := at >= c.arguments && at+8 <= c.argumentsEnd; !within && c.blocks != at-blockHeader || at%8 != 0 {
			t.Errorf("with %d bytes left the next argument is at %d, not in %d to %d", rest, at, c.arguments, c.argumentsEnd)
		}
		c.done = true
		c.leave(new(Result))
	}
}
