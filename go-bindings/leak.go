package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// LeakCounters says of each value in how many passes in a row it was leaked: allocated though nobody uses it. Between an
// allocation and the write of its Service that is normal, so a leak is cleaned only when it was seen several times.
//
// A counter lives only while its value stays leaked without a break. All methods may be called from several goroutines
// at once.
type LeakCounters struct {
	inner *owned[*C.rk_leak_counters]
	r     Range
}

// NewLeakCounters makes counters at 0; a leak is due in the pass that sees it for the passes-th time in a row (3 in
// Kubernetes, at least 1).
func NewLeakCounters(r Range, passes uint8) (*LeakCounters, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	var handle *C.rk_leak_counters
	var details C.rk_error
	code := C.rk_leak_counters_new(r.pointer(), C.uint8_t(passes), &handle, &details)
	runtime.KeepAlive(r.inner)
	if code != C.RK_RESULT_OK {
		return nil, detailedError(code, &details)
	}
	return &LeakCounters{own(handle, func(c *C.rk_leak_counters) { C.rk_leak_counters_free(c) }), r}, nil
}

func (c *LeakCounters) pointer() *C.rk_leak_counters {
	if c == nil {
		return nil
	}
	return c.inner.pointer()
}

// Close drops the counters. It may be called again and beside other calls.
func (c *LeakCounters) Close() error {
	C.rk_leak_counters_close(c.pointer())
	runtime.KeepAlive(c)
	return nil
}

// Advance counts a pass that saw exactly the values of leaked, and returns those, ascending, that are due to be cleaned;
// their counters are 0 again. A value that is not in range is an error, and nothing is counted.
func (c *LeakCounters) Advance(leaked []Value) (due []Value, err error) {
	seen, spent := valuesToC(leaked), make([]C.rk_value, len(leaked))
	var n C.size_t
	code := C.rk_leak_counters_advance(c.pointer(), unsafe.SliceData(seen), C.size_t(len(seen)), unsafe.SliceData(spent), C.size_t(len(spent)), &n)
	runtime.KeepAlive(c)
	switch code {
	case C.RK_RESULT_OK:
		return valuesFromC(spent[:n]), nil
	case C.RK_RESULT_NOT_IN_RANGE:
		return nil, outsideError(c.r, leaked)
	default:
		return nil, resultError(code)
	}
}

// Count returns in how many passes in a row value was leaked, the last one included; 0 for a value that is not in the range.
func (c *LeakCounters) Count(value Value) int {
	var count C.uint8_t
	C.rk_leak_counters_count(c.pointer(), value.toC(), &count)
	runtime.KeepAlive(c)
	return int(count)
}

// Reset sets all counters to 0, as after a restore from a backup.
func (c *LeakCounters) Reset() error {
	code := C.rk_leak_counters_reset(c.pointer())
	runtime.KeepAlive(c)
	return resultError(code)
}
