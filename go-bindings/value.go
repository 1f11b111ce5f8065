package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"net/netip"
	"strconv"
	"unsafe"
)

// Value is what a range hands out: an address, a port or a block of UIDs.
type Value interface {
	netip.Addr | uint16 | UIDBlock
}

// UIDBlock is a block of UIDs, as OpenShift gives one to each namespace.
type UIDBlock struct {
	// Start is the first UID, Size their number.
	Start, Size uint32
}

// String gives the block as start/size.
func (b UIDBlock) String() string {
	return strconv.FormatUint(uint64(b.Start), 10) + "/" + strconv.FormatUint(uint64(b.Size), 10)
}

// AnyValue is a value whose kind is known only at run time. The zero value is none.
type AnyValue struct {
	c C.rk_value
}

// AnyOf gives value as an AnyValue.
func AnyOf[V Value](value V) AnyValue { return AnyValue{toC(value)} }

// Addr gives the address, if it is one.
func (v AnyValue) Addr() (netip.Addr, bool) {
	ok := v.c.kind == C.RK_VALUE_KIND_IPV4 || v.c.kind == C.RK_VALUE_KIND_IPV6
	if !ok {
		return netip.Addr{}, false
	}
	return fromC[netip.Addr](&v.c), true
}

// Port gives the port, if it is one.
func (v AnyValue) Port() (uint16, bool) {
	if v.c.kind != C.RK_VALUE_KIND_PORT {
		return 0, false
	}
	return uint16(v.c.low), true
}

// UIDs gives the block of UIDs, if it is one.
func (v AnyValue) UIDs() (UIDBlock, bool) {
	if v.c.kind != C.RK_VALUE_KIND_UIDS {
		return UIDBlock{}, false
	}
	return fromC[UIDBlock](&v.c), true
}

// String gives the value as text, "none" for the zero value.
func (v AnyValue) String() string {
	if addr, ok := v.Addr(); ok {
		return addr.String()
	}
	if port, ok := v.Port(); ok {
		return strconv.Itoa(int(port))
	}
	if block, ok := v.UIDs(); ok {
		return block.String()
	}
	return "none"
}

// Run is a maximal run of neighbouring values that are all alike.
type Run[V any] struct {
	// First and Last are its ends, both included.
	First, Last V
	// Len is how many values it has, at least 1.
	Len uint64
}

// The kinds of V are told apart by size, which is known at compile time for each V and so costs nothing; a type switch
// on any(value) takes as long as the rest of a crossing's Go side.
const (
	addrSize = unsafe.Sizeof(netip.Addr{})
	portSize = unsafe.Sizeof(uint16(0))
)

// parts gives the fields of C's form of a value, one by one: as a struct they would be copied through memory in steps of
// different width, which takes longer than a call.
func parts[V Value](value V) (high, low uint64, kind uint32) {
	switch unsafe.Sizeof(value) {
	case addrSize:
		return addrParts(*(*netip.Addr)(unsafe.Pointer(&value)))
	case portSize:
		return 0, uint64(*(*uint16)(unsafe.Pointer(&value))), C.RK_VALUE_KIND_PORT
	default:
		block := *(*UIDBlock)(unsafe.Pointer(&value))
		return uint64(block.Size), uint64(block.Start), C.RK_VALUE_KIND_UIDS
	}
}

func addrParts(addr netip.Addr) (high, low uint64, kind uint32) {
	if addr.Is4() {
		a := addr.As4()
		return 0, uint64(binary.BigEndian.Uint32(a[:])), C.RK_VALUE_KIND_IPV4
	}
	if !addr.IsValid() || addr.Zone() != "" {
		// No address of any range. A block without UIDs is a well-formed value that a range of addresses does not have.
		return 0, 0, C.RK_VALUE_KIND_UIDS
	}
	a := addr.As16()
	return binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:]), C.RK_VALUE_KIND_IPV6
}

// fromParts is the inverse of parts for a value of V's kind.
func fromParts[V Value](high, low uint64, kind uint32) V {
	var value V
	switch unsafe.Sizeof(value) {
	case addrSize:
		*(*netip.Addr)(unsafe.Pointer(&value)) = addrFromParts(high, low, kind)
	case portSize:
		*(*uint16)(unsafe.Pointer(&value)) = uint16(low)
	default:
		*(*UIDBlock)(unsafe.Pointer(&value)) = UIDBlock{Start: uint32(low), Size: uint32(high)}
	}
	return value
}

func addrFromParts(high, low uint64, kind uint32) netip.Addr {
	if kind == C.RK_VALUE_KIND_IPV4 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(low))
		return netip.AddrFrom4(a)
	}
	return addrFrom16(high, low)
}

func addrFrom16(high, low uint64) netip.Addr {
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], high)
	binary.BigEndian.PutUint64(a[8:], low)
	return netip.AddrFrom16(a)
}

// toC gives the form in which a value crosses the border.
func toC[V Value](value V) C.rk_value {
	high, low, kind := parts(value)
	return C.rk_value{high: C.uint64_t(high), low: C.uint64_t(low), kind: C.uint32_t(kind)}
}

// fromC is the inverse of toC for a value of V's kind.
func fromC[V Value](c *C.rk_value) V {
	return fromParts[V](uint64(c.high), uint64(c.low), uint32(c.kind))
}

// allToC gives values in the form in which they cross the border.
func allToC[V Value](values []V) []C.rk_value {
	all := make([]C.rk_value, len(values))
	for i, value := range values {
		all[i] = toC(value)
	}
	return all
}

// allFromC is the inverse of allToC.
func allFromC[V Value](all []C.rk_value) []V {
	values := make([]V, len(all))
	for i := range all {
		values[i] = fromC[V](&all[i])
	}
	return values
}

// yieldMembers hands over the values of a range whose bits are set in a snapshot, ascending, until yield returns false.
// The values of a range follow one another, from the one at offset 0 on.
func yieldMembers[V Value](first V, snapshot []byte, yield func(V) bool) {
	high, low, kind := parts(first)
	if kind == C.RK_VALUE_KIND_IPV4 {
		yieldIPv4Members(uint32(low), snapshot, *(*func(netip.Addr) bool)(unsafe.Pointer(&yield)))
		return
	}
	step := uint64(1)
	if kind == C.RK_VALUE_KIND_UIDS {
		step = high
	}
	for offset, word := range snapshotWords(snapshot) {
		for ; word != 0; word &= word - 1 {
			// No carry: of IPv6 ranges only 65,536 addresses are handed out, which all lie in one /112.
			if !yield(fromParts[V](high, low+step*uint64(offset+bits.TrailingZeros64(word)), kind)) {
				return
			}
		}
	}
}

// yieldIPv4Members is for addresses of which there may be a million: it makes no call for each but that of yield.
func yieldIPv4Members(first uint32, snapshot []byte, yield func(netip.Addr) bool) {
	for offset, word := range snapshotWords(snapshot) {
		for ; word != 0; word &= word - 1 {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], first+uint32(offset+bits.TrailingZeros64(word)))
			if !yield(netip.AddrFrom4(a)) {
				return
			}
		}
	}
}

// snapshotWords cuts a snapshot into words of 64 offsets, with the offset of the lowest bit of each.
func snapshotWords(snapshot []byte) iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for offset := 0; len(snapshot) > 0; offset += 64 {
			cut := max(len(snapshot)-8, 0)
			var word uint64
			if bytes := snapshot[cut:]; len(bytes) == 8 {
				word = binary.BigEndian.Uint64(bytes)
			} else {
				for _, b := range bytes {
					word = word<<8 | uint64(b)
				}
			}
			if !yield(offset, word) {
				return
			}
			snapshot = snapshot[:cut]
		}
	}
}
