package ipallocator

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ControllerName is the value of the managed-by label of the allocated IPAddress objects.
const ControllerName = "ipallocator.k8s.io"

// Allocator allocates the addresses of a CIDR by creating IPAddress objects: of concurrent creations the API server accepts one.
// The index of Rangekeeper knows which addresses are free. No lock is held during a request.
type Allocator struct {
	net    *net.IPNet
	values rangekeeper.ServiceCIDR
	family api.IPFamily
	// size is the number of allocatable addresses.
	size uint64

	client          networkingv1client.NetworkingV1Interface
	ipAddressLister networkingv1listers.IPAddressLister
	ipAddressSynced cache.InformerSynced
	// index has the CIDR; the allocators of a MetaAllocator share it.
	index *ipaddress.Index
	// destroy removes the CIDR from the index.
	destroy func()
	// ready reports whether a ServiceCIDR with this CIDR is ready.
	ready atomic.Bool

	// gauges is held while a gauge is set, so that an older number does not replace a newer one.
	gauges  sync.Mutex
	counted atomic.Bool
}

var _ Interface = (*Allocator)(nil)

// NewIPAllocator returns an Allocator with an index of its own that is ready. Destroy stops it.
func NewIPAllocator(
	cidr *net.IPNet,
	client networkingv1client.NetworkingV1Interface,
	ipAddressInformer networkingv1informers.IPAddressInformer,
) (*Allocator, error) {
	var made atomic.Pointer[Allocator]
	index, err := ipaddress.NewIndex(ipAddressInformer.Informer(), v1.IPFamily(familyOf(cidr)), func(netip.Addr) {
		if a := made.Load(); a != nil {
			a.gauge()
		}
	})
	if err != nil {
		return nil, err
	}
	a, err := newAllocator(cidr, client, ipAddressInformer, index)
	if err != nil {
		index.Close()
		return nil, err
	}
	a.destroy = func() { index.Close() }
	made.Store(a)
	return a, nil
}

// newAllocator adds a CIDR to an index, and returns its Allocator.
func newAllocator(
	cidr *net.IPNet,
	client networkingv1client.NetworkingV1Interface,
	ipAddressInformer networkingv1informers.IPAddressInformer,
	index *ipaddress.Index,
) (*Allocator, error) {
	values, err := rangekeeper.ParseServiceCIDR(cidr.String())
	if err != nil {
		return nil, err
	}
	if err := index.Insert(values); err != nil {
		return nil, err
	}
	a := &Allocator{
		net:             cidr,
		values:          values,
		family:          familyOf(cidr),
		size:            values.Size(),
		client:          client,
		ipAddressLister: ipAddressInformer.Lister(),
		ipAddressSynced: ipAddressInformer.Informer().HasSynced,
		index:           index,
	}
	// It fails only after the index was closed.
	a.destroy = func() { _ = index.Remove(values) }
	a.ready.Store(true)
	return a, nil
}

func familyOf(cidr *net.IPNet) api.IPFamily {
	if netutils.IsIPv6CIDR(cidr) {
		return api.IPv6Protocol
	}
	return api.IPv4Protocol
}

// contains reports whether the CIDR can allocate an address.
func (a *Allocator) contains(address netip.Addr) bool {
	_, ok := a.values.OffsetOf(address)
	return ok
}

// listed returns the cached objects of allocators of this family.
func listed(lister networkingv1listers.IPAddressLister, family api.IPFamily) []*networkingv1.IPAddress {
	// A lister returns no error.
	objects, _ := lister.List(labels.SelectorFromSet(labelsOf(family)))
	return objects
}

func labelsOf(family api.IPFamily) labels.Set {
	return labels.Set{networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: ControllerName}
}

// Used returns the number of addresses in use, those whose objects are being created included.
func (a *Allocator) Used() int {
	used, _ := a.index.Usage(a.values)
	return int(min(used, math.MaxInt))
}

// Free returns the number of free addresses; the largest int if there are more.
func (a *Allocator) Free() int {
	return max(int(min(a.size, math.MaxInt))-a.Used(), 0)
}

func (a *Allocator) recorder() metricsRecorderInterface {
	if a.counted.Load() {
		return &metricsRecorder{}
	}
	return &emptyMetricsRecorder{}
}

// gauge sets the gauges of used and free addresses.
func (a *Allocator) gauge() {
	a.gauges.Lock()
	defer a.gauges.Unlock()
	cidr := a.net.String()
	a.recorder().setAllocated(cidr, a.Used())
	a.recorder().setAvailable(cidr, a.Free())
}

// record counts a finished allocation. One that was not attempted does not count.
func (a *Allocator) record(scope string, begun time.Time, err error) {
	cidr := a.net.String()
	switch {
	case err == nil:
		a.recorder().incrementAllocations(cidr, scope)
		a.recorder().setLatency(cidr, time.Since(begun))
		a.gauge()
	case !errors.Is(err, ErrNotReady):
		a.recorder().incrementAllocationErrors(cidr, scope)
	}
}

func (a *Allocator) checkReady() error {
	if !a.ready.Load() || !a.ipAddressSynced() {
		return ErrNotReady
	}
	return nil
}

// Allocate allocates an address without a Service. An API server refuses such an object.
func (a *Allocator) Allocate(ip net.IP) error { return a.AllocateService(nil, ip) }

// AllocateService allocates an address for a Service. The error is ErrNotReady, an *ErrNotInRange if the CIDR cannot allocate it,
// ErrAllocated if it is in use, or the API server's.
func (a *Allocator) AllocateService(svc *api.Service, ip net.IP) error {
	_, err := a.allocate(svc, ip)
	return err
}

func (a *Allocator) allocate(svc *api.Service, ip net.IP) (object *networkingv1.IPAddress, err error) {
	begun := time.Now()
	address, err := a.check(ip)
	if err == nil {
		object, err = a.index.This(address, creation{a.client, a.family, svc}.create)
	}
	if apierrors.IsAlreadyExists(err) {
		err = ErrAllocated
	}
	a.record(static, begun, err)
	return object, err
}

// check returns the address if this allocator can allocate it.
func (a *Allocator) check(ip net.IP) (netip.Addr, error) {
	if err := a.checkReady(); err != nil {
		return netip.Addr{}, err
	}
	address := addressOf(ip)
	if !a.contains(address) {
		return netip.Addr{}, &ErrNotInRange{ip, a.net.String()}
	}
	return address, nil
}

// addressOf returns the zero address, which is in no CIDR, for an invalid one.
func addressOf(ip net.IP) netip.Addr {
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}

// AllocateNext allocates a free address without a Service. An API server refuses such an object.
func (a *Allocator) AllocateNext() (net.IP, error) { return a.AllocateNextService(nil) }

// AllocateNextService allocates a free address for a Service. The error is ErrNotReady, ErrFull if there is none, or the API
// server's.
func (a *Allocator) AllocateNextService(svc *api.Service) (net.IP, error) {
	if err := a.checkReady(); err != nil {
		return nil, err
	}
	object, err := allocateNext(a.index, []*Allocator{a}, creation{a.client, a.family, svc})
	if err != nil {
		return nil, err
	}
	return netutils.ParseIPSloppy(object.Name), nil
}

// allocateNext creates the object of a free address of allocators that share an index.
func allocateNext(index *ipaddress.Index, allocators []*Allocator, of creation) (*networkingv1.IPAddress, error) {
	begun := time.Now()
	address, object, err := index.Next(cidrsOf(allocators), of.create)
	if errors.Is(err, rangekeeper.ErrFull) {
		err = ErrFull
	}
	for _, a := range allocators {
		if !address.IsValid() || a.contains(address) {
			a.record(dynamic, begun, err)
		}
		if a.contains(address) {
			break
		}
	}
	return object, err
}

func cidrsOf(allocators []*Allocator) []rangekeeper.ServiceCIDR {
	cidrs := make([]rangekeeper.ServiceCIDR, len(allocators))
	for i, a := range allocators {
		cidrs[i] = a.values
	}
	return cidrs
}

// creation is the creation of an IPAddress object for a Service.
type creation struct {
	client networkingv1client.NetworkingV1Interface
	family api.IPFamily
	// service is nil for none.
	service *api.Service
}

// create creates the object of an address.
func (c creation) create(address netip.Addr) (*networkingv1.IPAddress, error) {
	object := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: address.String(), Labels: labelsOf(c.family)}}
	if c.service != nil {
		object.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: c.service.Namespace, Name: c.service.Name}
	}
	return c.client.IPAddresses().Create(context.Background(), object, metav1.CreateOptions{})
}

// Release releases an address of any owner, as the caller names none. A free address, or one outside of the CIDR, is no error. Nor
// is a failure: the repair of IPAddress objects finds the address.
func (a *Allocator) Release(ip net.IP) error {
	err := a.client.IPAddresses().Delete(context.Background(), ip.String(), metav1.DeleteOptions{})
	switch {
	case err == nil:
		a.gauge()
	case !apierrors.IsNotFound(err):
		klog.ErrorS(err, "Leaving an IPAddress object to the repair", "ipAddress", ip)
	}
	return nil
}

// ForEach calls fn with each address in use in the cache.
func (a *Allocator) ForEach(fn func(net.IP)) {
	for _, object := range listed(a.ipAddressLister, a.family) {
		if ip := netutils.ParseIPSloppy(object.Name); a.contains(addressOf(ip)) {
			fn(ip)
		}
	}
}

// CIDR returns the range.
func (a *Allocator) CIDR() net.IPNet { return *a.net }

// IPFamily returns the family of the addresses.
func (a *Allocator) IPFamily() api.IPFamily { return a.family }

// Has asks the API server whether an address is in use.
func (a *Allocator) Has(ip net.IP) bool {
	object, err := a.client.IPAddresses().Get(context.Background(), ip.String(), metav1.GetOptions{})
	return err == nil && object.Name != ""
}

// Destroy ends the allocation of addresses of the CIDR. Requests that are under way go on.
func (a *Allocator) Destroy() { a.destroy() }

// EnableMetrics starts to count allocations.
func (a *Allocator) EnableMetrics() {
	registerMetrics()
	a.counted.Store(true)
}

// DryRun returns an allocator that evaluates allocations on the index and creates nothing.
func (a *Allocator) DryRun() Interface {
	return dryRunAllocator{a, a.tryNamed, func() (net.IP, error) {
		if err := a.checkReady(); err != nil {
			return nil, err
		}
		return tryNext(a.index, []*Allocator{a})
	}}
}

func (a *Allocator) tryNamed(ip net.IP) error {
	address, err := a.check(ip)
	if err == nil && a.index.IsTaken(address) {
		err = ErrAllocated
	}
	return err
}

func tryNext(index *ipaddress.Index, allocators []*Allocator) (net.IP, error) {
	address, err := index.Peek(cidrsOf(allocators))
	if errors.Is(err, rangekeeper.ErrFull) {
		return nil, ErrFull
	}
	return address.AsSlice(), err
}

// dryRunAllocator allocates nothing.
type dryRunAllocator struct {
	Interface
	named func(net.IP) error
	next  func() (net.IP, error)
}

func (d dryRunAllocator) Allocate(ip net.IP) error      { return d.named(ip) }
func (d dryRunAllocator) AllocateNext() (net.IP, error) { return d.next() }
func (d dryRunAllocator) Release(net.IP) error          { return nil }
func (d dryRunAllocator) DryRun() Interface             { return d }
func (d dryRunAllocator) Destroy()                      {}
func (d dryRunAllocator) EnableMetrics()                {}
