//go:build !(cgo && (rangekeeper_native || rangekeeper_dynamic))

package rk

import (
	"runtime"
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

// outsideMemory lets the next calls trap where the library writes an answer.
func outsideMemory() (restore func()) {
	first, end := coreInstance.arguments, coreInstance.argumentsEnd
	coreInstance.arguments, coreInstance.argumentsEnd = maximalSize-2*pageSize, maximalSize-pageSize
	return func() { coreInstance.arguments, coreInstance.argumentsEnd = first, end }
}

// The call traps where the library writes its answer, when the value is taken already.
func TestTrapPoisonsTheHandle(t *testing.T) {
	trapped, other := newAllocator(t, "10.0.0.0/24"), newAllocator(t, "10.0.0.0/24")
	stack := *coreInstance.stack
	restore := outsideMemory()
	var value Value
	result := AllocatorAllocateNext(trapped, &value)
	restore()
	if result != ResultPanic {
		t.Fatal(result)
	}
	if value != (Value{}) {
		t.Error("the result was written", value)
	}
	if now := *coreInstance.stack; now != stack {
		t.Errorf("the stack pointer is %d, was %d", now, stack)
	}
	var used uint32
	for range 2 {
		if result := AllocatorUsed(trapped, &used); result != ResultPoisoned {
			t.Error(result)
		}
	}
	if result := AllocatorClose(trapped); result != ResultOK {
		t.Error(result)
	}
	if result := AllocatorUsed(trapped, &used); result != ResultClosed {
		t.Error(result)
	}
	AllocatorFree(trapped)
	if result := AllocatorAllocateNext(other, &value); result != ResultOK || value.Low != 0x0a000001 {
		t.Error(result, value)
	}
	AllocatorFree(other)
}

// Both handles of a call that traps are poisoned.
func TestTrapPoisonsBothHandles(t *testing.T) {
	var audit *Audit
	var tracker *LeakTracker
	var report *Report
	var details Error
	if result := LeakTrackerNew(3, 1, false, &tracker, &details); result != ResultOK {
		t.Fatal(result)
	}
	if result := AuditNew(false, nil, &audit); result != ResultOK {
		t.Fatal(result)
	}
	restore := outsideMemory()
	result := AuditFinish(audit, tracker, &report, &details)
	restore()
	if result != ResultPanic || report != nil {
		t.Fatal(result, report)
	}
	if result := AuditObserveServices(audit, nil, new(Services), &details); result != ResultPoisoned {
		t.Error(result)
	}
	var pass *RepairPass
	if result := RepairPassNew(tracker, &pass); result != ResultPoisoned {
		t.Error(result)
	}
}

func TestMemoryIsUsedAgain(t *testing.T) {
	size := func() int { return len(*coreInstance.memory) }
	open := func() *Allocator { return newAllocator(t, "10.0.0.0/12") }
	for range 4 {
		a := open()
		AllocatorClose(a)
		AllocatorFree(a)
	}
	before := size()
	for range 1000 { // 128 KiB each
		AllocatorFree(open())
	}
	if after := size(); after != before {
		t.Errorf("%d bytes grew to %d although each handle was freed", before, after)
	}
	var closed []*Allocator
	for range 1000 {
		a := open()
		AllocatorClose(a)
		closed = append(closed, a)
	}
	if after := size(); after > before+16*pageSize {
		t.Errorf("%d bytes grew to %d although each handle was closed", before, after)
	}
	runtime.KeepAlive(closed)
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
	before := len(*coreInstance.memory)
	for range 100 {
		AllocatorRestore(a, "10.0.0.0/8", data, &details)
	}
	if after := len(*coreInstance.memory); after != before {
		t.Errorf("%d bytes grew to %d", before, after)
	}
}

// No argument lies beyond the memory for arguments, wherever the one before it ends.
func TestArgumentsEnd(t *testing.T) {
	first, end := coreInstance.arguments, coreInstance.argumentsEnd
	for rest := range uint32(20) {
		coreInstance.arguments, coreInstance.argumentsEnd = end-64, end
		c := call{instance: coreInstance}
		c.enter()
		c.allocate(c.argumentsEnd-c.next-rest, 1)
		at := c.allocate(8, 8)
		if at < c.arguments || at+8 > c.argumentsEnd {
			t.Errorf("with %d bytes left the next argument is at %d, not in %d to %d", rest, at, c.arguments, c.argumentsEnd)
		}
		c.done = true
		c.leave(new(Result))
	}
	coreInstance.arguments, coreInstance.argumentsEnd = first, end
}

func TestNothingButTheSizeOfArguments(t *testing.T) {
	a := newAllocator(t, "10.0.0.0/24")
	defer AllocatorFree(a)
	c := call{instance: coreInstance, first: (*object)(a)}
	tooLarge := func() (result Result) {
		if result = c.enter(); result != ResultOK {
			return result
		}
		defer c.leave(&result)
		c.allocateMany(1<<30, 24, 8)
		return ResultOK
	}
	for range 2 {
		if result := tooLarge(); result != ResultInvalidArgument {
			t.Error(result)
		}
	}
}
