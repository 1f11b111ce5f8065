package rangekeeper

import (
	"net/netip"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// ServiceCIDR is a CIDR of a ServiceCIDR object (KEP-1880): it says which addresses there are where each allocated one
// is an IPAddress object, and in which order they are tried. It never changes, may be copied, and may be used from
// several goroutines at once. The zero value has no addresses.
//
// Other than in a [Range] of [ParseCIDR], all addresses of an IPv6 subnet of 64 bits can be allocated.
type ServiceCIDR struct {
	inner *parsedCIDR
}

type parsedCIDR struct {
	c          rk.ServiceCIDR
	size       uint64
	staticBand uint32
}

// ParseServiceCIDR reads one of spec.cidrs of a ServiceCIDR object. Host bits are cleared. The error is a *ParseError.
func ParseServiceCIDR(cidr string) (ServiceCIDR, error) {
	var details rk.Error
	p := new(parsedCIDR)
	code := rk.ServiceCIDRParse(cidr, &p.c, &details)
	if code != rk.ResultOK {
		return ServiceCIDR{}, parseError(code, &details, cidr)
	}
	var description rk.ServiceCIDRDescription
	rk.ServiceCIDRDescribe(&p.c, &description)
	p.size, p.staticBand = description.Size, description.StaticBand
	return ServiceCIDR{p}, nil
}

func (c ServiceCIDR) pointer() *rk.ServiceCIDR {
	if c.inner == nil {
		return nil
	}
	return &c.inner.c
}

// Size returns the number of addresses that can be allocated: without the network address and, in IPv4, the broadcast
// address; at most 2^64 - 1.
func (c ServiceCIDR) Size() uint64 {
	if c.inner == nil {
		return 0
	}
	return c.inner.size
}

// StaticBand returns the number of addresses in the static band: the lowest ones, which are picked last (KEP-3070).
func (c ServiceCIDR) StaticBand() uint32 {
	if c.inner == nil {
		return 0
	}
	return c.inner.staticBand
}

// OffsetOf returns the distance of addr from the first address that can be allocated, in [0, Size); false if addr never
// is.
func (c ServiceCIDR) OffsetOf(addr netip.Addr) (uint64, bool) {
	var offset uint64
	code := rk.ServiceCIDROffsetOf(c.pointer(), AddrValue(addr).toC(), &offset)
	return offset, code == rk.ResultOK
}

// ValueAt returns the address at offset; false past the end.
func (c ServiceCIDR) ValueAt(offset uint64) (netip.Addr, bool) {
	var value rk.Value
	code := rk.ServiceCIDRValueAt(c.pointer(), offset, &value)
	if code != rk.ResultOK {
		return netip.Addr{}, false
	}
	return valueFromC(&value).Addr(), true
}
