package rangekeeper

import (
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Passes are the memory of a server's repair passes: the leak counters of all ranges, and when they may advance.
//
// [Passes.Start] starts a [Pass] over the objects of committers. Without committers every audit counts, and
// [Passes.NewAudit] is all that is needed.
//
// They may be used from several goroutines at once.
type Passes struct {
	inner *owned[*rk.LeakTracker]
}

// NewPasses makes counters at 0; a leak is cleaned in the pass that sees it for the passes-th time in a row (3 in
// Kubernetes, at least 1). With committers, counters advance only if passes are at least 0.9 of interval apart and the
// value was in use all the time between.
func NewPasses(passes uint8, interval time.Duration) (*Passes, error) {
	return newPasses(passes, interval, false)
}

// NewPassesKeepingLeaks makes counters that keep leaks: passes clear only what a bitmap beside IPAddress objects records
// alone ([ReasonBitmapDisagrees]), in the pass that sees it for the passes-th time in a row. An API server refuses such an
// address.
func NewPassesKeepingLeaks(passes uint8, interval time.Duration) (*Passes, error) {
	return newPasses(passes, interval, true)
}

func newPasses(passes uint8, interval time.Duration, keepsLeaks bool) (*Passes, error) {
	var handle *rk.LeakTracker
	var details rk.Error
	if code := rk.LeakTrackerNew(passes, timeToC(interval), keepsLeaks, &handle, &details); code != rk.ResultOK {
		return nil, detailedError(code, &details)
	}
	return &Passes{own(handle, rk.LeakTrackerFree)}, nil
}

func (p *Passes) pointer() *rk.LeakTracker {
	if p == nil {
		return nil
	}
	return p.inner.pointer()
}

// Close drops the counters. It may be called again and beside other calls.
func (p *Passes) Close() error {
	rk.LeakTrackerClose(p.pointer())
	runtime.KeepAlive(p)
	return nil
}
