package ipallocator

import (
	"fmt"
	"net"
	"net/netip"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The released tests call these functions. The core library decides their results.

// deleteServiceCIDR reports the deletion of an object.
func (c *MetaAllocator) deleteServiceCIDR(obj any) { c.enqueueServiceCIDR(obj) }

func hostsPerNetwork(subnet *net.IPNet) uint64 {
	return must(rangekeeper.ParseServiceCIDR(subnet.String())).Size()
}

// broadcastAddress returns the highest address of a subnet, which is not allocatable in IPv4.
func broadcastAddress(subnet netip.Prefix) (netip.Addr, error) {
	cidr, err := rangekeeper.ParseServiceCIDR(subnet.String())
	if err != nil {
		return netip.Addr{}, err
	}
	last, ok := cidr.ValueAt(cidr.Size() - 1)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%s has no addresses", subnet)
	}
	if last.Is4() {
		last = last.Next()
	}
	return last, nil
}

// addOffsetAddress counts from any address, not from the first one of a subnet.
func addOffsetAddress(address netip.Addr, offset uint64) (netip.Addr, error) {
	if offset == 0 {
		return address, nil
	}
	bits := 64
	if address.Is4() {
		bits = 0
	}
	cidr, err := rangekeeper.ParseServiceCIDR(netip.PrefixFrom(address, bits).String())
	if err != nil {
		return netip.Addr{}, err
	}
	at := offset - 1
	if first, ok := cidr.OffsetOf(address); ok {
		at += first + 1
	}
	sum, ok := cidr.ValueAt(at)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%s has no address %d after %s", netip.PrefixFrom(address, bits), offset, address)
	}
	return sum, nil
}

// ipIterator returns the addresses from first to last, from an offset on and with wrap, by a CIDR that has both.
func ipIterator(first, last netip.Addr, offset uint64) func() netip.Addr {
	for bits := first.BitLen(); bits >= 0; bits-- {
		cidr := must(rangekeeper.ParseServiceCIDR(netip.PrefixFrom(first, bits).String()))
		low, okLow := cidr.OffsetOf(first)
		high, okHigh := cidr.OffsetOf(last)
		if !okLow || !okHigh {
			continue
		}
		size, n := high-low+1, uint64(0)
		return func() netip.Addr {
			if n == size {
				return netip.Addr{}
			}
			address, _ := cidr.ValueAt(low + (offset+n)%size)
			n++
			return address
		}
	}
	panic(fmt.Sprintf("no CIDR has %s and %s", first, last))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
