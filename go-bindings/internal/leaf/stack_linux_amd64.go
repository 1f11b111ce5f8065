//go:build linux && amd64 && !race

package leaf

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	// count is how many stacks the process has: enough for callers to be rarely in each other's way.
	count = 64
	// size is far more than a leaf function needs; what is not touched takes no memory.
	size = 128 << 10
)

// Stack is memory for one C call at a time. The nil pointer is a stack that is always busy.
type Stack struct {
	// top is the highest address, less a line for the word that says whether a call is under way.
	top uintptr
}

var (
	picked atomic.Uint32
	stacks = sync.OnceValue(mapStacks)
)

// Pick gives one of the process's stacks, each in its turn; nil if the system has no memory for them. They are never
// freed.
func Pick() *Stack {
	all := stacks()
	if len(all) == 0 {
		return nil
	}
	return &all[picked.Add(1)%count]
}

func mapStacks() []Stack {
	memory, err := syscall.Mmap(-1, 0, count*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	all := make([]Stack, count)
	for i := range all {
		stack := memory[i*size : (i+1)*size]
		if err := syscall.Mprotect(stack[:os.Getpagesize()], syscall.PROT_NONE); err != nil {
			_ = syscall.Munmap(memory)
			return nil
		}
		all[i].top = uintptr(unsafe.Pointer(unsafe.SliceData(stack))) + size - 64
	}
	return all
}

// CallWith calls function(handle, value) or function(handle, value, &flag), where value is a struct of two uint64_t and a
// uint32_t, and flag a bool.
//
// function must be a leaf function as this package's documentation says.
func (s *Stack) CallWith(function unsafe.Pointer, handle uintptr, high, low uint64, kind uint32) Result {
	return callWith(s.above(), function, handle, high, low, kind)
}

// CallFor calls function(handle, &value) and gives what it wrote to value, which is a struct as for CallWith.
func (s *Stack) CallFor(function unsafe.Pointer, handle uintptr) (high, low uint64, kind uint32, result Result) {
	return callFor(s.above(), function, handle)
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
