//go:build !(cgo && (rangekeeper_native || rangekeeper_dynamic))

package rk

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"unsafe"
)

// Numbers in the library's memory are little-endian on every platform.
var endian = binary.LittleEndian

// errNoMemory: the call might need more memory than the library's address space has, and was not made.
var errNoMemory = errors.New("no memory")

// object is a handle.
type object struct {
	in *instance
	// at is its address there.
	at uint32
	// poisoned: a call with the handle trapped, and has left it in an unknown state.
	poisoned, closed bool
	// alone: nothing else is in the instance, which is collected with the object.
	alone bool
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
	// calls is where the instance goes if it has no object after the call.
	calls *sync.Pool
	// blocks is the last block of [call.allocateBlock] for arguments.
	blocks uint32
}

// enter begins a call, unless a handle is poisoned. calls has the instances for a call without an object.
func (c *call) enter(calls *sync.Pool) Result {
	switch {
	case c.instance != nil: // that of a new object
	case c.first != nil:
		c.instance = c.first.in
	case c.second != nil:
		c.instance = c.second.in
	default:
		c.instance, c.calls = calls.Get().(*instance), calls
	}
	c.mutex.Lock()
	if c.calls != nil { // under the lock: an object that was closed here before looks at it, too
		c.instance.calls = c.calls
	}
	if result := max(c.first.state(), c.second.state()); result != ResultOK {
		c.mutex.Unlock()
		return result
	}
	c.next, c.stackBefore = c.arguments, *c.stack
	return ResultOK
}

// together fails if the two objects of a call are in different instances.
func (c *call) together() Result {
	if c.first == nil || c.second == nil || c.first.in == c.second.in {
		return ResultOK
	}
	for _, o := range []*object{c.first, c.second} {
		o.in.mutex.Lock()
		state := o.state()
		o.in.mutex.Unlock()
		if state != ResultOK {
			return state
		}
	}
	return ResultInvalidArgument
}

func (o *object) state() Result {
	switch {
	case o == nil || !o.poisoned && !o.closed:
		return ResultOK
	case o.closed:
		return ResultClosed
	default:
		return ResultPoisoned
	}
}

// leave ends a call. A call that is not done has trapped: a panic or a fault in the library, which has changed its
// handles halfway. Their memory is not used again.
func (c *call) leave(result *Result) {
	defer c.mutex.Unlock()
	if !c.done {
		if trap := recover(); trap == errNoMemory {
			*result = ResultNoMemory
		} else {
			*result = ResultPanic
			c.trapped = true
			*c.stack = c.stackBefore
			c.keepFault(trap)
			for _, o := range []*object{c.first, c.second} {
				if o != nil {
					o.poisoned = true
				}
			}
			return
		}
	}
	if c.blocks != 0 && c.shared() && len(*c.memory) > smallMemory {
		c.retire()
	}
	for c.blocks != 0 {
		at := c.blocks
		b := c.bytes(at, blockHeader)
		size := endian.Uint32(b[4:])
		c.blocks = endian.Uint32(b)
		c.module.Xrk_memory_free(int32(at), int32(size))
	}
	if c.calls != nil && c.objects == 0 && !c.trapped && len(*c.memory) <= reusedMemory {
		c.calls.Put(c.instance)
	}
}

// close frees a handle: nothing of it remains in the library's memory. A call beside it comes before, or finds it
// closed.
func (o *object) close(free func(*instance, int32)) {
	if o == nil {
		return
	}
	c := call{instance: o.in, first: o}
	c.mutex.Lock()
	c.calls = c.instance.calls
	if o.closed {
		c.mutex.Unlock()
		return
	}
	o.closed = true
	c.objects--
	if o.poisoned {
		c.mutex.Unlock()
		return
	}
	c.stackBefore = *c.stack
	defer c.leave(new(Result))
	free(c.instance, o.address())
	c.done = true
}

// blockHeader is the size of what stands before a block: the address of the block before, and the size.
const blockHeader = 8

// allocate returns memory for an argument, for the duration of the call. Its content is that of an earlier call.
func (c *call) allocate(size, align uint32) uint32 {
	at := (c.next + align - 1) &^ (align - 1)
	if at > c.argumentsEnd || size > c.argumentsEnd-at {
		return c.allocateBlock(uint64(size))
	}
	c.next = at + size
	return at
}

func (c *call) allocateBlock(size uint64) uint32 {
	size += blockHeader
	if size > argumentsLimit {
		panic(errNoMemory)
	}
	at := uint32(c.module.Xrk_memory_allocate(int32(size)))
	if at == 0 {
		panic(errNoMemory)
	}
	b := c.bytes(at, blockHeader)
	endian.PutUint32(b, c.blocks)
	endian.PutUint32(b[4:], uint32(size))
	c.blocks = at
	return at + blockHeader
}

func (c *call) allocateMany(n int, size, align uint32) uint32 {
	if uint64(n) > argumentsLimit/uint64(size) {
		panic(errNoMemory)
	}
	return c.allocate(uint32(n)*size, align)
}

// grow comes before a call that adds to its object. A list in it may take as much again while it grows, twice for a
// moment.
func (c *call) grow() {
	used := len(*c.memory)
	if used > objectLimit {
		panic(errNoMemory)
	}
	// An append of Go's grows a large slice by a quarter, so that each byte is copied five times until an object is
	// large, and clears the room, so that it counts as the program's memory.
	if used >= doubledMemory && cap(*c.memory)-used < used/4 {
		memory := make([]byte, used, 2*used)
		copy(memory, *c.memory)
		*c.memory = memory
	}
}

// doubledMemory is the size from which on the memory of an instance grows to twice as much.
const doubledMemory = 4 << 20

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

// object returns the new handle whose address the library has written.
func (c *call) object(at uint32) *object {
	c.objects++
	return &object{in: c.instance, at: endian.Uint32(c.bytes(at, 4)), alone: c.objects == 1 && !c.shared()}
}

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

// size returns a number of items or a place as the library has it. One that does not fit is beyond all that there is.
func size(n uint) int32 { return int32(uint32(min(n, math.MaxUint32))) }

func putBool(b []byte, value bool) { b[0] = byte(number(value)) }
