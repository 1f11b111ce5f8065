package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"net/netip"
	"runtime"
)

// ServiceCIDR is a CIDR of a ServiceCIDR object (KEP-1880): it says which addresses there are where each allocated one is
// an IPAddress object, and in which order they are tried. It never changes, may be copied, and may be used from several
// goroutines at once. The zero value has no addresses.
//
// Other than in a [Range] of [ParseCIDR], all addresses of an IPv6 subnet of 64 bits can be allocated.
type ServiceCIDR struct {
	inner *serviceCIDRHandle
}

type serviceCIDRHandle struct {
	pointer    *C.rk_service_cidr
	size       uint64
	staticBand uint32
}

// ParseServiceCIDR reads one of spec.cidrs of a ServiceCIDR object. Host bits are cleared. The error is a *ParseError.
func ParseServiceCIDR(cidr string) (ServiceCIDR, error) {
	var details C.rk_error
	h := new(serviceCIDRHandle)
	code := C.rk_service_cidr_parse(cText(cidr), C.size_t(len(cidr)), &h.pointer, &details)
	if code != C.RK_RESULT_OK {
		return ServiceCIDR{}, parseError(code, &details, cidr)
	}
	runtime.AddCleanup(h, func(pointer *C.rk_service_cidr) { C.rk_service_cidr_free(pointer) }, h.pointer)
	var description C.rk_service_cidr_description
	C.rk_service_cidr_describe(h.pointer, &description)
	h.size, h.staticBand = uint64(description.size), uint32(description.static_band)
	return ServiceCIDR{h}, nil
}

func (c ServiceCIDR) pointer() *C.rk_service_cidr {
	if c.inner == nil {
		return nil
	}
	return c.inner.pointer
}

// Size returns the number of addresses that can be allocated: without the network address and, in IPv4, the broadcast address; at
// most 2^64 - 1.
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

// OffsetOf returns the distance of addr from the first address that can be allocated, in [0, Size); false if addr never is.
func (c ServiceCIDR) OffsetOf(addr netip.Addr) (uint64, bool) {
	var offset C.uint64_t
	code := C.rk_service_cidr_offset_of(c.pointer(), AddrValue(addr).toC(), &offset)
	runtime.KeepAlive(c.inner)
	return uint64(offset), code == C.RK_RESULT_OK
}

// ValueAt returns the address at offset; false past the end.
func (c ServiceCIDR) ValueAt(offset uint64) (netip.Addr, bool) {
	var value C.rk_value
	code := C.rk_service_cidr_value_at(c.pointer(), C.uint64_t(offset), &value)
	runtime.KeepAlive(c.inner)
	if code != C.RK_RESULT_OK {
		return netip.Addr{}, false
	}
	return valueFromC(&value).Addr(), true
}
