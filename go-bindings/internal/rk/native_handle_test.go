//go:build cgo && (rangekeeper_native || rangekeeper_dynamic)

package rk

import (
	"testing"
	"unsafe"
)

// The last call of a closed handle frees it, and nothing frees it again.
func TestHandleIsFreedOnce(t *testing.T) {
	freed := 0
	h := newHandle(unsafe.Pointer(new(int)), func(unsafe.Pointer) { freed++ })
	for range 2 {
		if c, result := h.enter(); c != h.c || result != ResultOK {
			t.Error(c, result)
		}
	}
	h.leave()
	h.close()
	if c, result := h.enter(); c != nil || result != ResultClosed || freed != 0 {
		t.Error("beside a call:", c, result, freed)
	}
	if h.leave(); freed != 1 {
		t.Error("after the last call:", freed)
	}
	_, result := h.enter()
	if h.close(); result != ResultClosed || freed != 1 {
		t.Error("later:", result, freed)
	}

	idle := newHandle(unsafe.Pointer(new(int)), func(unsafe.Pointer) { freed++ })
	idle.close()
	if idle.close(); freed != 2 {
		t.Error("closed twice:", freed)
	}
	var none *handle
	none.close()
	if c, result := none.enter(); c != nil || result != ResultOK {
		t.Error("nil:", c, result)
	}
	none.leave()
}
