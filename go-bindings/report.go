package rangekeeper

import (
	"errors"
	"iter"
	"math"
	"runtime"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Report is the result of an audit. Only RecordRepair, ObserveClaimants and FindFullRanges change it. It may be used
// from several goroutines at once.
type Report struct {
	inner *object[*rk.Report]
	// ranges has the zero Range for a ServiceCIDR.
	ranges []Range
}

// Values names a set of values of a range in a Report.
type Values uint32

const (
	// ValuesSet are to be set in the stored bitmap.
	ValuesSet Values = rk.ValuesSet
	// ValuesClear are to be cleared in the stored bitmap.
	ValuesClear Values = rk.ValuesClear
	// ValuesLeaked are stored though no Service uses them, due to be cleaned or not.
	ValuesLeaked Values = rk.ValuesLeaked
	// ValuesDuplicates are claimed by more than one Service.
	ValuesDuplicates Values = rk.ValuesDuplicates
	// ValuesStored were stored before the audit.
	ValuesStored Values = rk.ValuesStored
	// ValuesInUse are in use by Services.
	ValuesInUse Values = rk.ValuesInUse
	// ValuesNext are to be stored: those in use, and the leaks that stay.
	ValuesNext Values = rk.ValuesNext
)

// Record is the way in which allocations from a range are recorded.
type Record uint32

const (
	// RecordBitmap: in one bitmap.
	RecordBitmap Record = rk.RecordBitmap
	// RecordStale: in a bitmap of ClusterIPs that is left over, as ClusterIPs are IPAddress objects. It was
	// counted only; all of it is taken for in use.
	RecordStale Record = rk.RecordStale
	// RecordIPAddresses: in an IPAddress object each.
	RecordIPAddresses Record = rk.RecordIPAddresses
	// RecordUnseen: in a bitmap that could not be read; values that Services use count as recorded.
	RecordUnseen Record = rk.RecordUnseen
)

// RangeReport counts the values of a range; see Set.
type RangeReport struct {
	Record Record
	// StaticBand is the number of values in the static band, the lowest ones.
	StaticBand uint32
	// Size is the number of values, at most 2^64 - 1.
	Size                                                uint64
	Stored, InUse, Leaked, Next, Set, Clear, Duplicates uint64
	// Dropped values are stored, but the configured range does not have them: after a change of the range.
	Dropped uint64
}

// Leak is a value that is recorded as allocated though no Service uses it.
type Leak struct {
	Value Value
	// Range is the index of the first range that has the value; of an address that none has the first one of its
	// family, and -1 if there is no range of addresses.
	Range int
	// Object is the place of the IPAddress object that records it among those that were observed: 0 is the first. -1 if
	// a bitmap does.
	Object int
	// Remedy is RemedyRepair or RemedyAPIServer: who frees it, if it does not stay.
	Remedy Remedy
	// Severity is SeverityWasted.
	Severity Severity
	// Stays reports whether the repair leaves it for now, since a Service that uses it may still be under way.
	Stays bool
}

func (r *Report) pointer() *rk.Report {
	if r == nil {
		return nil
	}
	return r.inner.pointer()
}

// Close drops the report. It may be called again and beside other calls.
func (r *Report) Close() error {
	rk.ReportFree(r.pointer())
	runtime.KeepAlive(r)
	return nil
}

// Findings returns the findings about Services, in their order, then those about IPAddress objects, in theirs, and then
// those about bitmaps beside such objects; after ObserveClaimants all by their subjects. Cost: a few crossings per 100
// findings.
func (r *Report) Findings() ([]Finding, error) {
	defer runtime.KeepAlive(r)
	return readFindings(r.pointer())
}

// FindFullRanges adds a finding for each range without a free value, and for each of which less than percent of a
// hundred is free: free is what is neither recorded nor in use. The CIDRs of ServiceCIDR objects of one IP family count
// as one range, as servers allocate from all of them; the finding is about the first, and its value names all. Of a
// range whose bitmap could not be read, more may be in use. Stale bitmaps, and those beside IPAddress objects, have
// none. A second call replaces the findings of the first. The error may be ErrInvalidArgument, if percent is above 100.
func (r *Report) FindFullRanges(percent uint8) error {
	defer runtime.KeepAlive(r)
	return resultError(rk.ReportFindFullRanges(r.pointer(), percent))
}

// Claimant is a Service that claims a value that is claimed more than once.
type Claimant struct {
	// Service is its place among the Services that were observed: 0 is the first.
	Service uint64
	// Keeps reports whether it keeps the value, as Report.ObserveClaimants says.
	Keeps bool
	// Tied reports whether only the names decide that it keeps the value, or that another one does: it may as well be
	// the other way round.
	Tied bool
}

// ServiceForm says of a Service which values it should have, and whether it has them.
type ServiceForm struct {
	// NodePort, LoadBalancer and ExternalName are types of Services; another one is ClusterIP.
	NodePort, LoadBalancer, ExternalName bool
	// Headless: spec.clusterIP is None.
	Headless bool
	// OneAddress and TwoAddresses: it has one ClusterIP, or more.
	OneAddress, TwoAddresses bool
	// RequiresDualStack: spec.ipFamilyPolicy is RequireDualStack.
	RequiresDualStack bool
	// WithoutNodePorts: spec.allocateLoadBalancerNodePorts is false.
	WithoutNodePorts bool
	// LacksNodePort: one of spec.ports has no node port.
	LacksNodePort bool
	// Local: spec.externalTrafficPolicy is Local.
	Local bool
	// HealthCheckNodePort: there is a spec.healthCheckNodePort.
	HealthCheckNodePort bool
}

func (f *ServiceForm) toC() (word uint32) {
	for _, one := range []struct {
		is  bool
		bit uint32
	}{
		{f.NodePort, rk.ServiceFormNodePort}, {f.LoadBalancer, rk.ServiceFormLoadBalancer}, {f.ExternalName, rk.ServiceFormExternalName},
		{f.Headless, rk.ServiceFormHeadless}, {f.OneAddress, rk.ServiceFormOneAddress}, {f.TwoAddresses, rk.ServiceFormTwoAddresses},
		{f.RequiresDualStack, rk.ServiceFormRequiresDualStack}, {f.WithoutNodePorts, rk.ServiceFormWithoutNodePorts},
		{f.LacksNodePort, rk.ServiceFormLacksNodePort}, {f.Local, rk.ServiceFormLocal}, {f.HealthCheckNodePort, rk.ServiceFormHealthCheckNodePort},
	} {
		if one.is {
			word |= one.bit
		}
	}
	return word
}

// ObserveForms adds findings about values that Services should have and have not. forms are those of all Services of
// the audit, in the order in which they were observed; with another number of them the error is ErrInvalidArgument.
func (r *Report) ObserveForms(forms []ServiceForm) error {
	words := make([]uint32, len(forms))
	for i := range forms {
		words[i] = forms[i].toC()
	}
	var details rk.Error
	code := rk.ReportObserveForms(r.pointer(), words, &details)
	runtime.KeepAlive(r)
	return detailedError(code, &details)
}

// ObserveClaimants observes the n Services of the audit a second time, in the same order, with names and creation
// times; fill is as of Audit.ObserveAll. It is needed if a value is claimed more than once. After it each finding about
// such a value is about a Service that does not keep it, and names all claimants.
//
// The Service that the IPAddress object refers to keeps an address; the others that claim it keep no port either that
// another Service claims. Else the oldest Service keeps the value. One without a time counts as the youngest; of
// several with one time, the one that an object refers to keeps it, or else the one with the lowest create revision,
// or else the first by namespace and name. The error may be ErrInvalidBatch, or ErrInvalidArgument if there are more
// Services than in the audit.
func (r *Report) ObserveClaimants(n int, fill func(batch *Services, from, to int)) error {
	batch := new(Services)
	if n <= 0 {
		return r.observeClaimants(batch) // which reports a closed report
	}
	for from := 0; from < n; from += servicesPerBatch {
		batch.Reset()
		if fill(batch, from, min(from+servicesPerBatch, n)); batch.err != nil {
			return batch.err
		}
		if err := r.observeClaimants(batch); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) observeClaimants(services *Services) error {
	batch, names := services.toC(), services.names.toC()
	var details rk.Error
	code := rk.ReportObserveClaimants(r.pointer(), &names, &batch, &details)
	runtime.KeepAlive(r)
	return detailedError(code, &details)
}

// ObjectRepair is a write of the API server's repair of IPAddress objects.
type ObjectRepair struct {
	Address Value
	// Removed is the place of the object that is removed or replaced among those that were observed, -1 if there is
	// none.
	Removed int
	// Service is the place of the Service for which an object is created among those that were observed, -1 if none is.
	Service int
}

// ObjectRepairs returns the writes of the API server's repair of IPAddress objects, for data at rest: first those for
// Services, then the removals. After ObserveClaimants the object of an address that is claimed more than once is that
// of the Service that keeps it.
func (r *Report) ObjectRepairs() ([]ObjectRepair, error) {
	defer runtime.KeepAlive(r)
	const pageSize = 256
	page := make([]rk.ObjectRepair, pageSize)
	place := func(c uint64) int {
		if c == rk.NoObject {
			return -1
		}
		return int(c)
	}
	var all []ObjectRepair
	for {
		var n uint
		code := rk.ReportObjectRepairs(r.pointer(), uint(len(all)), page, &n)
		if code != rk.ResultOK {
			return nil, resultError(code)
		}
		for _, c := range page[:n] {
			all = append(all, ObjectRepair{valueFromC(&c.Address), place(c.Removed), place(c.Service)})
		}
		if n < pageSize {
			return all, nil
		}
	}
}

// Leaks returns those of bitmaps by range and value, due to be cleaned or not, then the IPAddress objects of the
// allocator whose Service does not exist, in their order, as far as no other Service uses the address.
func (r *Report) Leaks() ([]Leak, error) {
	defer runtime.KeepAlive(r)
	const pageSize = 256
	page := make([]rk.Leak, pageSize)
	var all []Leak
	for {
		var n uint
		code := rk.ReportLeaks(r.pointer(), uint(len(all)), page, &n)
		if code != rk.ResultOK {
			return nil, resultError(code)
		}
		for _, leak := range page[:n] {
			one := Leak{Value: valueFromC(&leak.Value), Range: rangeIndex(leak.Range), Object: -1, Remedy: Remedy(leak.Remedy), Severity: Severity(leak.Severity), Stays: leak.Stays}
			if leak.Object != rk.NoObject {
				one.Object = int(leak.Object)
			}
			all = append(all, one)
		}
		if n < pageSize {
			return all, nil
		}
	}
}

// RecordRepair records the outcome of the repair of the bitmap with this index. From then on ValuesSet and ValuesClear
// are the values that were set and cleared, ValuesNext those that were read and not cleared, or were set; the other
// leaks stay. A finding whose remedy was the repair is dropped if its value was not set: its Service came after the
// range was read. The error is ErrInvalidArgument if the index is not that of a bitmap that was compared with the
// Services, or a *ValueError: ErrNotInRange; the report then stays as it was.
func (r *Report) RecordRepair(index int, repaired Repaired) error {
	return r.recordRepair(index, rk.RepairDone, repaired)
}

// RecordChosenRepair is RecordRepair for values that somebody chose of what was due: a finding whose value was not set
// stays.
func (r *Report) RecordChosenRepair(index int, repaired Repaired) error {
	return r.recordRepair(index, rk.RepairChosen, repaired)
}

// RecordFailedRepair records that the repair of the bitmap with this index has failed: nothing is known to have been
// set or cleared, all leaks stay, and all findings are left. The error is that of RecordRepair.
func (r *Report) RecordFailedRepair(index int) error {
	return r.recordRepair(index, rk.RepairFailed, Repaired{})
}

func (r *Report) recordRepair(index int, outcome uint32, repaired Repaired) error {
	if index < 0 {
		return indexError(rk.ResultInvalidArgument, index)
	}
	set, cleared := valuesToC(repaired.Set), valuesToC(repaired.Cleared)
	var details rk.Error
	code := rk.ReportRecordRepair(r.pointer(), uint(index), outcome, set, cleared, &details)
	runtime.KeepAlive(r)
	if code == rk.ResultNotInRange && index < len(r.ranges) {
		return outsideError(r.ranges[index], repaired.Set, repaired.Cleared)
	}
	return detailedError(code, &details)
}

// Services returns the number of Services that were observed.
func (r *Report) Services() uint64 {
	var count uint64
	rk.ReportServices(r.pointer(), &count)
	runtime.KeepAlive(r)
	return count
}

// RangeAt returns the range with this index; the zero Range for the CIDR of a ServiceCIDR object, or if there is none.
func (r *Report) RangeAt(index int) Range {
	if r == nil || index < 0 || index >= len(r.ranges) {
		return Range{}
	}
	return r.ranges[index]
}

// Range counts the values of the range with this index; all 0 if there is no such range.
func (r *Report) Range(index int) RangeReport {
	var c rk.RangeReport
	rk.ReportRange(r.pointer(), uint(index), &c)
	runtime.KeepAlive(r)
	return RangeReport{
		Record:     Record(c.Record),
		StaticBand: c.StaticBand,
		Size:       c.Size,
		Stored:     c.Stored,
		InUse:      c.InUse,
		Leaked:     c.Leaked,
		Next:       c.Next,
		Set:        c.Set,
		Clear:      c.Clear,
		Duplicates: c.Duplicates,
		Dropped:    c.Dropped,
	}
}

// Values returns the values of one set of the range with this index, ascending. The sequence is empty if there is no
// such range or set, and after Close; it ends early if the report is closed meanwhile.
func (r *Report) Values(index int, set Values) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for run := range r.Runs(index, set, true) {
			for ; run.Len > 0; run.Len-- {
				if !yield(run.First) {
					return
				}
				// No carry: the addresses of a range that have an offset share their upper 64 bits.
				run.First.low++
			}
		}
	}
}

// Runs returns the runs of values that are (members) or are not in one set of the range with this index, ascending. The
// sequence is empty if there is no such range or set, and after Close; it ends early if the report is closed meanwhile.
func (r *Report) Runs(index int, set Values, members bool) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		page := make([]rk.Run, runsPerPage)
		for from := uint64(0); ; {
			var n uint
			code := rk.ReportRuns(r.pointer(), uint(index), uint32(set), members, from,
				page, &n, &from)
			runtime.KeepAlive(r)
			if code != rk.ResultOK {
				return
			}
			for _, run := range page[:n] {
				if !yield(Run{valueFromC(&run.First), valueFromC(&run.Last), run.Len}) {
					return
				}
			}
			if n < runsPerPage {
				return
			}
		}
	}
}

// Snapshot returns a set of values of the bitmap with this index, in the form of Allocator.Snapshot; ValuesNext is what
// a repair stores. It replaces the content of dst and reuses its capacity.
func (r *Report) Snapshot(index int, set Values, dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(r)
	dst, err := readBytes(dst, func(buffer []byte, length *uint) rk.Result {
		return rk.ReportSnapshot(r.pointer(), uint(index), uint32(set), buffer, length)
	})
	if errors.Is(err, ErrInvalidArgument) {
		return nil, indexError(rk.ResultInvalidArgument, index)
	}
	return dst, err
}

// State returns all that is known of one value of the range with this index; false if the range does not have the
// value, or if there is no such range.
func (r *Report) State(index int, value Value) (OffsetState, bool) {
	var c rk.OffsetState
	code := rk.ReportState(r.pointer(), uint(index), value.toC(), &c)
	runtime.KeepAlive(r)
	if code != rk.ResultOK {
		return OffsetState{}, false
	}
	return OffsetState{
		StaticBand: c.Band == rk.BandStatic,
		Stored:     c.Stored,
		InUse:      c.InUse,
		Duplicate:  c.Duplicate,
		Next:       c.Next,
	}, true
}

// Occupancy cuts the range with this index into at most so many cells of equal length; the last may be shorter. With 0
// or less there are none.
func (r *Report) Occupancy(index, cells int) ([]Cell, error) {
	defer runtime.KeepAlive(r)
	count := uint32(min(max(int64(cells), 0), math.MaxUint32))
	var n uint
	code := rk.ReportOccupancy(r.pointer(), uint(index), count, nil, &n)
	if code != rk.ResultBufferTooSmall {
		return nil, indexError(code, index)
	}
	page := make([]rk.Cell, n)
	if code = rk.ReportOccupancy(r.pointer(), uint(index), count, page, &n); code != rk.ResultOK {
		return nil, indexError(code, index)
	}
	all := make([]Cell, n)
	for i, c := range page {
		all[i] = Cell{c.First, c.Len, c.InUse, c.Leaked, c.Lost, c.Duplicate}
	}
	return all, nil
}
