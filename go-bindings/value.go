package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"encoding/binary"
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
	return addrFromC(&v.c), true
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
	return uidsFromC(&v.c), true
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

// parts gives the fields of the form in which a value crosses the border.
func parts[V Value](value V) (high, low C.uint64_t, kind C.uint32_t) {
	switch unsafe.Sizeof(value) {
	case addrSize:
		return addrParts(*(*netip.Addr)(unsafe.Pointer(&value)))
	case portSize:
		return 0, C.uint64_t(*(*uint16)(unsafe.Pointer(&value))), C.RK_VALUE_KIND_PORT
	default:
		block := *(*UIDBlock)(unsafe.Pointer(&value))
		return C.uint64_t(block.Size), C.uint64_t(block.Start), C.RK_VALUE_KIND_UIDS
	}
}

func addrParts(addr netip.Addr) (high, low C.uint64_t, kind C.uint32_t) {
	if addr.Is4() {
		a := addr.As4()
		return 0, C.uint64_t(binary.BigEndian.Uint32(a[:])), C.RK_VALUE_KIND_IPV4
	}
	if !addr.IsValid() || addr.Zone() != "" {
		// No address of any range. A block without UIDs is a well-formed value that a range of addresses does not have.
		return 0, 0, C.RK_VALUE_KIND_UIDS
	}
	a := addr.As16()
	return C.uint64_t(binary.BigEndian.Uint64(a[:8])), C.uint64_t(binary.BigEndian.Uint64(a[8:])), C.RK_VALUE_KIND_IPV6
}

// toC gives the form in which a value crosses the border.
func toC[V Value](value V) C.rk_value {
	high, low, kind := parts(value)
	return C.rk_value{high: high, low: low, kind: kind}
}

// fromC is the inverse of toC for a value of V's kind.
func fromC[V Value](c *C.rk_value) V {
	var value V
	switch unsafe.Sizeof(value) {
	case addrSize:
		*(*netip.Addr)(unsafe.Pointer(&value)) = addrFromC(c)
	case portSize:
		*(*uint16)(unsafe.Pointer(&value)) = uint16(c.low)
	default:
		*(*UIDBlock)(unsafe.Pointer(&value)) = uidsFromC(c)
	}
	return value
}

func addrFromC(c *C.rk_value) netip.Addr {
	if c.kind == C.RK_VALUE_KIND_IPV4 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(c.low))
		return netip.AddrFrom4(a)
	}
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], uint64(c.high))
	binary.BigEndian.PutUint64(a[8:], uint64(c.low))
	return netip.AddrFrom16(a)
}

func uidsFromC(c *C.rk_value) UIDBlock {
	return UIDBlock{Start: uint32(c.low), Size: uint32(c.high)}
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
