package rangekeeper

import (
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// LeakTracker is the memory of a server's repair passes: the leak counters of all ranges, and when they may advance.
//
// [LeakTracker.Start] starts a [RepairPass] over the objects of committers. Without committers every audit counts, and
// [LeakTracker.NewAudit] is all that is needed.
//
// They may be used from several goroutines at once.
type LeakTracker struct {
	inner *object[*rk.LeakTracker]
}

// NewLeakTracker makes counters at 0; a leak is cleaned in the pass that sees it for the passes-th time in a row (3 in
// Kubernetes, at least 1). With committers, counters advance only if passes are at least 0.9 of interval apart and the
// value was in use all the time between.
func NewLeakTracker(passes uint8, interval time.Duration) (*LeakTracker, error) {
	return newLeakTracker(passes, interval, false)
}

// NewLeakTrackerKeepingLeaks makes counters that keep leaks: passes clear only what a bitmap beside IPAddress objects
// records alone ([ReasonBitmapDisagrees]), in the pass that sees it for the passes-th time in a row. An API server
// refuses such an address.
func NewLeakTrackerKeepingLeaks(passes uint8, interval time.Duration) (*LeakTracker, error) {
	return newLeakTracker(passes, interval, true)
}

func newLeakTracker(passes uint8, interval time.Duration, keepsLeaks bool) (*LeakTracker, error) {
	var handle *rk.LeakTracker
	var details rk.Error
	if code := rk.LeakTrackerNew(passes, timeToC(interval), keepsLeaks, &handle, &details); code != rk.ResultOK {
		return nil, detailedError(code, &details)
	}
	return &LeakTracker{own(handle, rk.LeakTrackerFree)}, nil
}

func (p *LeakTracker) pointer() *rk.LeakTracker {
	if p == nil {
		return nil
	}
	return p.inner.pointer()
}

// Close drops the counters; audits and passes that were started go on. It may be called again and beside other calls.
func (p *LeakTracker) Close() error {
	rk.LeakTrackerFree(p.pointer())
	runtime.KeepAlive(p)
	return nil
}
