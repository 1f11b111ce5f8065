package rangekeeper

import (
	"iter"
	"math/bits"
	"net/netip"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// LedgerValue is a value of a Ledger: an integer or an address, or a block of them. LedgerValues are compared by ==.
// The zero LedgerValue is none, and no range has it.
type LedgerValue struct{ c rk.LedgerValue }

// IntegerValue returns an integer as a LedgerValue.
func IntegerValue(n uint64) LedgerValue {
	return LedgerValue{rk.LedgerValue{Low: n, Kind: rk.LedgerValueKindInteger}}
}

// IntegerBlockValue returns size integers from first on as a LedgerValue.
func IntegerBlockValue(first, size uint64) LedgerValue {
	return LedgerValue{rk.LedgerValue{Low: first, Size: size, Kind: rk.LedgerValueKindBlock}}
}

// AddressValue returns an address as a LedgerValue. An IPv4-mapped address is the IPv4 address. An address with a zone,
// or that is not valid, is none.
func AddressValue(addr netip.Addr) LedgerValue {
	v := AddrValue(addr)
	c := rk.LedgerValue{High: v.high, Low: v.low}
	switch v.kind {
	case rk.ValueKindIPv4:
		c.Kind = rk.LedgerValueKindIPv4
	case rk.ValueKindIPv6:
		c.Kind = rk.LedgerValueKindIPv6
	}
	return LedgerValue{c}
}

// NetworkValue returns a network as a LedgerValue; its host bits are cleared. A network of IPv4-mapped addresses is the
// one of IPv4 addresses. A network that is not valid is none, and so is one that has other addresses as well.
func NetworkValue(network netip.Prefix) LedgerValue {
	length := network.Bits()
	if network.Addr().Is4In6() {
		length -= 96
	}
	if !network.IsValid() || length < 0 {
		return LedgerValue{}
	}
	network = netip.PrefixFrom(network.Addr().Unmap(), length)
	v := AddressValue(network.Masked().Addr())
	v.c.Size = uint64(length)
	if network.Addr().Is4() {
		v.c.Kind = rk.LedgerValueKindIPv4Network
	} else {
		v.c.Kind = rk.LedgerValueKindIPv6Network
	}
	return v
}

// Integer returns the integer, or the lowest one of a block; 0 for an address or a network.
func (v LedgerValue) Integer() uint64 {
	switch v.c.Kind {
	case rk.LedgerValueKindInteger, rk.LedgerValueKindBlock:
		return v.c.Low
	default:
		return 0
	}
}

// Size returns the number of integers of a block, and 1 for an integer; 0 for an address or a network.
func (v LedgerValue) Size() uint64 {
	switch v.c.Kind {
	case rk.LedgerValueKindInteger:
		return 1
	case rk.LedgerValueKindBlock:
		return v.c.Size
	default:
		return 0
	}
}

// Addr returns the address, or that of a network; the zero Addr for integers.
func (v LedgerValue) Addr() netip.Addr {
	c := Value{high: v.c.High, low: v.c.Low}
	switch v.c.Kind {
	case rk.LedgerValueKindIPv4, rk.LedgerValueKindIPv4Network:
		c.kind = rk.ValueKindIPv4
	case rk.LedgerValueKindIPv6, rk.LedgerValueKindIPv6Network:
		c.kind = rk.ValueKindIPv6
	}
	return c.Addr()
}

// Prefix returns the network; the zero Prefix for anything else.
func (v LedgerValue) Prefix() netip.Prefix {
	switch v.c.Kind {
	case rk.LedgerValueKindIPv4Network, rk.LedgerValueKindIPv6Network:
		return netip.PrefixFrom(v.Addr(), int(v.c.Size))
	default:
		return netip.Prefix{}
	}
}

// String returns "4096", "1000010000/10000", "10.96.0.10" or "10.0.3.16/28"; "none" for the zero LedgerValue.
func (v LedgerValue) String() string {
	text, err := readText(func(buffer []byte, length *uint) rk.Result { return rk.LedgerValueText(&v.c, buffer, length) })
	if err != nil {
		return "none"
	}
	return text
}

// Allocation is values in a row that are in use.
type Allocation struct {
	// First is the first value.
	First LedgerValue
	// Len is how many values; 1 at least.
	Len uint32
}

// Values returns the values, ascending.
func (a Allocation) Values() iter.Seq[LedgerValue] {
	return func(yield func(LedgerValue) bool) {
		value := a.First
		for n := range a.Len {
			if n > 0 {
				value = value.next()
			}
			if !yield(value) {
				return
			}
		}
	}
}

// next returns the value after this one, of the same kind and size. There is one: allocations are values of a range.
func (v LedgerValue) next() LedgerValue {
	var high, low uint64 = 0, 1 // how far it is
	switch v.c.Kind {
	case rk.LedgerValueKindBlock:
		low = v.c.Size
	case rk.LedgerValueKindIPv4Network:
		low = 1 << (32 - v.c.Size)
	case rk.LedgerValueKindIPv6Network:
		if low = 1 << (128 - v.c.Size); low == 0 { // shifted out
			high = 1 << (64 - v.c.Size)
		}
	}
	var carry uint64
	v.c.Low, carry = bits.Add64(v.c.Low, low, 0)
	v.c.High += high + carry
	return v
}

func allocationsFromC(c []rk.LedgerAllocation) []Allocation {
	all := make([]Allocation, len(c))
	for i := range c {
		all[i] = Allocation{LedgerValue{c[i].First}, c[i].Len}
	}
	return all
}

// Want is what an allocation asks for. The zero Want is [WantAny].
type Want struct{ c rk.LedgerChange }

// WantAny asks for any free value, as the pool's Choice says.
func WantAny() Want { return Want{} }

// WantValue asks for this value, if it is free or cools down.
func WantValue(value LedgerValue) Want {
	return Want{rk.LedgerChange{Kind: rk.LedgerChangeAllocateValue, Value: value.c}}
}

// WantRun asks for n values in a row; n is at least 1.
func WantRun(n uint32) Want { return Want{rk.LedgerChange{Kind: rk.LedgerChangeAllocateRun, N: n}} }

// WantBlock asks for 2^bits values in a row, of which the first one is a multiple of 2^bits; bits is at most 31. For an
// address that is its number, so that the block is a network; in a range of blocks its place in the range.
func WantBlock(bits uint8) Want {
	return Want{rk.LedgerChange{Kind: rk.LedgerChangeAllocateBlock, N: uint32(bits)}}
}

func (w Want) change() rk.LedgerChange {
	if w.c.Kind == 0 {
		w.c.Kind = rk.LedgerChangeAllocate
	}
	return w.c
}
