package rangekeeper

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Audit is one pass over all Services, which compares them with the recorded allocations: in bitmaps, or since
// Kubernetes 1.33 in IPAddress objects (KEP-1880). Read the recorded allocations first and list the Services after
// that.
//
// It may be used from several goroutines at once, though the order of Services is then the order of the calls. Where
// ClusterIPs are IPAddress objects, it takes some 100 bytes per Service and per object until it is closed or
// unreachable.
type Audit struct {
	inner  *object[*rk.Audit]
	ranges *ranges
}

// Stored is the range and data of a stored range object.
type Stored struct {
	// Range is the range as text. Empty means that the object was not initialised yet: the configured range is taken.
	Range string
	// Data is the bitmap; see Allocator.Snapshot.
	Data []byte
}

// NewAudit makes an audit without ranges, of a cluster whose ClusterIPs are in bitmaps.
// All leaks in bitmaps are cleaned at once, which is right only where nobody allocates meanwhile.
func NewAudit() (*Audit, error) { return newAudit(nil, false, time.Time{}) }

// NewIPAddressAudit makes an audit without ranges, of a cluster whose ClusterIPs are IPAddress objects. A bitmap of
// ClusterIPs is stale there unless CompareBitmap finds that servers still write it: it is counted, and not compared
// with the Services.
//
// With now, an IPAddress object that is at most 60 s old may still wait for its Service. With the zero time nothing
// may: for data that nobody works on any more.
func NewIPAddressAudit(now time.Time) (*Audit, error) { return newAudit(nil, true, now) }

// NewAudit is as [NewAudit], with counters: a leak in a bitmap stays until enough audits in a row have seen it.
func (p *LeakTracker) NewAudit() (*Audit, error) { return p.newAudit(false, time.Time{}) }

// NewIPAddressAudit is as [NewIPAddressAudit], with counters for the leaks in bitmaps.
func (p *LeakTracker) NewIPAddressAudit(now time.Time) (*Audit, error) { return p.newAudit(true, now) }

func (p *LeakTracker) newAudit(ipAddresses bool, now time.Time) (*Audit, error) {
	if p.pointer() == nil {
		return nil, ErrClosed
	}
	return newAudit(p, ipAddresses, now)
}

func newAudit(passes *LeakTracker, ipAddresses bool, now time.Time) (*Audit, error) {
	var handle *rk.Audit
	code := rk.AuditNew(passes.pointer(), ipAddresses, secondsOf(now), &handle)
	runtime.KeepAlive(passes)
	if code != rk.ResultOK {
		return nil, resultError(code)
	}
	return &Audit{own(handle, rk.AuditFree), new(ranges)}, nil
}

// secondsOf returns a time as the library has it; nil if it is zero.
func secondsOf(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	unix := t.Unix()
	return &unix
}

func (a *Audit) pointer() *rk.Audit {
	if a == nil {
		return nil
	}
	return a.inner.pointer()
}

// Close drops an audit that is not to be finished. It may be called again and beside other calls.
func (a *Audit) Close() error {
	rk.AuditFree(a.pointer())
	runtime.KeepAlive(a)
	return nil
}

// AddBitmap adds a configured range of addresses or ports, with the bitmap that is stored for it; the first range of
// addresses is the primary range. It returns the index that names the range from then on: ranges of all sorts count up
// from 0.
//
// The stored range may differ from the configured one, after a change of the cluster's configuration: values that both
// have are taken over. All ranges are added before the first Service is observed. Errors: ErrSameKind,
// ErrInvalidArgument after the first Service, *ParseError (of the stored range), *MismatchedRangeError (one of the two
// ranges is of addresses, the other of ports), *BitsPastRangeError.
func (a *Audit) AddBitmap(r Range, stored Stored) (index int, err error) {
	if a.pointer() == nil {
		return 0, ErrClosed
	}
	if err := r.check(); err != nil {
		return 0, err
	}
	return a.ranges.add(r, func() error {
		var details rk.Error
		code := rk.AuditAddBitmap(a.pointer(), r.pointer(),
			stored.Range, stored.Data, &details)
		runtime.KeepAlive(a)
		switch code {
		case rk.ResultOK:
			return nil
		case rk.ResultInvalidRange, rk.ResultInvalidUTF8:
			return parseError(code, &details, stored.Range)
		default:
			return snapshotError(code, &details, r.String(), stored.Range)
		}
	})
}

// AddUnseen adds a range whose bitmap cannot be read, as over the Kubernetes API; index as of AddBitmap. Values outside
// the range and values of two Services are findings. Known are values that are known to be recorded, as an API server
// refuses them: those that no Service uses are leaks. Other leaks are unknown. Errors: ErrSameKind, ErrInvalidArgument
// after the first Service, *ValueError of a known value that is not in the range.
func (a *Audit) AddUnseen(r Range, known []Value) (index int, err error) {
	if a.pointer() == nil {
		return 0, ErrClosed
	}
	if err := r.check(); err != nil {
		return 0, err
	}
	var data []byte
	if len(known) > 0 {
		allocator, err := NewAllocator(r, Contiguous, 0)
		if err != nil {
			return 0, err
		}
		for _, value := range known {
			if err := allocator.Allocate(value); err != nil && !errors.Is(err, ErrAlreadyAllocated) {
				return 0, err
			}
		}
		if data, err = allocator.Snapshot(nil); err != nil {
			return 0, err
		}
	}
	return a.ranges.add(r, func() error {
		return a.addUnseen(r.pointer(), data)
	})
}

// WithoutClusterIPRanges says that not all ranges of ClusterIPs are known: of addresses of an IP family without one,
// only those that are not valid and those of two Services are findings.
func (a *Audit) WithoutClusterIPRanges() error { return a.addUnseen(nil, nil) }

func (a *Audit) addUnseen(r *rk.Range, known []byte) error {
	var details rk.Error
	code := rk.AuditAddUnseen(a.pointer(), r, known, &details)
	runtime.KeepAlive(a)
	return detailedError(code, &details)
}

// CompareBitmap compares the bitmap of ClusterIPs at an index with the IPAddress objects and the Services, if servers
// still write it: those of Kubernetes 1.33 do, those of 1.34 or later do not, and leave it in etcd. written is the
// revision of its last write; upgraded the create revision of an object that only servers of 1.34 or later write, or 0
// if there is none. The error is ErrInvalidArgument if there is no such bitmap beside IPAddress
// objects, and after the first Service.
func (a *Audit) CompareBitmap(index int, written, upgraded uint64) error {
	var details rk.Error
	code := rk.AuditCompareBitmap(a.pointer(), uint(index), written, upgraded, &details)
	runtime.KeepAlive(a)
	return detailedError(code, &details)
}

// AddServiceCIDR adds one CIDR of a ServiceCIDR object; they may overlap. From one that is not ready, or is being
// deleted, servers allocate no new address, and it has no free ones; the addresses that Services have stay theirs.
// Index as of AddBitmap. The error is a *ParseError, or ErrInvalidArgument in an audit of bitmaps and after the first
// Service.
func (a *Audit) AddServiceCIDR(cidr string, isReady bool) (index int, err error) {
	if a.pointer() == nil {
		return 0, ErrClosed
	}
	return a.ranges.add(Range{}, func() error {
		var details rk.Error
		code := rk.AuditAddServiceCIDR(a.pointer(), cidr, isReady, &details)
		runtime.KeepAlive(a)
		if code == rk.ResultInvalidRange || code == rk.ResultInvalidUTF8 {
			return parseError(code, &details, cidr)
		}
		return detailedError(code, &details)
	})
}

// ObserveIPAddresses records the objects of a batch, in one crossing. The error may be ErrInvalidBatch; nothing of the
// batch counts then. In an audit of bitmaps and after the first Service it is ErrInvalidArgument.
func (a *Audit) ObserveIPAddresses(objects *IPAddresses) error {
	if objects == nil {
		return fmt.Errorf("%w: the batch is nil", ErrInvalidArgument)
	}
	c := objects.toC()
	var details rk.Error
	code := rk.AuditObserveIPAddresses(a.pointer(), &c, &details)
	runtime.KeepAlive(a)
	return detailedError(code, &details)
}

// Observe records the Services of a batch, in one crossing. Cost: some 30 ns per address or port, whatever the size of
// the ranges. Addresses count only if a CIDR was added, ports only if a range of ports was. Where ClusterIPs are
// IPAddress objects the Services need names. The error may be ErrInvalidBatch; nothing of the batch counts then.
func (a *Audit) Observe(services *Services) error {
	if services == nil {
		return fmt.Errorf("%w: the batch is nil", ErrInvalidArgument)
	}
	if services.err != nil {
		return services.err
	}
	c := services.toC()
	var names *rk.ServiceNames
	if services.names.count > 0 {
		named := services.names.toC()
		names = &named
	}
	var details rk.Error
	code := rk.AuditObserveServices(a.pointer(), names, &c, &details)
	runtime.KeepAlive(a)
	return detailedError(code, &details)
}

// How many Services ObserveAll has in a batch: some 100 KiB.
const servicesPerBatch = 4096

// batches are ObserveAll's, kept for the next pass.
var batches = sync.Pool{New: func() any { return new(Services) }}

// ObserveAll records n Services: fill is called to add those from one index up to another to a batch, until all
// are added. While the core works on one batch, fill works on the next ones, so that two processors are busy; fill is
// called by this goroutine alone. After an error, which is as of Observe, the rest is not observed.
func (a *Audit) ObserveAll(n int, fill func(batch *Services, from, to int)) error {
	if n <= 0 {
		return a.Observe(new(Services)) // which reports a closed audit
	}
	// With fewer batches both sides would often wait for each other, which takes the system as long as a batch.
	const several = 4
	free, full := make(chan *Services, several), make(chan *Services, several)
	for range several {
		free <- batches.Get().(*Services)
	}
	var err error
	observed := make(chan struct{})
	go func() {
		defer close(observed)
		for n := 0; ; n++ {
			batch, more := <-full
			if !more {
				return
			}
			if err == nil {
				if err = a.Observe(batch); err != nil {
					err = fmt.Errorf("Services %d to %d: %w", n*servicesPerBatch, n*servicesPerBatch+batch.Len()-1, err)
				}
			}
			batch.Reset()
			free <- batch
		}
	}()
	func() {
		// Also when fill panics, so that nothing is observed after this call.
		defer func() {
			close(full)
			<-observed
		}()
		for from := 0; from < n; from += servicesPerBatch {
			to := min(from+servicesPerBatch, n)
			batch := <-free
			fill(batch, from, to)
			if batch.Len() != to-from && batch.err == nil {
				batch.err = fmt.Errorf("%w: the number of Services is %d instead of %d", ErrInvalidBatch, batch.Len(), to-from)
			}
			full <- batch
		}
	}()
	for range several {
		batches.Put(<-free)
	}
	return err
}

// Presence is the state of a bitmap's stored object.
type Presence uint32

const (
	// Missing: there is no object.
	Missing Presence = rk.PresenceMissing
	// Uninitialised: there is an object without a range; no kube-apiserver has set it up yet.
	Uninitialised Presence = rk.PresenceUninitialised
	// Initialised: there is an object with a range.
	Initialised Presence = rk.PresenceInitialised
	// Unseen: the source does not show whether there is an object, as the Kubernetes API does not.
	Unseen Presence = rk.PresenceUnseen
	// Unreadable: there is an object that cannot be read.
	Unreadable Presence = rk.PresenceUnreadable
)

// ClusterIPRecords says where a cluster records its ClusterIPs.
type ClusterIPRecords uint32

const (
	// RecordsUnknown: nothing that records ClusterIPs is stored, as no kube-apiserver has started.
	RecordsUnknown ClusterIPRecords = rk.ClusterIPRecordsUnknown
	// RecordsInBitmaps: in bitmaps, as Kubernetes 1.32 does.
	RecordsInBitmaps ClusterIPRecords = rk.ClusterIPRecordsBitmaps
	// RecordsInObjects: in IPAddress objects, as Kubernetes 1.34 does. There is no bitmap, or the source does not show
	// bitmaps.
	RecordsInObjects ClusterIPRecords = rk.ClusterIPRecordsObjects
	// RecordsInBoth: in IPAddress objects, and there are bitmaps beside them, which servers of Kubernetes 1.33 still
	// write. Audit.CompareBitmap finds out whether they are written.
	RecordsInBoth ClusterIPRecords = rk.ClusterIPRecordsBoth
)

// ClusterIPRecordsOf decides where a cluster records its ClusterIPs (KEP-1880). objects is the number of ServiceCIDR
// and IPAddress objects, those among them that cannot be read; bitmap is the state of that of the primary range, or if
// it is missing of the secondary one.
func ClusterIPRecordsOf(objects int, bitmap Presence) ClusterIPRecords {
	return ClusterIPRecords(rk.ClusterIPRecordsOf(uint64(objects), uint32(bitmap)))
}

// StoreContent is what a store has of a cluster.
type StoreContent uint32

const (
	// StoredCluster: all of it, or what a kube-apiserver keeps beside its Services in another store.
	StoredCluster StoreContent = rk.StoreContentCluster
	// StoredServices: the Services, stored ranges, and nothing else. It is the other store of a kube-apiserver with
	// --etcd-servers-overrides=/services#....
	StoredServices StoreContent = rk.StoreContentServices
)

// StoreContentOf decides what a store has of a cluster by the numbers of Services, of objects as of ClusterIPRecordsOf,
// and of others, such as the Namespace kube-system, which each cluster has.
func StoreContentOf(services, objects, others int) StoreContent {
	return StoreContent(rk.StoreContentOf(uint64(services), uint64(objects), uint64(others)))
}

// HasObjects reports whether ClusterIPs are recorded in IPAddress objects.
func (r ClusterIPRecords) HasObjects() bool { return r == RecordsInObjects || r == RecordsInBoth }

// Bitmaps are the states of a cluster's bitmaps, which are named after the last segments of their keys.
type Bitmaps struct {
	ServiceIPs, SecondaryServiceIPs, ServiceNodePorts Presence
}

// ErrNoServices: values are recorded as allocated, and no Service was observed. A cluster has the kubernetes Service at
// least, so its Services are stored elsewhere.
var ErrNoServices = errors.New("leaks cannot be cleaned")

// ErrUnreadableObjects: objects of the cluster could not be read.
var ErrUnreadableObjects = errors.New("a repair could free values that are in use")

// ObserveUnreadable says that the cluster has one more object of this kind, which could not be read. It may use or
// record any value: all leaks stay, no IPAddress object is repaired, and CheckCluster refuses repairs. If a ServiceCIDR
// could not be read, an address that no other one has is not reported. The name of an IPAddress object is that of its
// key, whatever bytes these are; if it is the canonical text of an address, the address counts as recorded. Of other
// kinds it is not read.
func (a *Audit) ObserveUnreadable(kind SubjectKind, name string) error {
	var details rk.Error
	code := rk.AuditObserveUnreadable(a.pointer(), uint32(kind), name, &details)
	runtime.KeepAlive(a)
	return detailedError(code, &details)
}

// CheckCluster says, once all Services were observed, that this is an audit of a whole cluster, whose bitmaps are in
// these states. A range that is missing though there are Services, and one that servers read and cannot decode, are
// findings; all else is judged without it. upgraded is as of CompareBitmap: since then servers that record ClusterIPs
// in IPAddress objects read no bitmap of them. If leaks are cleaned after it, as cleansLeaks says, it needs Services,
// too. Then, and in a pass, no object may be unreadable. The error wraps ErrNoServices or ErrUnreadableObjects. The
// former is also the answer, whatever is cleaned, if IPAddress objects refer to Services of which none, or nearly none
// of many, was observed, unless the node ports are Unseen; an audit that goes on finds nothing about these objects. The
// latter is it, too, if more Services or IPAddress objects could not be read than could; an audit that goes on does not
// judge then what they use or record.
func (a *Audit) CheckCluster(bitmaps Bitmaps, upgraded uint64, cleansLeaks bool) error {
	var details rk.Error
	code := rk.AuditCheckCluster(a.pointer(), uint32(bitmaps.ServiceIPs), uint32(bitmaps.SecondaryServiceIPs),
		uint32(bitmaps.ServiceNodePorts), upgraded, cleansLeaks, &details)
	runtime.KeepAlive(a)
	switch code {
	case rk.ResultNoServices:
		return fmt.Errorf("%w: %s", ErrNoServices, errorMessage(&details))
	case rk.ResultUnreadable:
		return fmt.Errorf("%w: %s", ErrUnreadableObjects, errorMessage(&details))
	}
	return detailedError(code, &details)
}

// Finish ends the audit.
func (a *Audit) Finish() (*Report, error) {
	var handle *rk.Report
	var details rk.Error
	code := rk.AuditFinish(a.pointer(), &handle, &details)
	runtime.KeepAlive(a)
	if code != rk.ResultOK {
		return nil, detailedError(code, &details)
	}
	a.Close() // nothing of it is left
	return &Report{own(handle, rk.ReportFree), a.ranges.list()}, nil
}
