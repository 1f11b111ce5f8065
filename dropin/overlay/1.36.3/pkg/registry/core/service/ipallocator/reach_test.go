package ipallocator

import (
	"fmt"
	"iter"
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

// ipIterator returns the addresses from first to last, from an offset on and with wrap: candidates of the smallest CIDR in
// whose dynamic band they are.
func ipIterator(first, last netip.Addr, offset uint64) func() netip.Addr {
	for bits := first.BitLen(); bits > 0; bits-- {
		cidr := must(rangekeeper.ParseServiceCIDR(netip.PrefixFrom(first, bits).String()))
		low, okLow := cidr.OffsetOf(first)
		_, okHigh := cidr.OffsetOf(last)
		band := uint64(cidr.StaticBand())
		if !okLow || !okHigh || low < band {
			continue
		}
		next, stop := iter.Pull(cidr.Candidates(low - band + offset))
		return func() netip.Addr {
			for {
				address, ok := next()
				if !ok {
					stop()
					return netip.Addr{}
				}
				if offset, _ := cidr.OffsetOf(address); offset >= band && !address.Less(first) && !last.Less(address) {
					return address
				}
			}
		}
	}
	panic(fmt.Sprintf("no CIDR has %s to %s in its dynamic band", first, last))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
