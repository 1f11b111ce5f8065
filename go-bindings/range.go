package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"net/netip"
	"runtime"
	"strconv"
)

// Range says which values can be allocated, and the offset of each. It never changes, may be copied, and may be used
// from several goroutines at once. The zero value has no values.
type Range[V Value] struct {
	inner *rangeHandle
}

type rangeHandle struct {
	pointer    *C.rk_range
	text       string
	size       uint32
	staticBand uint32
}

// ParseCIDR reads a range of addresses, such as 10.96.0.0/12. Host bits are cleared, leading zeros are read sloppily as
// in Kubernetes.
//
// The network address is never allocated, nor is an IPv4 broadcast address; of an IPv6 range the first 65,536
// addresses are tracked. The error is a *ParseError.
func ParseCIDR(cidr string) (Range[netip.Addr], error) {
	return parseRange[netip.Addr](cidr, C.RK_RANGE_KIND_CIDR, "a CIDR")
}

// ParsePortRange reads a range of ports: low-high, low+offset (which ends at low + offset) or one number. The error is
// a *ParseError.
func ParsePortRange(ports string) (Range[uint16], error) {
	return parseRange[uint16](ports, C.RK_RANGE_KIND_PORTS, "a port range")
}

func parseRange[V Value](spec string, kind C.uint32_t, what string) (Range[V], error) {
	handle, found, err := newRange(spec)
	if err != nil {
		return Range[V]{}, err
	}
	if found != kind {
		return Range[V]{}, &ParseError{Text: spec, Message: handle.text + " is not " + what}
	}
	return Range[V]{handle}, nil
}

func newRange(spec string) (*rangeHandle, C.uint32_t, error) {
	var details C.rk_error
	h := new(rangeHandle)
	code := C.rk_range_parse(cText(spec), C.size_t(len(spec)), &h.pointer, &details)
	if code != C.RK_RESULT_OK {
		return nil, 0, &ParseError{Text: spec, Message: errorMessage(&details)}
	}
	runtime.AddCleanup(h, func(pointer *C.rk_range) { C.rk_range_free(pointer) }, h.pointer)
	var kind, size, staticBand C.uint32_t
	C.rk_range_kind(h.pointer, &kind)
	C.rk_range_size(h.pointer, &size)
	C.rk_range_static_band(h.pointer, &staticBand)
	canonical, err := readText(func(buffer *C.char, capacity C.size_t, length *C.size_t) C.rk_result {
		return C.rk_range_text(h.pointer, buffer, capacity, length)
	})
	h.text, h.size, h.staticBand = canonical, uint32(size), uint32(staticBand)
	return h, kind, err
}

func (r Range[V]) pointer() *C.rk_range {
	if r.inner == nil {
		return nil
	}
	return r.inner.pointer
}

// String gives the canonical text, which is stored beside the bitmap.
func (r Range[V]) String() string {
	if r.inner == nil {
		return ""
	}
	return r.inner.text
}

// Size is how many values can be allocated.
func (r Range[V]) Size() uint32 {
	if r.inner == nil {
		return 0
	}
	return r.inner.size
}

// StaticBand is how many of the lowest values form the static band, which dynamic allocation spares (KEP-3070 for
// ClusterIPs, KEP-3668 for NodePorts).
func (r Range[V]) StaticBand() uint32 {
	if r.inner == nil {
		return 0
	}
	return r.inner.staticBand
}

// OffsetOf gives the offset of value, in [0, Size); false if the range does not hand it out.
func (r Range[V]) OffsetOf(value V) (uint32, bool) {
	var offset C.uint32_t
	given := toC(value)
	code := C.rk_range_offset_of(r.pointer(), &given, &offset)
	runtime.KeepAlive(r.inner)
	return uint32(offset), code == C.RK_RESULT_OK
}

// ValueAt gives the value at offset; false past the end.
func (r Range[V]) ValueAt(offset uint32) (V, bool) {
	var value C.rk_value
	code := C.rk_range_value_at(r.pointer(), C.uint32_t(offset), &value)
	runtime.KeepAlive(r.inner)
	if code != C.RK_RESULT_OK {
		var none V
		return none, false
	}
	return fromC[V](&value), true
}

// ParseAddr reads an address as Kubernetes does, sloppily: leading zeros are decimal, and an IPv4-mapped IPv6 address
// is the IPv4 address. The error is a *ParseError.
func ParseAddr(s string) (netip.Addr, error) {
	var value C.rk_value
	if C.rk_address_parse(cText(s), C.size_t(len(s)), &value) != C.RK_RESULT_OK {
		return netip.Addr{}, &ParseError{Text: s, Message: strconv.Quote(s) + " is not an IPv4 or IPv6 address"}
	}
	return fromC[netip.Addr](&value), nil
}

// ChangedValue is a value that was allocated or released.
type ChangedValue[V Value] struct {
	Value     V
	Allocated bool
}

// Changes returns what differs between two snapshots of the range (see Allocator.Snapshot), ascending. The error is a
// *BitsPastRangeError.
func (r Range[V]) Changes(before, after []byte) ([]ChangedValue[V], error) {
	var all []ChangedValue[V]
	values, allocated := make([]C.rk_value, valuesPerPage), make([]C.bool, valuesPerPage)
	for from := C.uint32_t(0); ; {
		var n C.size_t
		var details C.rk_error
		code := C.rk_range_changes(r.pointer(), cBytes(before), C.size_t(len(before)), cBytes(after), C.size_t(len(after)), from,
			&values[0], &allocated[0], C.size_t(len(values)), &n, &from, &details)
		runtime.KeepAlive(r.inner)
		if code != C.RK_RESULT_OK {
			return nil, snapshotError(code, &details, r.String(), r.String())
		}
		for i := range values[:n] {
			all = append(all, ChangedValue[V]{fromC[V](&values[i]), bool(allocated[i])})
		}
		if int(n) < len(values) {
			return all, nil
		}
	}
}
