package leaf

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// size is far more than a leaf function needs; what is not touched takes no memory.
const size = 128 << 10

// Stack is memory for one C call at a time. The nil pointer is a stack that is never free.
type Stack struct {
	// top is the highest address, less a line for the word that says whether a call is under way.
	top uintptr
}

// NewStack gives a stack, or nil if the system has no memory for it. It is freed when it is unreachable.
func NewStack() *Stack {
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	if err := syscall.Mprotect(memory[:os.Getpagesize()], syscall.PROT_NONE); err != nil {
		_ = syscall.Munmap(memory)
		return nil
	}
	s := &Stack{uintptr(unsafe.Pointer(unsafe.SliceData(memory))) + size - 64}
	runtime.AddCleanup(s, func(memory []byte) { _ = syscall.Munmap(memory) }, memory)
	return s
}

// CallWith calls function(handle, value) or function(handle, value, &flag), where value is a struct of two uint64_t and a
// uint32_t, and flag a bool.
//
// function must be a leaf function as this package's documentation says.
func (s *Stack) CallWith(function unsafe.Pointer, handle uintptr, high, low uint64, kind uint32) Result {
	result := callWith(s.above(), function, handle, high, low, kind)
	runtime.KeepAlive(s)
	return result
}

// CallFor calls function(handle, &value) and gives what it wrote to value, which is a struct as for CallWith.
func (s *Stack) CallFor(function unsafe.Pointer, handle uintptr) (high, low uint64, kind uint32, result Result) {
	high, low, kind, result = callFor(s.above(), function, handle)
	runtime.KeepAlive(s)
	return high, low, kind, result
}

func (s *Stack) above() uintptr {
	if s == nil {
		return 0
	}
	return s.top
}

//go:noescape
func callWith(top uintptr, function unsafe.Pointer, handle uintptr, high, low uint64, kind uint32) (result Result)

//go:noescape
func callFor(top uintptr, function unsafe.Pointer, handle uintptr) (high, low uint64, kind uint32, result Result)
