package rangekeeper

import (
	"fmt"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Range says which values can be allocated, and the offset of each. It never changes, may be copied, and may be used
// from several goroutines at once. The zero value has no values.
type Range struct {
	inner *parsedRange
}

type parsedRange struct {
	c          rk.Range
	text       string
	size       uint32
	staticBand uint32
}

// ParseCIDR reads a range of addresses, such as 10.96.0.0/12. Host bits are cleared, leading zeros are read sloppily as
// in Kubernetes.
//
// The network address is never allocated, nor is an IPv4 broadcast address; of an IPv6 range the first 65,536
// addresses are tracked. The error is a *ParseError.
func ParseCIDR(cidr string) (Range, error) { return parseRange(cidr, rk.RangeKindCIDR) }

// ParsePortRange reads a range of ports: low-high, low+offset (which ends at low + offset) or one number. The error is
// a *ParseError.
func ParsePortRange(ports string) (Range, error) { return parseRange(ports, rk.RangeKindPorts) }

// Numbers returns the numbers below size, of which the lowest staticBand are the static band: for a caller that keeps
// the offset of each of its values. It fails if the static band is not shorter than the range.
func Numbers(size, staticBand uint32) (Range, error) {
	return parseRange(fmt.Sprintf("%d numbers, %d static", size, staticBand), rk.RangeKindNumbers)
}

func parseRange(spec string, kind uint32) (Range, error) {
	var details rk.Error
	p := new(parsedRange)
	code := rk.RangeParse(spec, kind, &p.c, &details)
	if code != rk.ResultOK {
		return Range{}, parseError(code, &details, spec)
	}
	var description rk.RangeDescription
	rk.RangeDescribe(&p.c, &description)
	p.text = description.Text
	p.size, p.staticBand = description.Size, description.StaticBand
	return Range{p}, nil
}

// check returns the error of a call that needs another Range than the zero one.
func (r Range) check() error {
	if r.inner == nil {
		return fmt.Errorf("%w: the Range is the zero value", ErrClosed)
	}
	return nil
}

func (r Range) pointer() *rk.Range {
	if r.inner == nil {
		return nil
	}
	return &r.inner.c
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

// StaticBand returns the number of values in the static band: the lowest ones, which dynamic allocation picks last
// (KEP-3070 for ClusterIPs, KEP-3668 for NodePorts).
func (r Range) StaticBand() uint32 {
	if r.inner == nil {
		return 0
	}
	return r.inner.staticBand
}

// Excludes reports whether no cluster has both ranges: its ranges of ClusterIPs are of different IP families (KEP-563),
// and it has one range of node ports. The zero Range excludes none.
func (r Range) Excludes(other Range) bool {
	var excludes bool
	code := rk.RangeExcludes(r.pointer(), other.pointer(), &excludes)
	return code == rk.ResultOK && excludes
}

// OffsetOf returns the offset of value, in [0, Size); false if the range does not hand it out.
func (r Range) OffsetOf(value Value) (uint32, bool) {
	var offset uint32
	code := rk.RangeOffsetOf(r.pointer(), value.toC(), &offset)
	return offset, code == rk.ResultOK
}

// ValueAt returns the value at offset; false past the end.
func (r Range) ValueAt(offset uint32) (Value, bool) {
	var value rk.Value
	code := rk.RangeValueAt(r.pointer(), offset, &value)
	if code != rk.ResultOK {
		return Value{}, false
	}
	return valueFromC(&value), true
}

// ChangedValue is a value that was allocated or released.
type ChangedValue struct {
	Value     Value
	Allocated bool
}

// Changes returns the differences between two snapshots of the range (see Allocator.Snapshot), ascending. The error is
// a *BitsPastRangeError.
func (r Range) Changes(before, after []byte) ([]ChangedValue, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	var all []ChangedValue
	values, allocated := make([]rk.Value, valuesPerPage), make([]bool, valuesPerPage)
	for from := uint32(0); ; {
		var n uint
		var details rk.Error
		code := rk.RangeChanges(r.pointer(), before, after, from,
			values, allocated, &n, &from, &details)
		if code != rk.ResultOK {
			return nil, snapshotError(code, &details, r.String(), r.String())
		}
		for i := range values[:n] {
			all = append(all, ChangedValue{valueFromC(&values[i]), allocated[i]})
		}
		if int(n) < len(values) {
			return all, nil
		}
	}
}
