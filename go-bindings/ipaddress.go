package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"net/netip"
	"runtime"
	"time"
)

// IPAddressAudit tells what is wrong with ClusterIPs in a cluster where each allocated address is an IPAddress object
// (KEP-1880, the default since Kubernetes 1.33). The API server mends these objects itself, so the outcome has no diff.
//
// Memory: some 200 bytes per Service and per object, outside the Go heap.
type IPAddressAudit struct {
	inner *owned[*C.rk_ip_audit]
	cidrs *rangeCount
}

// NewIPAddressAudit makes an audit without objects.
//
// With now, an IPAddress object that is at most 60 s old may still wait for its Service. With the zero time nothing may:
// for data that nobody works on any more.
func NewIPAddressAudit(now time.Time) (*IPAddressAudit, error) {
	var handle *C.rk_ip_audit
	if code := C.rk_ip_audit_new(C.bool(!now.IsZero()), C.int64_t(now.Unix()), &handle); code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return &IPAddressAudit{own(handle, func(c *C.rk_ip_audit) { C.rk_ip_audit_free(c) }), new(rangeCount)}, nil
}

func (a *IPAddressAudit) pointer() *C.rk_ip_audit {
	if a == nil {
		return nil
	}
	return a.inner.pointer()
}

// Close drops an audit that is not to be finished. It may be called again and beside other calls.
func (a *IPAddressAudit) Close() error {
	C.rk_ip_audit_close(a.pointer())
	runtime.KeepAlive(a)
	return nil
}

// AddCIDR adds one CIDR of a ServiceCIDR object; they may overlap. It gives the index by which the CIDR is named from
// then on: they count up from 0. The error is a *ParseError.
func (a *IPAddressAudit) AddCIDR(cidr string) (index int, err error) {
	if a.pointer() == nil {
		return 0, ErrClosed
	}
	return a.cidrs.add(func() error {
		var details C.rk_error
		code := C.rk_ip_audit_add_cidr(a.pointer(), cText(cidr), C.size_t(len(cidr)), &details)
		runtime.KeepAlive(a)
		if code != C.RK_RESULT_OK {
			return snapshotError(code, &details, "", cidr)
		}
		return nil
	})
}

// ObserveIPAddresses takes note of the objects of a batch, in one crossing. The error may be ErrInvalidBatch; nothing of
// the batch counts then.
func (a *IPAddressAudit) ObserveIPAddresses(objects *IPAddresses) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	c := objects.toC(&pinner)
	code := C.rk_ip_audit_observe_ip_addresses(a.pointer(), &c)
	runtime.KeepAlive(a)
	return resultError(code)
}

// ObserveServices takes note of the Services of a batch, which names names in the same order, in one crossing. The error
// may be ErrInvalidBatch; nothing of the batch counts then.
func (a *IPAddressAudit) ObserveServices(names *ServiceNames, services *Services) error {
	if services.err != nil {
		return services.err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	cNames, cServices := names.toC(&pinner), services.toC(&pinner)
	code := C.rk_ip_audit_observe_services(a.pointer(), &cNames, &cServices)
	runtime.KeepAlive(a)
	return resultError(code)
}

// Finish ends the audit.
func (a *IPAddressAudit) Finish() (*IPAddressOutcome, error) {
	var handle *C.rk_ip_outcome
	code := C.rk_ip_audit_finish(a.pointer(), &handle)
	runtime.KeepAlive(a)
	if code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return &IPAddressOutcome{own(handle, func(c *C.rk_ip_outcome) { C.rk_ip_outcome_free(c) }), a.cidrs.count()}, nil
}

// IPAddressOutcome is what an audit found out. It never changes and may be used from several goroutines at once.
type IPAddressOutcome struct {
	inner  *owned[*C.rk_ip_outcome]
	ranges int
}

// AddressLeak is an IPAddress object of the allocator whose Service does not exist.
type AddressLeak struct {
	// Addr is the address.
	Addr netip.Addr
	// Range is the index of the first CIDR that holds it.
	Range int
	// Object is its place among the IPAddress objects that were observed: 0 is the first.
	Object uint64
}

// CIDRCounts counts the addresses of a CIDR.
type CIDRCounts struct {
	// Size is how many can be allocated, at most 2^64 - 1; Used have an IPAddress object, Free have none.
	Size, Used, Free uint64
	// StaticBand is how many of the lowest form the static band.
	StaticBand uint32
}

func (o *IPAddressOutcome) pointer() *C.rk_ip_outcome {
	if o == nil {
		return nil
	}
	return o.inner.pointer()
}

// Close drops the outcome. It may be called again and beside other calls.
func (o *IPAddressOutcome) Close() error {
	C.rk_ip_outcome_close(o.pointer())
	runtime.KeepAlive(o)
	return nil
}

// Findings gives what is wrong with Services, in their order, and then with IPAddress objects, in theirs. Cost: a few
// crossings per 100 findings.
func (o *IPAddressOutcome) Findings() ([]Finding, error) {
	defer runtime.KeepAlive(o)
	return findingsReader{
		page: func(from C.size_t, page *C.rk_finding, capacity C.size_t, n *C.size_t) C.rk_result {
			return C.rk_ip_outcome_findings(o.pointer(), from, page, capacity, n)
		},
		text: func(index C.size_t, buffer *C.char, capacity C.size_t, length *C.size_t) C.rk_result {
			return C.rk_ip_outcome_finding_text(o.pointer(), index, buffer, capacity, length)
		},
		messages: func(from C.size_t, buffer *C.char, capacity C.size_t, ends *C.size_t, n C.size_t, written *C.size_t) C.rk_result {
			return C.rk_ip_outcome_finding_messages(o.pointer(), from, buffer, capacity, ends, n, written)
		},
	}.read()
}

// Services says how many Services were observed.
func (o *IPAddressOutcome) Services() (uint64, error) {
	var count C.uint64_t
	code := C.rk_ip_outcome_services(o.pointer(), &count)
	runtime.KeepAlive(o)
	return uint64(count), resultError(code)
}

// Leaks gives the IPAddress objects whose Service does not exist, in the order of the objects.
func (o *IPAddressOutcome) Leaks() ([]AddressLeak, error) {
	defer runtime.KeepAlive(o)
	const pageSize = 256
	page := make([]C.rk_leak, pageSize)
	var all []AddressLeak
	for {
		var n C.size_t
		code := C.rk_ip_outcome_leaks(o.pointer(), C.size_t(len(all)), &page[0], pageSize, &n)
		if code != C.RK_RESULT_OK {
			return nil, resultError(code)
		}
		for _, leak := range page[:n] {
			all = append(all, AddressLeak{fromC[netip.Addr](&leak.value), int(leak._range), uint64(leak.object)})
		}
		if n < pageSize {
			return all, nil
		}
	}
}

// CIDRs says how many CIDRs the audit has.
func (o *IPAddressOutcome) CIDRs() int {
	if o == nil {
		return 0
	}
	return o.ranges
}

// CIDR counts the addresses of the CIDR with this index.
func (o *IPAddressOutcome) CIDR(index int) (CIDRCounts, error) {
	var c C.rk_cidr_counts
	code := C.rk_ip_outcome_cidr(o.pointer(), C.size_t(index), &c)
	runtime.KeepAlive(o)
	return CIDRCounts{uint64(c.size), uint64(c.used), uint64(c.free), uint32(c.static_band)}, indexError(code, index)
}

// State says all about one address of the CIDR with this index; false if it does not hand it out.
func (o *IPAddressOutcome) State(index int, addr netip.Addr) (OffsetState, bool, error) {
	var state C.rk_offset_state
	code := C.rk_ip_outcome_state(o.pointer(), C.size_t(index), toC(addr), &state)
	runtime.KeepAlive(o)
	return stateResult(code, &state, index)
}

// Occupancy cuts the CIDR with this index into at most so many cells of equal length; the last may be shorter.
func (o *IPAddressOutcome) Occupancy(index, cells int) ([]Cell, error) {
	all, code := readCells(cells, func(count C.uint32_t, page *C.rk_cell, capacity C.size_t, n *C.size_t) C.rk_result {
		return C.rk_ip_outcome_occupancy(o.pointer(), C.size_t(index), count, page, capacity, n)
	})
	runtime.KeepAlive(o)
	return all, indexError(code, index)
}
