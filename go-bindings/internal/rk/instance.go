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
	ledgerwasm "github.com/rangekeeper/rangekeeper/go-bindings/internal/wasm/ledger"
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

// objectLimit is the memory of an instance, in bytes, from which on nothing is added to its objects. So no call finds
// that there is none, halfway.
var objectLimit = 1 << 30

// instance is a copy of the library, for one call at a time: its objects and memory are its own. The memory is part of
// the Go heap; it never shrinks before Go collects it.
type instance struct {
	mutex  sync.Mutex
	module module
	// One of these is the module.
	core      *corewasm.Module
	bootstrap *bootstrapwasm.Module
	ledger    *ledgerwasm.Module
	// memory is replaced when it grows.
	memory *[]byte
	// stack is the library's stack pointer, which a trap leaves where it was.
	stack *int32
	// arguments are copied into this part of the memory for the duration of a call, if they fit.
	arguments, argumentsEnd uint32
	// objects is the number of objects that are not closed.
	objects int
	// calls has the instances without an object, to which it belongs then; nil if objects are made here that have
	// nothing to do with each other.
	calls *sync.Pool
	// trapped: what is in the memory is unknown.
	trapped bool
}

// shared reports whether objects are made here that have nothing to do with each other.
func (i *instance) shared() bool { return i.calls == nil }

// module is what all modules of the library have.
type module interface {
	Slice() *[]byte
	Grow(pages, most int64) int64
	X__stack_pointer() *int32
	X__heap_base() *int32
	Xrk_memory_allocate(size int32) (at int32)
	Xrk_memory_free(at, size int32)
	Xrk_memory_keep_faults()
	Xrk_memory_fault(length int32) (at int32)
}

func newCore() *instance {
	m := corewasm.New()
	i := newInstance(m)
	i.core = m
	return i
}

func newBootstrap() *instance {
	m := bootstrapwasm.New()
	i := newInstance(m)
	i.bootstrap = m
	return i
}

func newLedger() *instance {
	m := ledgerwasm.New()
	i := newInstance(m)
	i.ledger = m
	return i
}

func newInstance(m module) *instance {
	i := &instance{module: m, memory: m.Slice(), stack: m.X__stack_pointer()}
	// Arguments have the rest of the first pages: the library's allocator takes pages that it has asked for.
	from := uint32(*m.X__heap_base())
	if uint32(len(*i.memory))-from < argumentsSize {
		m.Grow(1, maximalSize/pageSize)
	}
	i.arguments, i.argumentsEnd = (from+7)&^7, uint32(len(*i.memory))
	m.Xrk_memory_keep_faults()
	return i
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
	at := uint32(i.module.Xrk_memory_fault(int32(i.arguments)))
	if length := endian.Uint32((*i.memory)[i.arguments:]); length > 0 {
		said += ": " + string((*i.memory)[at:][:length])
	}
}

// Instances for calls without an object, and for new objects that have one to themselves. One whose last object is
// closed comes back with the memory that it has, so that audits one after the other need none; Go collects it after
// some time.
var (
	coreCalls      = sync.Pool{New: func() any { return newCore() }}
	bootstrapCalls = sync.Pool{New: func() any { return newBootstrap() }}
	ledgerCalls    = sync.Pool{New: func() any { return newLedger() }}
)

// reusedMemory is the most memory of an instance that serves another object after its last one was closed. What was in
// it may have left it with little room below objectLimit.
const reusedMemory = 64 << 20

// Objects of at most this size, in bytes, share instances: a call of one waits for a call of another, which takes a
// batch of all its values at most.
const smallSize = 512

// A shared instance takes objects as long as it has fewer than smallObjects and its memory is below smallMemory.
const (
	smallObjects = 128
	smallMemory  = 512 << 10
)

// smallInstances are those that take more objects. Objects that are made one after the other are put into different
// ones, so that their calls seldom wait for each other.
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

// retire has a shared instance that has grown take no more objects, so that it is collected with those that it has. A
// large argument stays in the memory that it was copied to. The instance is locked, so a place that is locked looks at
// it later, in hasRoom.
func (i *instance) retire() {
	for n := range smallInstances {
		s := &smallInstances[n]
		if s.TryLock() {
			if s.current == i {
				s.current = nil
			}
			s.Unlock()
		}
	}
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
		return (uint64(r.Extent)-r.First.Low)/8 + 1
	case r.First.Kind == ValueKindIPv4 && r.Extent <= 32:
		return 1 << (32 - r.Extent) / 8
	default:
		return 8 << 10
	}
}
