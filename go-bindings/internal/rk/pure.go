//go:build !(cgo && (rangekeeper_native || rangekeeper_dynamic))

package rk

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"unsafe"

	// `make purego` writes these.
	bootstrapwasm "github.com/rangekeeper/rangekeeper/go-bindings/internal/wasm/bootstrap"
	corewasm "github.com/rangekeeper/rangekeeper/go-bindings/internal/wasm/core"
)

// Numbers in the library's memory are little-endian on every platform.
var endian = binary.LittleEndian

// instance is a copy of the library with its memory, for one call at a time. All handles are in it, as a call may have
// several. Its memory is reused once handles are freed, and never shrinks.
type instance struct {
	mutex sync.Mutex
	// memory is replaced when it grows.
	memory *[]byte
	grow   func(pages, most int64) int64
	// stack is the library's stack pointer, which a trap leaves where it was.
	stack *int32
	// arguments are copied into this part of the memory for the duration of a call.
	arguments, argumentsEnd uint32
}

const (
	pageSize    = 1 << 16
	maximalSize = 1 << 32
)

// errTooLarge: the library's address space has no room for the arguments of a call, which was not made.
var errTooLarge = errors.New("the arguments are larger than the address space")

var (
	coreModule   = corewasm.New()
	coreInstance = newInstance(coreModule.Slice(), coreModule.Grow, coreModule.X__stack_pointer())

	bootstrapModule   *bootstrapwasm.Module
	bootstrapInstance *instance
	bootstrapOnce     sync.Once
)

func newInstance(memory *[]byte, grow func(pages, most int64) int64, stack *int32) *instance {
	i := &instance{memory: memory, grow: grow, stack: stack}
	i.reserve(pageSize)
	return i
}

// startBootstrap makes the instance when it is needed, so that a program that does not need it does not have its code.
func startBootstrap() *instance {
	bootstrapOnce.Do(func() {
		bootstrapModule = bootstrapwasm.New()
		bootstrapInstance = newInstance(bootstrapModule.Slice(), bootstrapModule.Grow, bootstrapModule.X__stack_pointer())
	})
	return bootstrapInstance
}

// reserve replaces the memory for arguments by one of this size. The library's allocator takes pages that it has not asked for
// as another's.
func (i *instance) reserve(size uint64) {
	size = (size + pageSize - 1) / pageSize * pageSize
	first := i.grow(int64(size/pageSize), maximalSize/pageSize)
	if first < 0 {
		panic(errTooLarge)
	}
	// The end is a multiple of 8 below the end of the pages, so that no aligned address lies behind it or overflows.
	i.arguments, i.argumentsEnd = uint32(first*pageSize), uint32(uint64(first*pageSize)+size-8)
}

// object is a handle: its address in the library's memory.
type object struct {
	at uint32
	// poisoned: a call with the handle trapped, and has left it in an unknown state.
	poisoned bool
	// closed: it was closed after that.
	closed bool
}

func (o *object) address() int32 {
	if o == nil {
		return 0
	}
	return int32(o.at)
}

// call is one call of the library.
type call struct {
	*instance
	first, second *object
	next          uint32
	stackBefore   int32
	done          bool
}

// enter begins a call, unless a handle is poisoned.
func (c *call) enter() Result {
	c.mutex.Lock()
	if result := max(c.first.state(), c.second.state()); result != ResultOK {
		c.mutex.Unlock()
		return result
	}
	c.next, c.stackBefore = c.arguments, *c.stack
	return ResultOK
}

func (o *object) state() Result {
	switch {
	case o == nil || !o.poisoned:
		return ResultOK
	case o.closed:
		return ResultClosed
	default:
		return ResultPoisoned
	}
}

// leave ends a call. A call that is not done has trapped: a panic or a fault in the library, which has changed its handles
// halfway. Their memory is not used again.
func (c *call) leave(result *Result) {
	if !c.done {
		if recover() == errTooLarge {
			*result = ResultInvalidArgument
			c.mutex.Unlock()
			return
		}
		*result = ResultPanic
		*c.stack = c.stackBefore
		for _, o := range []*object{c.first, c.second} {
			if o != nil {
				o.poisoned = true
			}
		}
	}
	c.mutex.Unlock()
}

// closePoisoned closes a handle that cannot be used any more.
func (c *call) closePoisoned() Result {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.first.closed = true
	return ResultOK
}

// allocate returns memory for an argument. Its content is that of an earlier call.
func (c *call) allocate(size, align uint32) uint32 {
	at := (c.next + align - 1) &^ (align - 1)
	if size > c.argumentsEnd-at {
		return c.allocateMore(uint64(size))
	}
	c.next = at + size
	return at
}

// allocateMore gets memory of twice the size for the arguments of this and later calls. What was allocated before stays valid.
func (c *call) allocateMore(size uint64) uint32 {
	c.reserve(2 * max(size, uint64(c.argumentsEnd-c.arguments)))
	c.next = c.arguments + uint32(size)
	return c.arguments
}

func (c *call) allocateMany(n int, size, align uint32) uint32 {
	if uint64(n) > math.MaxInt32/uint64(size) {
		panic(errTooLarge)
	}
	return c.allocate(uint32(n)*size, align)
}

// bytes returns the memory at an address until the next allocation.
func (c *call) bytes(at uint32, n int) []byte { return (*c.memory)[at:][:n:n] }

func (c *call) putBytes(b []byte) uint32 {
	at := c.allocateMany(len(b), 1, 1)
	copy((*c.memory)[at:], b)
	return at
}

func (c *call) putText(s string) uint32 {
	at := c.allocateMany(len(s), 1, 1)
	copy((*c.memory)[at:], s)
	return at
}

func (c *call) putWords(words []uint32) uint32 {
	at := c.allocateMany(len(words), 4, 4)
	b := c.bytes(at, 4*len(words))
	if littleEndianHost {
		copy(b, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(b)))
		return at
	}
	for i, word := range words {
		endian.PutUint32(b[4*i:], word)
	}
	return at
}

var littleEndianHost = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// object returns the handle whose address the library has written.
func (c *call) object(at uint32) *object { return &object{at: endian.Uint32(c.bytes(at, 4))} }

func (c *call) getBools(list []bool, at uint32) {
	for i, b := range c.bytes(at, len(list)) {
		list[i] = b != 0
	}
}

func (c *call) getSizes(list []uint, at uint32) {
	b := c.bytes(at, 4*len(list))
	for i := range list {
		list[i] = uint(endian.Uint32(b[4*i:]))
	}
}

func (c *call) getNumbers(list []uint64, at uint32) {
	b := c.bytes(at, 8*len(list))
	for i := range list {
		list[i] = endian.Uint64(b[8*i:])
	}
}

// text returns a text that ends with a NUL.
func (c *call) text(at uint32) string {
	b := (*c.memory)[at:]
	for n := range b {
		if b[n] == 0 {
			return string(b[:n])
		}
	}
	return ""
}

func number(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func putBool(b []byte, value bool) { b[0] = byte(number(value)) }
