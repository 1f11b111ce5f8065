package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"fmt"
	"runtime"
)

// Range says which values can be allocated, and the offset of each. It never changes, may be copied, and may be used
// from several goroutines at once. The zero value has no values.
type Range struct {
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
func ParseCIDR(cidr string) (Range, error) { return parseRange(cidr, C.RK_RANGE_KIND_CIDR) }

// ParsePortRange reads a range of ports: low-high, low+offset (which ends at low + offset) or one number. The error is
// a *ParseError.
func ParsePortRange(ports string) (Range, error) { return parseRange(ports, C.RK_RANGE_KIND_PORTS) }

func parseRange(spec string, kind C.uint32_t) (Range, error) {
	var details C.rk_error
	h := new(rangeHandle)
	code := C.rk_range_parse(cText(spec), C.size_t(len(spec)), kind, &h.pointer, &details)
	if code != C.RK_RESULT_OK {
		return Range{}, parseError(code, &details, spec)
	}
	runtime.AddCleanup(h, func(pointer *C.rk_range) { C.rk_range_free(pointer) }, h.pointer)
	var description C.rk_range_description
	C.rk_range_describe(h.pointer, &description)
	h.text = C.GoStringN(&description.text[0], C.int(description.text_len))
	h.size, h.staticBand = uint32(description.size), uint32(description.static_band)
	return Range{h}, nil
}

// check returns the error of a call that needs another Range than the zero one.
func (r Range) check() error {
	if r.inner == nil {
		return fmt.Errorf("%w: the Range is the zero value", ErrClosed)
	}
	return nil
}

func (r Range) pointer() *C.rk_range {
	if r.inner == nil {
		return nil
	}
	return r.inner.pointer
}

// String returns the canonical text, which is stored beside the bitmap.
func (r Range) String() string {
	if r.inner == nil {
		return ""
	}
	return r.inner.text
}

// Size returns the number of values in the range.
func (r Range) Size() uint32 {
	if r.inner == nil {
		return 0
	}
	return r.inner.size
}

// StaticBand returns the number of values in the static band: the lowest ones, which dynamic allocation picks last (KEP-3070
// for ClusterIPs, KEP-3668 for NodePorts).
func (r Range) StaticBand() uint32 {
	if r.inner == nil {
		return 0
	}
	return r.inner.staticBand
}

// OffsetOf returns the offset of value, in [0, Size); false if the range does not hand it out.
func (r Range) OffsetOf(value Value) (uint32, bool) {
	var offset C.uint32_t
	code := C.rk_range_offset_of(r.pointer(), value.toC(), &offset)
	runtime.KeepAlive(r.inner)
	return uint32(offset), code == C.RK_RESULT_OK
}

// ValueAt returns the value at offset; false past the end.
func (r Range) ValueAt(offset uint32) (Value, bool) {
	var value C.rk_value
	code := C.rk_range_value_at(r.pointer(), C.uint32_t(offset), &value)
	runtime.KeepAlive(r.inner)
	if code != C.RK_RESULT_OK {
		return Value{}, false
	}
	return valueFromC(&value), true
}

// ChangedValue is a value that was allocated or released.
type ChangedValue struct {
	Value     Value
	Allocated bool
}

// Changes returns the differences between two snapshots of the range (see Allocator.Snapshot), ascending. The error is a
// *BitsPastRangeError.
func (r Range) Changes(before, after []byte) ([]ChangedValue, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	var all []ChangedValue
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
			all = append(all, ChangedValue{valueFromC(&values[i]), bool(allocated[i])})
		}
		if int(n) < len(values) {
			return all, nil
		}
	}
}
