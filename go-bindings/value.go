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

// Value is what a range hands out: an address or a port.
type Value interface {
	netip.Addr | uint16
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

// String gives the value as text, "none" for the zero value.
func (v AnyValue) String() string {
	if addr, ok := v.Addr(); ok {
		return addr.String()
	}
	if port, ok := v.Port(); ok {
		return strconv.Itoa(int(port))
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

// isPort tells the kinds of V apart by size, which is known at compile time for each V and so costs nothing; a type switch
// on any(value) takes as long as the rest of a crossing's Go side.
func isPort[V Value]() bool {
	var value V
	return unsafe.Sizeof(value) == unsafe.Sizeof(uint16(0))
}

// toC gives the form in which a value crosses the border.
func toC[V Value](value V) C.rk_value {
	if isPort[V]() {
		return C.rk_value{low: C.uint64_t(*(*uint16)(unsafe.Pointer(&value))), kind: C.RK_VALUE_KIND_PORT}
	}
	high, low, kind := addrParts(*(*netip.Addr)(unsafe.Pointer(&value)))
	return C.rk_value{high: high, low: low, kind: kind}
}

// addrParts gives the fields one by one: as a struct they would be copied through memory in steps of different width, which
// takes 10 ns.
func addrParts(addr netip.Addr) (high, low C.uint64_t, kind C.uint32_t) {
	if addr.Is4() {
		a := addr.As4()
		return 0, C.uint64_t(binary.BigEndian.Uint32(a[:])), C.RK_VALUE_KIND_IPV4
	}
	if !addr.IsValid() || addr.Zone() != "" {
		return 0, 0, C.RK_VALUE_KIND_PORT // no address of any range, but well-formed
	}
	a := addr.As16()
	return C.uint64_t(binary.BigEndian.Uint64(a[:8])), C.uint64_t(binary.BigEndian.Uint64(a[8:])), C.RK_VALUE_KIND_IPV6
}

// fromC is the inverse of toC for a value of V's kind.
func fromC[V Value](c *C.rk_value) V {
	var value V
	if isPort[V]() {
		*(*uint16)(unsafe.Pointer(&value)) = uint16(c.low)
	} else {
		*(*netip.Addr)(unsafe.Pointer(&value)) = addrFromC(c)
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
	value := toC(first)
	if value.kind == C.RK_VALUE_KIND_IPV4 {
		yieldIPv4Members(uint32(value.low), snapshot, *(*func(netip.Addr) bool)(unsafe.Pointer(&yield)))
		return
	}
	low := value.low
	for offset, word := range snapshotWords(snapshot) {
		for ; word != 0; word &= word - 1 {
			// No carry: of IPv6 ranges only 65,536 addresses are handed out, which all lie in one /112.
			value.low = low + C.uint64_t(offset+bits.TrailingZeros64(word))
			if !yield(fromC[V](&value)) {
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
