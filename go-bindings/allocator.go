package rangekeeper

import (
	"iter"
	"runtime"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Strategy is how the next free value is chosen.
type Strategy uint8

const (
	// Contiguous takes the lowest free value.
	Contiguous Strategy = iota
	// RandomScan takes the first free value from a random one on, with wrap.
	RandomScan
	// DynamicBandFirst scans the dynamic band so, and only if that is full the static band.
	DynamicBandFirst
)

// constantToC returns the number in C of a constant, where first is that of 0: no two kinds of constants have one in
// common. What is above the last constant is unknown, and stays as it is.
func constantToC[E ~uint8](value, last E, first uint32) uint32 {
	if value > last {
		return uint32(value)
	}
	return first + uint32(value)
}

// How many items cross the border at once where there may be many.
const (
	valuesPerPage = 1024
	runsPerPage   = 256
)

// Allocator says which values of a range are in use and hands out free ones.
//
// All methods may be called from several goroutines at once. Memory: one bit per value, and in pure Go that of an
// instance (docs/go.md). With the library in C the garbage collector does not see how much is used: Close an Allocator
// that is not needed any more.
type Allocator struct {
	inner *object[*rk.Allocator]
	r     Range
}

// NewAllocator makes an allocator with nothing in use. The seed alone decides the random choices.
func NewAllocator(r Range, strategy Strategy, seed uint64) (*Allocator, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	var handle *rk.Allocator
	var details rk.Error
	code := rk.AllocatorNew(r.pointer(), constantToC(strategy, DynamicBandFirst, rk.StrategyContiguous), seed, &handle, &details)
	if code != rk.ResultOK {
		return nil, detailedError(code, &details)
	}
	return ownAllocator(handle, r), nil
}

func ownAllocator(handle *rk.Allocator, r Range) *Allocator {
	return &Allocator{own(handle, rk.AllocatorFree), r}
}

func (a *Allocator) pointer() *rk.Allocator {
	if a == nil {
		return nil
	}
	return a.inner.pointer()
}

// Range returns the range, also after Close.
func (a *Allocator) Range() Range {
	if a == nil {
		return Range{}
	}
	return a.r
}

// Close drops the state. It may be called again and beside other calls.
func (a *Allocator) Close() error {
	rk.AllocatorFree(a.pointer())
	runtime.KeepAlive(a)
	return nil
}

// Allocate allocates value. The error is a *ValueError: ErrAlreadyAllocated or ErrNotInRange.
func (a *Allocator) Allocate(value Value) error {
	code := rk.AllocatorAllocate(a.pointer(), value.toC())
	runtime.KeepAlive(a)
	if code != rk.ResultOK {
		return valueError(code, value, a.Range())
	}
	return nil
}

// AllocateNext allocates a free value that the strategy picks. The error is a *ValueError: ErrFull.
func (a *Allocator) AllocateNext() (Value, error) {
	var value rk.Value
	code := rk.AllocatorAllocateNext(a.pointer(), &value)
	runtime.KeepAlive(a)
	if code != rk.ResultOK {
		return Value{}, valueError(code, Value{}, a.Range())
	}
	return valueFromC(&value), nil
}

// Release releases value and reports whether it was in use. To release a value that is free or not in the range is no
// error.
func (a *Allocator) Release(value Value) (wasUsed bool, err error) {
	var used bool
	code := rk.AllocatorRelease(a.pointer(), value.toC(), &used)
	runtime.KeepAlive(a)
	return used, resultError(code)
}

// Has reports whether value is in use; false for a value that is not in the range.
func (a *Allocator) Has(value Value) bool {
	var has bool
	rk.AllocatorHas(a.pointer(), value.toC(), &has)
	runtime.KeepAlive(a)
	return has
}

// Used returns the number of values in use.
func (a *Allocator) Used() int {
	var count uint32
	rk.AllocatorUsed(a.pointer(), &count)
	runtime.KeepAlive(a)
	return int(count)
}

// Free returns the number of free values.
func (a *Allocator) Free() int {
	var used uint32
	code := rk.AllocatorUsed(a.pointer(), &used)
	runtime.KeepAlive(a)
	if code != rk.ResultOK {
		return 0
	}
	return int(a.r.Size() - used)
}

// Request is one part of an all-or-nothing batch; the zero Request is Any.
type Request struct {
	value Value
	named bool
}

// Named requests this value.
func Named(value Value) Request { return Request{value: value, named: true} }

// Any requests any free value; the strategy picks it.
func Any() Request { return Request{} }

func requestsToC(requests []Request) []rk.Value {
	all := make([]rk.Value, len(requests))
	for i, request := range requests {
		if request.named {
			all[i] = *request.value.toC()
		} else {
			all[i].Kind = rk.ValueKindAny
		}
	}
	return all
}

// batchError returns the error of an all-or-nothing batch.
func batchError(code rk.Result, requests []Request, details *rk.Error, r Range) error {
	index, ok := detailRequest(details)
	if !ok {
		return detailedError(code, details)
	}
	return &BatchError{Index: index, Err: valueError(code, requests[index].value, r)}
}

// AllocateBatch serves all requests or none, in one crossing. Named values are taken first, so that a random pick never
// stands in the way of a later name; the values come back in the order of the requests. The error is a *BatchError
// around a *ValueError.
func (a *Allocator) AllocateBatch(requests []Request) ([]Value, error) {
	asked, got := requestsToC(requests), make([]rk.Value, len(requests))
	var details rk.Error
	code := rk.AllocatorAllocateBatch(a.pointer(), asked, got, &details)
	runtime.KeepAlive(a)
	if code != rk.ResultOK {
		return nil, batchError(code, requests, &details, a.Range())
	}
	return valuesFromC(got), nil
}

// All returns the values that were in use at one moment, when the sequence was begun, ascending. On a closed allocator
// it is empty. Cost: one crossing, a copy of the bitmap, and some 3 ns per value.
func (a *Allocator) All() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		snapshot, err := a.Snapshot(nil)
		if first, ok := a.Range().ValueAt(0); ok && err == nil {
			yieldMembers(first, snapshot, yield)
		}
	}
}

// Snapshot returns the values in use as they are stored: one big-endian integer without leading zeros, bit n being
// offset n. It replaces the content of dst and reuses its capacity.
func (a *Allocator) Snapshot(dst []byte) ([]byte, error) {
	// Not by readBytes: the length would move to the heap.
	var length uint
	for {
		code := rk.AllocatorSnapshot(a.pointer(), dst[:cap(dst)], &length)
		runtime.KeepAlive(a)
		switch code {
		case rk.ResultOK:
			return dst[:length], nil
		case rk.ResultBufferTooSmall:
			dst = make([]byte, length)
		default:
			return nil, resultError(code)
		}
	}
}

// Restore replaces the values in use by those of a stored snapshot. Nothing is changed if that fails. Errors:
// *MismatchedRangeError, *BitsPastRangeError.
func (a *Allocator) Restore(rangeText string, data []byte) error {
	var details rk.Error
	code := rk.AllocatorRestore(a.pointer(), rangeText, data, &details)
	runtime.KeepAlive(a)
	if code != rk.ResultOK {
		return snapshotError(code, &details, a.Range().String(), rangeText)
	}
	return nil
}

// DryRun returns an allocator of its own in the same state: it answers as this one would and changes nothing here.
// Cost: a copy of the bitmap.
func (a *Allocator) DryRun() (*Allocator, error) {
	var handle *rk.Allocator
	code := rk.AllocatorDryRun(a.pointer(), &handle)
	runtime.KeepAlive(a)
	if code != rk.ResultOK {
		return nil, resultError(code)
	}
	return ownAllocator(handle, a.r), nil
}
