//go:build cgo && (rangekeeper_native || rangekeeper_dynamic)

package rk

import (
	"sync/atomic"
	"unsafe"
)

// handle is an object of the library, in its memory. It may be freed while calls use it: the last of them frees it.
type handle struct {
	c    unsafe.Pointer
	free func(c unsafe.Pointer)
	// calls is the number of calls under way, and closed is added to it.
	calls atomic.Int64
	freed atomic.Bool
}

const closed = 1 << 62

func newHandle(c unsafe.Pointer, free func(c unsafe.Pointer)) *handle {
	return &handle{c: c, free: free}
}

// enter begins a call and returns the object, which stays until leave; NULL for nil. It fails if the handle is closed.
func (h *handle) enter() (unsafe.Pointer, Result) {
	if h == nil {
		return nil, ResultOK
	}
	if h.calls.Add(1) >= closed {
		h.leave()
		return nil, ResultClosed
	}
	return h.c, ResultOK
}

// leave ends a call.
func (h *handle) leave() {
	if h != nil && h.calls.Add(-1) == closed {
		h.freeOnce()
	}
}

// close has every later call fail. It may be called again.
func (h *handle) close() {
	if h != nil && h.calls.Or(closed)&^closed == 0 {
		h.freeOnce()
	}
}

// freeOnce: a call that finds the handle closed leaves it, too.
func (h *handle) freeOnce() {
	if h.freed.CompareAndSwap(false, true) {
		h.free(h.c)
	}
}
