//go:build !(cgo && (rangekeeper_native || rangekeeper_dynamic))

package rk

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	// `make purego` writes these.
	bootstrapwasm "github.com/rangekeeper/rangekeeper/go-bindings/internal/wasm/bootstrap"
	corewasm "github.com/rangekeeper/rangekeeper/go-bindings/internal/wasm/core"
)

// BackEnd names the back end.
const BackEnd = "pure Go"

const (
	pageSize    = 1 << 16
	maximalSize = 1 << 32
	// argumentsLimit is what an argument may take: a batch becomes some times as much in the library.
	argumentsLimit = 128 << 20
	// argumentsSize is the least memory that an instance has for arguments: some KiB, for all but long lists.
	argumentsSize = 2 << 10
)

// objectLimit is the memory of an instance, in bytes, from which on nothing is added to its objects. So no call finds that there
// is none, halfway.
var objectLimit = 1 << 30

// instance is a copy of the library, for one call at a time: its objects and memory are its own. The memory is part of the Go
// heap and is collected with the last object; it never shrinks before.
type instance struct {
	mutex sync.Mutex
	// One of these is not nil.
	core      *corewasm.Module
	bootstrap *bootstrapwasm.Module
	// memory is replaced when it grows.
	memory *[]byte
	// stack is the library's stack pointer, which a trap leaves where it was.
	stack *int32
	// fault returns what the last panic said.
	fault func(length int32) (at int32)
	// arguments are copied into this part of the memory for the duration of a call, if they fit.
	arguments, argumentsEnd uint32
	// objects is the number of objects that are not closed.
	objects int
	// calls has the instances without an object, to which it belongs then; nil if objects are made here that have nothing to do with
	// each other.
	calls *sync.Pool
	// trapped: what is in the memory is unknown.
	trapped bool
}

// shared reports whether objects are made here that have nothing to do with each other.
func (i *instance) shared() bool { return i.calls == nil }

func newCore() *instance {
	m := corewasm.New()
	i := &instance{core: m, memory: m.Slice(), stack: m.X__stack_pointer(), fault: m.Xrk_memory_fault}
	i.reserve(uint32(*m.X__heap_base()), m.Grow)
	m.Xrk_memory_keep_faults()
	return i
}

func newBootstrap() *instance {
	m := bootstrapwasm.New()
	i := &instance{bootstrap: m, memory: m.Slice(), stack: m.X__stack_pointer(), fault: m.Xrk_memory_fault}
	i.reserve(uint32(*m.X__heap_base()), m.Grow)
	m.Xrk_memory_keep_faults()
	return i
}

// reserve takes the rest of the first pages for arguments, from an address on: the library's allocator takes pages that it has
// asked for.
func (i *instance) reserve(from uint32, grow func(pages, most int64) int64) {
	if uint32(len(*i.memory))-from < argumentsSize {
		grow(1, maximalSize/pageSize)
	}
	i.arguments, i.argumentsEnd = (from+7)&^7, uint32(len(*i.memory))
}

// The library's own memory, for what does not fit there.
func (i *instance) allocate(size uint32) uint32 {
	if i.core != nil {
		return uint32(i.core.Xrk_memory_allocate(int32(size)))
	}
	return uint32(i.bootstrap.Xrk_memory_allocate(int32(size)))
}

func (i *instance) free(at, size uint32) {
	if i.core != nil {
		i.core.Xrk_memory_free(int32(at), int32(size))
	} else {
		i.bootstrap.Xrk_memory_free(int32(at), int32(size))
	}
}

// firstFault is that of the program.
var firstFault atomic.Pointer[string]

// FirstFault returns what the first fault in the library said, and the stack of its call; "" if there was none.
func FirstFault() string {
	if fault := firstFault.Load(); fault != nil {
		return *fault
	}
	return ""
}

// keepFault keeps the fault of a call: a panic in the library, whose message it has, or one in Go.
func (i *instance) keepFault(trap any) {
	if firstFault.Load() != nil {
		return
	}
	said, stack := fmt.Sprint(trap), *i.stack
	// The message may be damaged, too.
	defer func() {
		_ = recover()
		*i.stack = stack
		fault := said + "\n" + string(debug.Stack())
		firstFault.CompareAndSwap(nil, &fault)
	}()
	at := uint32(i.fault(int32(i.arguments)))
	if length := endian.Uint32((*i.memory)[i.arguments:]); length > 0 {
		said += ": " + string((*i.memory)[at:][:length])
	}
}

// Instances for calls without an object, and for new objects that have one to themselves. One whose last object is closed comes
// back with the memory that it has, so that audits one after the other need none; Go collects it after some time.
var (
	coreCalls, bootstrapCalls sync.Pool
)

func init() {
	coreCalls.New = func() any {
		i := newCore()
		i.calls = &coreCalls
		return i
	}
	bootstrapCalls.New = func() any {
		i := newBootstrap()
		i.calls = &bootstrapCalls
		return i
	}
}

// Objects of at most this size, in bytes, share instances.
const smallSize = 8 << 10

// A shared instance takes objects as long as it has fewer than smallObjects and its memory is below smallMemory.
const (
	smallObjects = 128
	smallMemory  = 512 << 10
)

// smallInstances are those that take more objects. Objects that are made one after the other are put into different ones, so that
// their calls seldom wait for each other.
var (
	smallInstances [16]struct {
		sync.Mutex
		current *instance
	}
	smallNext atomic.Uint32
)

// place returns the instance for a new object of this size; nil if it is large: one of its own.
func place(size uint64) *instance {
	if size > smallSize {
		return nil
	}
	s := &smallInstances[smallNext.Add(1)%uint32(len(smallInstances))]
	s.Lock()
	defer s.Unlock()
	if s.current == nil || !s.current.hasRoom() {
		s.current = newCore()
	}
	return s.current
}

func (i *instance) hasRoom() bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.objects < smallObjects && len(*i.memory) < smallMemory
}

// bitmapSize returns the number of bytes in the bitmap of a range.
func bitmapSize(r *Range) uint64 {
	if r == nil {
		return 0
	}
	switch {
	case r.First.Kind == ValueKindPort:
		return 8 << 10
	case r.First.Kind == ValueKindIPv4 && r.Extent <= 32:
		return 1 << (32 - r.Extent) / 8
	default:
		return 8 << 10
	}
}
