package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"iter"
	"math"
	"runtime"
	"unsafe"
)

// Strategy is how the next free value is chosen.
type Strategy int

const (
	// Contiguous takes the lowest free value.
	Contiguous Strategy = C.RK_STRATEGY_CONTIGUOUS
	// RandomScan takes the first free value from a random one on, with wrap.
	RandomScan Strategy = C.RK_STRATEGY_RANDOM_SCAN
	// DynamicBandFirst scans the dynamic band so, and only if that is full the static band.
	DynamicBandFirst Strategy = C.RK_STRATEGY_DYNAMIC_BAND_FIRST
)

// toC gives the library's number; for one that does not fit, a number that the library refuses.
func (s Strategy) toC() C.uint32_t {
	if s < 0 || int64(s) > math.MaxUint32 {
		return math.MaxUint32
	}
	return C.uint32_t(s)
}

// How many items cross the border at once where there may be many.
const (
	valuesPerPage = 1024
	runsPerPage   = 256
)

// Allocator says which values of a range are in use and hands out free ones.
//
// All methods may be called from several goroutines at once. Memory: one bit per value, outside the Go heap, so that
// the garbage collector does not see its size: Close an Allocator that is not needed any more.
//
// After Close, and of a zero value, every method gives ErrClosed.
type Allocator[V Value] struct {
	inner *owned[*C.rk_allocator]
	r     Range[V]
}

// NewAllocator makes an allocator with nothing in use. The seed alone decides the random choices.
func NewAllocator[V Value](r Range[V], strategy Strategy, seed uint64) (*Allocator[V], error) {
	var handle *C.rk_allocator
	code := C.rk_allocator_new(r.pointer(), strategy.toC(), C.uint64_t(seed), &handle)
	runtime.KeepAlive(r.inner)
	if code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return ownAllocator(handle, r), nil
}

func ownAllocator[V Value](handle *C.rk_allocator, r Range[V]) *Allocator[V] {
	return &Allocator[V]{own(handle, func(c *C.rk_allocator) { C.rk_allocator_free(c) }), r}
}

func (a *Allocator[V]) pointer() *C.rk_allocator {
	if a == nil {
		return nil
	}
	return a.inner.pointer()
}

// Range gives the range, also after Close.
func (a *Allocator[V]) Range() Range[V] {
	if a == nil {
		return Range[V]{}
	}
	return a.r
}

// Close drops the state. It may be called again and beside other calls.
func (a *Allocator[V]) Close() error {
	C.rk_allocator_close(a.pointer())
	runtime.KeepAlive(a)
	return nil
}

// Allocate takes value. Errors: ErrAlreadyAllocated, *NotInRangeError.
func (a *Allocator[V]) Allocate(value V) error {
	given := toC(value)
	code := C.rk_allocator_allocate(a.pointer(), &given)
	runtime.KeepAlive(a)
	if code != C.RK_RESULT_OK {
		return valueError(code, value, a.Range())
	}
	return nil
}

// AllocateNext takes a free value, chosen by the strategy. Error: ErrFull.
func (a *Allocator[V]) AllocateNext() (V, error) {
	var value C.rk_value
	code := C.rk_allocator_allocate_next(a.pointer(), &value)
	runtime.KeepAlive(a)
	if code != C.RK_RESULT_OK {
		var none V
		return none, resultError(code)
	}
	return fromC[V](&value), nil
}

// Release gives value back and says whether it was in use. A value that is free or not in range is no error.
func (a *Allocator[V]) Release(value V) (wasUsed bool, err error) {
	var used C.bool
	given := toC(value)
	code := C.rk_allocator_release(a.pointer(), &given, &used)
	runtime.KeepAlive(a)
	return bool(used), resultError(code)
}

// Has says whether value is in use; false for what is not in range.
func (a *Allocator[V]) Has(value V) (bool, error) {
	var has C.bool
	given := toC(value)
	code := C.rk_allocator_has(a.pointer(), &given, &has)
	runtime.KeepAlive(a)
	return bool(has), resultError(code)
}

// Used says how many values are in use.
func (a *Allocator[V]) Used() (int, error) {
	var count C.uint32_t
	code := C.rk_allocator_used(a.pointer(), &count)
	runtime.KeepAlive(a)
	return int(count), resultError(code)
}

// Free says how many values are free.
func (a *Allocator[V]) Free() (int, error) {
	var count C.uint32_t
	code := C.rk_allocator_available(a.pointer(), &count)
	runtime.KeepAlive(a)
	return int(count), resultError(code)
}

// Request is one part of an all-or-nothing batch; the zero value is that of Next.
type Request[V Value] struct {
	value V
	named bool
}

// This asks for this very value.
func This[V Value](value V) Request[V] { return Request[V]{value: value, named: true} }

// Next asks for any free value, chosen by the strategy.
func Next[V Value]() Request[V] { return Request[V]{} }

func requestsToC[V Value](requests []Request[V]) []C.rk_value {
	all := make([]C.rk_value, len(requests))
	for i, request := range requests {
		if request.named {
			all[i] = toC(request.value)
		} else {
			all[i].kind = C.RK_VALUE_KIND_ANY
		}
	}
	return all
}

// batchError gives the error of an all-or-nothing batch.
func batchError[V Value](code C.rk_result, requests []Request[V], details *C.rk_error, r Range[V]) error {
	index, ok := detailRequest(details)
	if !ok {
		return resultError(code)
	}
	return &BatchError{Index: index, Err: valueError(code, requests[index].value, r)}
}

// AllocateBatch serves all requests or none, in one crossing. Named values are taken first, so that a random pick never
// stands in the way of a later name; the values come back in the order of the requests. The error is a *BatchError
// around ErrFull, ErrAlreadyAllocated or a *NotInRangeError.
func (a *Allocator[V]) AllocateBatch(requests []Request[V]) ([]V, error) {
	asked, got := requestsToC(requests), make([]C.rk_value, len(requests))
	var details C.rk_error
	code := C.rk_allocator_allocate_batch(a.pointer(), unsafe.SliceData(asked), C.size_t(len(asked)), unsafe.SliceData(got), &details)
	runtime.KeepAlive(a)
	if code != C.RK_RESULT_OK {
		return nil, batchError(code, requests, &details, a.Range())
	}
	return allFromC[V](got), nil
}

// HasBatch says for each of values whether it is in use, in one crossing. It replaces the content of dst and reuses its
// capacity.
func (a *Allocator[V]) HasBatch(dst []bool, values []V) ([]bool, error) {
	all := allToC(values)
	if cap(dst) < len(values) {
		dst = make([]bool, len(values))
	}
	dst = dst[:len(values)]
	code := C.rk_allocator_has_batch(a.pointer(), unsafe.SliceData(all), C.size_t(len(all)), (*C.bool)(unsafe.SliceData(dst)))
	runtime.KeepAlive(a)
	if code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return dst, nil
}

// All gives the values that were in use at one moment, when the sequence was begun, ascending. On a closed allocator it
// is empty. Cost: one crossing, a copy of the bitmap, and some 3 ns per value.
func (a *Allocator[V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		snapshot, err := a.Snapshot(nil)
		if first, ok := a.Range().ValueAt(0); ok && err == nil {
			yieldMembers(first, snapshot, yield)
		}
	}
}

// UsedRuns gives the runs of values in use, ascending, some hundred per crossing.
//
// The allocator may change meanwhile: a value that was in use all the time is in one of the runs, one that never was is
// not. On a closed allocator the sequence is empty, and it ends early if it is closed meanwhile.
func (a *Allocator[V]) UsedRuns() iter.Seq[Run[V]] { return a.runs(true) }

// FreeRuns gives the runs of free values, ascending; for changes meanwhile see UsedRuns.
func (a *Allocator[V]) FreeRuns() iter.Seq[Run[V]] { return a.runs(false) }

func (a *Allocator[V]) runs(used bool) iter.Seq[Run[V]] {
	return func(yield func(Run[V]) bool) {
		read := func(from C.uint32_t, page *C.rk_run, capacity C.size_t, n *C.size_t, next *C.uint32_t) C.rk_result {
			return C.rk_allocator_runs(a.pointer(), C.bool(used), from, page, capacity, n, next)
		}
		readPages(runsPerPage, read, func(page []C.rk_run) bool {
			for i := range page {
				run := &page[i]
				if !yield(Run[V]{fromC[V](&run.first), fromC[V](&run.last), uint64(run.len)}) {
					return false
				}
			}
			return true
		})
		runtime.KeepAlive(a)
	}
}

// Snapshot gives the values in use as they are stored: one big-endian integer without leading zeros, bit n being offset
// n. It replaces the content of dst and reuses its capacity.
func (a *Allocator[V]) Snapshot(dst []byte) ([]byte, error) {
	// Not by readBytes: the length would move to the heap.
	var length C.size_t
	for {
		code := C.rk_allocator_snapshot(a.pointer(), cBytes(dst), C.size_t(cap(dst)), &length)
		runtime.KeepAlive(a)
		switch code {
		case C.RK_RESULT_OK:
			return dst[:length], nil
		case C.RK_RESULT_BUFFER_TOO_SMALL:
			dst = make([]byte, length)
		default:
			return nil, resultError(code)
		}
	}
}

// Restore replaces what is in use by a stored snapshot. Nothing is changed if that fails. Errors:
// *MismatchedRangeError, *BitsPastRangeError.
func (a *Allocator[V]) Restore(rangeText string, data []byte) error {
	var details C.rk_error
	code := C.rk_allocator_restore(a.pointer(), cText(rangeText), C.size_t(len(rangeText)), cBytes(data), C.size_t(len(data)), &details)
	runtime.KeepAlive(a)
	if code != C.RK_RESULT_OK {
		return snapshotError(code, &details, a.Range().String(), rangeText)
	}
	return nil
}

// DryRun gives an allocator of its own in the same state: it answers as this one would and changes nothing here. Cost:
// a copy of the bitmap.
func (a *Allocator[V]) DryRun() (*Allocator[V], error) {
	var handle *C.rk_allocator
	code := C.rk_allocator_dry_run(a.pointer(), &handle)
	runtime.KeepAlive(a)
	if code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return ownAllocator(handle, a.r), nil
}
