//go:build !(linux && amd64) || race

package leaf

import "unsafe"

// Stack is busy on this platform.
type Stack struct{}

// Pick gives nil.
func Pick() *Stack { return nil }

// CallWith calls nothing.
func (*Stack) CallWith(unsafe.Pointer, uintptr, uint64, uint64, uint32) Result { return Busy }

// CallFor calls nothing.
func (*Stack) CallFor(unsafe.Pointer, uintptr) (high, low uint64, kind uint32, result Result) {
	return 0, 0, 0, Busy
}
