package rangekeeper

import (
	"slices"
	"sync"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// ranges are those of an audit or a pass: the library numbers them in the order in which they are added.
type ranges struct {
	mutex sync.Mutex
	// all has the zero Range for a ServiceCIDR.
	all []Range
}

// add runs work, which adds a range, and returns that range's index.
func (r *ranges) add(added Range, work func() error) (index int, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err := work(); err != nil {
		return 0, err
	}
	r.all = append(r.all, added)
	return len(r.all) - 1, nil
}

// list returns a copy of the ranges.
func (r *ranges) list() []Range {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.all)
}

// Reason says why something was found; its text is the reason of the reference's Event, if it has one.
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
	// ReasonPortAlreadyAllocated: two Services use one port, with the same protocol or not.
	ReasonPortAlreadyAllocated
	// ReasonPortOutOfRange: a Service uses a port outside the range.
	ReasonPortOutOfRange
	// ReasonBitmapDisagrees: a bitmap of ClusterIPs that servers still write beside IPAddress objects records an
	// address that no object and no Service has, or does not record one that they have. No Event has this reason.
	ReasonBitmapDisagrees
	// ReasonIPAddressWithoutParent: an IPAddress object that kube-apiserver's repair reads has no spec.parentRef.
	// No server repairs it. No Event has this reason.
	ReasonIPAddressWithoutParent
	// ReasonIPAddressNotCanonical: the name of an IPAddress object is not the canonical text of an address, by which
	// servers look for it. No Event has this reason.
	ReasonIPAddressNotCanonical
	// ReasonClusterIPNotCanonical: a Service has an address in another text than the canonical one, which is the name
	// of its IPAddress object. No Event has this reason.
	ReasonClusterIPNotCanonical
	// ReasonRangeFull: no value of a range is free. No Event has this reason.
	ReasonRangeFull
	// ReasonRangeNearlyFull: few values of a range are free; see Report.FindFullRanges. No Event has this reason.
	ReasonRangeNearlyFull
	// ReasonRangeNotReadable: the stored object of a range that servers read cannot be read. No Event has this reason.
	ReasonRangeNotReadable
	// ReasonRangeMissing: the stored object of a range is missing or not initialised, though Services have values of
	// its kind. No Event has this reason.
	ReasonRangeMissing
	// ReasonClusterIPMissing: a Service that needs a ClusterIP, or one of each IP family, has none. No Event has this
	// reason.
	ReasonClusterIPMissing
	// ReasonNodePortMissing: a Service of type NodePort or LoadBalancer has a port without a node port. No Event has
	// this reason.
	ReasonNodePortMissing
	// ReasonHealthCheckNodePortMissing: a Service of type LoadBalancer with externalTrafficPolicy Local has no
	// healthCheckNodePort. No Event has this reason.
	ReasonHealthCheckNodePortMissing
)

// IsDuplicate reports whether a value is claimed more than once: Report.ObserveClaimants finds out by which Services.
func (r Reason) IsDuplicate() bool {
	return r == ReasonClusterIPAlreadyAllocated || r == ReasonPortAlreadyAllocated
}

// SubjectKind is the kind of a Subject.
type SubjectKind uint32

const (
	// SubjectService is a Service.
	SubjectService SubjectKind = iota
	// SubjectIPAddress is an IPAddress object.
	SubjectIPAddress
	// SubjectServiceCIDR is a CIDR of a ServiceCIDR object, for an address of it that no other object has.
	SubjectServiceCIDR
	// SubjectRange is a range itself.
	SubjectRange
	// SubjectStored is the stored object of a range that the audit does not have.
	SubjectStored
)

// Subject is the object that a finding is about.
type Subject struct {
	Kind SubjectKind
	// Ordinal is its place among those that were observed: 0 is the first. For a CIDR and a range it is the index of
	// the range, and for a stored object one of those of rk.Bitmap*.
	Ordinal uint64
}

// Remedy says who repairs what a finding is about.
type Remedy uint32

const (
	// RemedyRepair: a repair of the bitmap.
	RemedyRepair Remedy = rk.RemedyRepair
	// RemedyAPIServer: kube-apiserver, which repairs IPAddress objects when it starts and every few minutes after that.
	RemedyAPIServer Remedy = rk.RemedyAPIServer
	// RemedyOwner: only the owner: of a Service, who recreates it or widens the range, or an administrator, who deletes
	// an IPAddress object.
	RemedyOwner Remedy = rk.RemedyOwner
)

// Severity is the harm of a finding or a leak.
type Severity uint32

const (
	// SeverityBreaksTraffic: two Services answer on one value (on a port if their protocols are the same), or no range
	// hands the value out, so that nothing is bound to forward it; or an IPAddress object is one that no API server
	// accepts.
	SeverityBreaksTraffic Severity = rk.SeverityBreaksTraffic
	// SeverityDuplicateRisk: the value is in use and not recorded, or not for good, so that a server may allocate it a
	// second time.
	SeverityDuplicateRisk Severity = rk.SeverityDuplicateRisk
	// SeverityExhausted: no value or few values are free, so that new Services are refused, or soon will be. It is
	// worse than SeverityWasted.
	SeverityExhausted Severity = rk.SeverityExhausted
	// SeverityWasted: the value is recorded and not in use, so that no server allocates it.
	SeverityWasted Severity = rk.SeverityWasted
)

// Severity returns that of the findings with this reason; 0 for a number that is no reason.
func (r Reason) Severity() Severity { return Severity(rk.ReasonSeverity(uint32(r))) }

// Finding is one thing that is wrong.
type Finding struct {
	Reason  Reason
	Subject Subject
	// Range is the range that it concerns, by its index; -1 if the audit has no range of addresses.
	Range int
	// Remedy says who repairs it.
	Remedy Remedy
	// Stays reports whether the repair leaves it for now, since a Service that uses the value may still be under way.
	Stays bool
	// Value is the address, port or text that is wrong.
	Value string
	// Message is for people.
	Message string
	// Claimants are the Services that claim the value, the one that keeps it first, then by age: only for a value that
	// is claimed more than once, after Report.ObserveClaimants.
	Claimants []Claimant
}

// OffsetState is all that is known about one value after an audit.
type OffsetState struct {
	// StaticBand reports whether the value lies in the static band.
	StaticBand bool
	// Stored reports whether it was recorded as allocated.
	Stored bool
	// InUse reports whether a Service uses it.
	InUse bool
	// Duplicate reports whether more than one Service claims it.
	Duplicate bool
	// Next reports whether it is allocated after the repair.
	Next bool
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

// How many findings cross at once.
const findingsPerPage = 128

// rangeIndex returns the index of a range that a finding or a leak names, -1 if it names none.
func rangeIndex(c uint32) int {
	if c == rk.NoRange {
		return -1
	}
	return int(c)
}

func readFindings(report *rk.Report) ([]Finding, error) {
	page := make([]rk.Finding, findingsPerPage)
	var all []Finding
	for {
		var n uint
		if code := rk.ReportFindings(report, uint(len(all)), page, &n); code != rk.ResultOK {
			return nil, resultError(code)
		}
		for _, c := range page[:n] {
			all = append(all, Finding{
				Reason:  Reason(c.Reason),
				Subject: Subject{SubjectKind(c.SubjectKind), c.Subject},
				Range:   rangeIndex(c.Range),
				Remedy:  Remedy(c.Remedy),
				Stays:   c.Stays,
			})
		}
		if n < findingsPerPage {
			if err := readFindingTexts(report, all); err != nil {
				return nil, err
			}
			return all, readClaimants(report, all)
		}
	}
}

// readClaimants fills the claimants in, after the values: all findings about one value share a list.
func readClaimants(report *rk.Report, findings []Finding) error {
	buffer := make([]rk.Claimant, 16)
	ofValue := map[string][]Claimant{}
	for i := range findings {
		f := &findings[i]
		if !f.Reason.IsDuplicate() {
			continue
		}
		if claimants, ok := ofValue[f.Value]; ok {
			f.Claimants = claimants
			continue
		}
		var n uint
		code := rk.ReportClaimants(report, uint(i), buffer, &n)
		if code == rk.ResultBufferTooSmall {
			buffer = make([]rk.Claimant, n)
			code = rk.ReportClaimants(report, uint(i), buffer, &n)
		}
		if code != rk.ResultOK {
			return resultError(code)
		}
		for _, c := range buffer[:n] {
			f.Claimants = append(f.Claimants, Claimant{c.Service, c.Keeps, c.Tied})
		}
		ofValue[f.Value] = f.Claimants
	}
	return nil
}

// readFindingTexts fills values and messages in.
func readFindingTexts(report *rk.Report, findings []Finding) error {
	buffer := make([]byte, 1<<14)
	var ends [2 * findingsPerPage]uint
	for done := 0; done < len(findings); {
		var n uint
		code := rk.ReportFindingTexts(report, uint(done), buffer, ends[:], &n)
		if code == rk.ResultBufferTooSmall {
			buffer = make([]byte, 2*len(buffer))
			continue
		}
		if code != rk.ResultOK {
			return resultError(code)
		}
		var begin uint
		for i := range int(n) {
			value, message := ends[2*i], ends[2*i+1]
			findings[done].Value, findings[done].Message = string(buffer[begin:value]), string(buffer[value:message])
			begin, done = message, done+1
		}
	}
	return nil
}
