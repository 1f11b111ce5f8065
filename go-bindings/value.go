package rangekeeper

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"net/netip"
	"strconv"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Value is an address, a port or a number. Values are compared by ==. The zero Value is none, and no range has it.
//
// Its fields are those of rk_value without the padding, for which Go would pass a Value in memory and not in registers.
type Value struct {
	high, low uint64
	kind      uint32
}

func valueFromC(c *rk.Value) Value { return Value{c.High, c.Low, c.Kind} }

// AddrValue returns an address as a Value. An IPv4-mapped address is the IPv4 address. An address with a zone, or that
// is not valid, is none.
func AddrValue(addr netip.Addr) Value {
	if addr = addr.Unmap(); addr.Is4() {
		a := addr.As4()
		return Value{low: uint64(binary.BigEndian.Uint32(a[:])), kind: rk.ValueKindIPv4}
	}
	if !addr.IsValid() || addr.Zone() != "" {
		return Value{}
	}
	a := addr.As16()
	high, low := binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
	return Value{high, low, rk.ValueKindIPv6}
}

// PortValue returns a port as a Value.
func PortValue(port uint16) Value {
	return Value{low: uint64(port), kind: rk.ValueKindPort}
}

// NumberValue returns a number of a range of Numbers as a Value.
func NumberValue(number uint32) Value {
	return Value{low: uint64(number), kind: rk.ValueKindNumber}
}

// ParseValue reads a port, or an address as Kubernetes does, sloppily: leading zeros are decimal, and an IPv4-mapped
// IPv6 address is the IPv4 address. The error is a *ParseError.
func ParseValue(text string) (Value, error) {
	if port, err := strconv.ParseUint(text, 10, 16); err == nil {
		return PortValue(uint16(port)), nil
	}
	var value rk.Value
	if rk.AddressParse(text, &value) != rk.ResultOK {
		return Value{}, &ParseError{Text: text, Message: strconv.Quote(text) + " is neither an IP address nor a port"}
	}
	return valueFromC(&value), nil
}

// Addr returns the address; the zero Addr if the Value is none.
func (v Value) Addr() netip.Addr {
	switch v.kind {
	case rk.ValueKindIPv4:
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(v.low))
		return netip.AddrFrom4(a)
	case rk.ValueKindIPv6:
		var a [16]byte
		binary.BigEndian.PutUint64(a[:8], v.high)
		binary.BigEndian.PutUint64(a[8:], v.low)
		return netip.AddrFrom16(a)
	default:
		return netip.Addr{}
	}
}

// IsValid reports whether it is an address, a port or a number: the zero Value is none.
func (v Value) IsValid() bool { return v != Value{} }

// IsPort reports whether the Value is a port.
func (v Value) IsPort() bool { return v.kind == rk.ValueKindPort }

// Port returns the port; 0 if the Value is not a port.
func (v Value) Port() uint16 {
	if !v.IsPort() {
		return 0
	}
	return uint16(v.low)
}

// IsNumber reports whether the Value is a number.
func (v Value) IsNumber() bool { return v.kind == rk.ValueKindNumber }

// Number returns the number; 0 if the Value is not one.
func (v Value) Number() uint32 {
	if !v.IsNumber() {
		return 0
	}
	return uint32(v.low)
}

// String returns the Value as text; "none" for the zero Value.
func (v Value) String() string {
	if v.IsPort() {
		return strconv.Itoa(int(v.Port()))
	}
	if v.IsNumber() {
		return strconv.FormatUint(v.low, 10)
	}
	if addr := v.Addr(); addr.IsValid() {
		return addr.String()
	}
	return "none"
}

// toC returns the Value as it crosses the border. A zero rk_value would ask for any free value.
func (v Value) toC() *rk.Value {
	c := rk.Value{High: v.high, Low: v.low, Kind: v.kind}
	if c.Kind == 0 {
		c.Kind = rk.ValueKindNone
	}
	return &c
}

func valuesToC(values []Value) []rk.Value {
	all := make([]rk.Value, len(values))
	for i, value := range values {
		all[i] = *value.toC()
	}
	return all
}

func valuesFromC(all []rk.Value) []Value {
	values := make([]Value, len(all))
	for i := range all {
		values[i] = valueFromC(&all[i])
	}
	return values
}

// Run is a maximal run of neighbouring values that are all alike.
type Run struct {
	// First and Last are its ends, both included.
	First, Last Value
	// Len is the number of values, at least 1.
	Len uint64
}

// yieldMembers yields the values of a range whose bits are set in a snapshot, ascending, until yield returns false.
// first is the value at offset 0.
func yieldMembers(first Value, snapshot []byte, yield func(Value) bool) {
	value := first
	for offset, word := range snapshotWords(snapshot) {
		for ; word != 0; word &= word - 1 {
			// No carry: of IPv6 ranges only 65,536 addresses are allocated, which all lie in one /112.
			value.low = first.low + uint64(offset+bits.TrailingZeros64(word))
			if !yield(value) {
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
