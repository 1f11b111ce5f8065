package rangekeeper

import (
	"runtime"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// LeakCounters says of each value in how many passes in a row it was leaked: allocated though nobody uses it. Between
// an allocation and the write of its Service that is normal, so a leak is cleaned only when it was seen several times.
//
// A counter lives only while its value stays leaked without a break. All methods may be called from several goroutines
// at once.
type LeakCounters struct {
	inner *object[*rk.LeakCounters]
	r     Range
}

// NewLeakCounters makes counters at 0; a leak is due in the pass that sees it for the passes-th time in a row (3 in
// Kubernetes, at least 1).
func NewLeakCounters(r Range, passes uint8) (*LeakCounters, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	var handle *rk.LeakCounters
	var details rk.Error
	code := rk.LeakCountersNew(r.pointer(), passes, &handle, &details)
	if code != rk.ResultOK {
		return nil, detailedError(code, &details)
	}
	return &LeakCounters{own(handle, rk.LeakCountersFree), r}, nil
}

func (c *LeakCounters) pointer() *rk.LeakCounters {
	if c == nil {
		return nil
	}
	return c.inner.pointer()
}

// Close drops the counters. It may be called again and beside other calls.
func (c *LeakCounters) Close() error {
	rk.LeakCountersFree(c.pointer())
	runtime.KeepAlive(c)
	return nil
}

// Advance counts a pass that saw exactly the values of leaked, and returns those, ascending, that are due to be
// cleaned; their counters are 0 again. A value that is not in range is an error, and nothing is counted.
func (c *LeakCounters) Advance(leaked []Value) (due []Value, err error) {
	seen, spent := valuesToC(leaked), make([]rk.Value, len(leaked))
	var n uint
	code := rk.LeakCountersAdvance(c.pointer(), seen, spent, &n)
	runtime.KeepAlive(c)
	switch code {
	case rk.ResultOK:
		return valuesFromC(spent[:n]), nil
	case rk.ResultNotInRange:
		return nil, outsideError(c.r, leaked)
	default:
		return nil, resultError(code)
	}
}

// Count returns in how many passes in a row value was leaked, the last one included; 0 for a value that is not in the
// range.
func (c *LeakCounters) Count(value Value) int {
	var count uint8
	rk.LeakCountersCount(c.pointer(), value.toC(), &count)
	runtime.KeepAlive(c)
	return int(count)
}
