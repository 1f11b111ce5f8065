package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"strconv"
	"sync"
	"unsafe"
)

// rangeCount gives the ranges of a pass their indexes, which the library does by the order in which they are added.
type rangeCount struct {
	mutex sync.Mutex
	n     int
}

// add runs work, which adds a range, and gives that range's index.
func (c *rangeCount) add(work func() error) (index int, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := work(); err != nil {
		return 0, err
	}
	c.n++
	return c.n - 1, nil
}

func (c *rangeCount) count() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.n
}

// Reason says why something was found; its text is the reason of the reference's Event.
type Reason uint32

const (
	// ReasonClusterIPNotValid: a ClusterIP that is no address, or of a family that no range has.
	ReasonClusterIPNotValid Reason = iota + 1
	// ReasonClusterIPNotAllocated: a Service uses an address that is not recorded as allocated.
	ReasonClusterIPNotAllocated
	// ReasonClusterIPAlreadyAllocated: two Services use one address.
	ReasonClusterIPAlreadyAllocated
	// ReasonClusterIPOutOfRange: a Service uses an address that no range hands out.
	ReasonClusterIPOutOfRange
	// ReasonServiceCIDRFull: a Service uses an address of a range that has no allocatable address at all.
	ReasonServiceCIDRFull
	// ReasonIPAddressNotAllocated: an IPAddress object of the allocator refers to something other than a Service.
	ReasonIPAddressNotAllocated
	// ReasonIPAddressWrongReference: an IPAddress object refers to a Service that does not use the address.
	ReasonIPAddressWrongReference
	// ReasonPortNotAllocated: a Service uses a port that is not recorded as allocated.
	ReasonPortNotAllocated
	// ReasonPortAlreadyAllocated: two Services use one port.
	ReasonPortAlreadyAllocated
	// ReasonPortOutOfRange: a Service uses a port outside the range.
	ReasonPortOutOfRange
)

// String gives the reason as the reference's Events spell it.
func (r Reason) String() string { return C.GoString(C.rk_reason_name(C.uint32_t(r))) }

// SubjectKind is what a finding is about.
type SubjectKind uint32

const (
	// SubjectService is a Service.
	SubjectService SubjectKind = iota
	// SubjectIPAddress is an IPAddress object.
	SubjectIPAddress
)

// Subject is what a finding is about.
type Subject struct {
	Kind SubjectKind
	// Ordinal is its place among those that were observed: 0 is the first.
	Ordinal uint64
}

// Finding is one thing that is wrong.
type Finding struct {
	Reason  Reason
	Subject Subject
	// Range is the range that it concerns: the index that AddCIDR or AddPorts gave.
	Range int
	// Mendable says whether a repair of the ranges, or the API server at its start, mends it without the owner's help.
	Mendable bool
	// Value is the address, port or text that is wrong.
	Value string
	// Message is for people.
	Message string
}

// OffsetState is all that is known about one value after a pass.
type OffsetState struct {
	// StaticBand says whether the value lies in the static band.
	StaticBand bool
	// Stored says whether it was recorded as allocated.
	Stored bool
	// InUse says whether a Service uses it.
	InUse bool
	// Duplicate says whether more than one Service claims it.
	Duplicate bool
	// Next says whether it is allocated after the repair.
	Next bool
}

// stateResult gives the answer to a question about one value of one range.
func stateResult(code C.rk_result, c *C.rk_offset_state, index int) (OffsetState, bool, error) {
	switch code {
	case C.RK_RESULT_OK:
		return OffsetState{
			StaticBand: c.band == C.RK_BAND_STATIC,
			Stored:     bool(c.stored),
			InUse:      bool(c.in_use),
			Duplicate:  bool(c.duplicate),
			Next:       bool(c.next),
		}, true, nil
	case C.RK_RESULT_NOT_IN_RANGE:
		return OffsetState{}, false, nil
	default:
		return OffsetState{}, false, indexError(code, index)
	}
}

// Cell is one stretch of a range, for an occupancy map.
type Cell struct {
	// First is the offset of its first value, Len how many it has.
	First, Len uint64
	// InUse counts values that Services use.
	InUse uint64
	// Leaked counts values that are recorded as allocated though no Service uses them.
	Leaked uint64
	// Lost counts values that Services use though they are not recorded; part of InUse.
	Lost uint64
	// Duplicate counts values that more than one Service claims; part of InUse.
	Duplicate uint64
}

func readCells(cells int, read func(count C.uint32_t, page *C.rk_cell, capacity C.size_t, n *C.size_t) C.rk_result) ([]Cell, C.rk_result) {
	page := make([]C.rk_cell, max(cells, 1))
	var n C.size_t
	code := read(C.uint32_t(len(page)), &page[0], C.size_t(len(page)), &n)
	if code != C.RK_RESULT_OK {
		return nil, code
	}
	all := make([]Cell, n)
	for i, c := range page[:n] {
		all[i] = Cell{uint64(c.first), uint64(c.len), uint64(c.in_use), uint64(c.leaked), uint64(c.lost), uint64(c.duplicate)}
	}
	return all, code
}

// findingsReader is how the findings of an outcome cross the border.
type findingsReader struct {
	page     func(from C.size_t, page *C.rk_finding, capacity C.size_t, n *C.size_t) C.rk_result
	text     func(index C.size_t, buffer *C.char, capacity C.size_t, length *C.size_t) C.rk_result
	messages func(from C.size_t, buffer *C.char, capacity C.size_t, ends *C.size_t, n C.size_t, written *C.size_t) C.rk_result
}

// How many findings cross at once.
const findingsPerPage = 128

func (r findingsReader) read() ([]Finding, error) {
	page := make([]C.rk_finding, findingsPerPage)
	var all []Finding
	for {
		var n C.size_t
		if code := r.page(C.size_t(len(all)), &page[0], findingsPerPage, &n); code != C.RK_RESULT_OK {
			return nil, resultError(code)
		}
		for i := range page[:n] {
			finding, err := r.fromC(C.size_t(len(all)), &page[i])
			if err != nil {
				return nil, err
			}
			all = append(all, finding)
		}
		if n < findingsPerPage {
			return all, r.readMessages(all)
		}
	}
}

// readMessages fills the messages in.
func (r findingsReader) readMessages(findings []Finding) error {
	buffer := make([]byte, 1<<14)
	var ends [findingsPerPage]C.size_t
	for done := 0; done < len(findings); {
		var n C.size_t
		code := r.messages(C.size_t(done), (*C.char)(unsafe.Pointer(&buffer[0])), C.size_t(len(buffer)), &ends[0], findingsPerPage, &n)
		if code == C.RK_RESULT_BUFFER_TOO_SMALL {
			buffer = make([]byte, 2*len(buffer))
			continue
		}
		if code != C.RK_RESULT_OK {
			return resultError(code)
		}
		var begin C.size_t
		for _, end := range ends[:n] {
			findings[done].Message = string(buffer[begin:end])
			begin, done = end, done+1
		}
	}
	return nil
}

func (r findingsReader) fromC(index C.size_t, c *C.rk_finding) (finding Finding, err error) {
	finding = Finding{
		Reason:   Reason(c.reason),
		Subject:  Subject{SubjectKind(c.subject_kind), uint64(c.subject)},
		Range:    int(c._range),
		Mendable: bool(c.mendable),
	}
	switch c.value_kind {
	case C.RK_VALUE_KIND_PORT:
		finding.Value = strconv.FormatInt(int64(c.port), 10)
	case C.RK_VALUE_KIND_TEXT:
		finding.Value, err = readText(func(buffer *C.char, capacity C.size_t, length *C.size_t) C.rk_result {
			return r.text(index, buffer, capacity, length)
		})
	default:
		finding.Value = AnyValue{c.value}.String()
	}
	return finding, err
}
