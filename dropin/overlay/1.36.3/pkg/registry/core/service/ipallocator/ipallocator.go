package ipallocator

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ControllerName is the value of the managed-by label of the allocated IPAddress objects.
const ControllerName = "ipallocator.k8s.io"

// Allocator allocates the addresses of a CIDR by creating IPAddress objects: of concurrent creations the API server accepts one.
// Rangekeeper decides which addresses there are and orders the candidates. No lock is held during a request.
type Allocator struct {
	net    *net.IPNet
	values rangekeeper.ServiceCIDR
	family api.IPFamily
	// size is the number of allocatable addresses.
	size uint64

	client            networkingv1client.NetworkingV1Interface
	ipAddressInformer cache.SharedIndexInformer
	ipAddressLister   networkingv1listers.IPAddressLister
	ipAddressSynced   cache.InformerSynced
	// ready reports whether a ServiceCIDR with this CIDR is ready.
	ready atomic.Bool

	events cache.ResourceEventHandlerRegistration
	// reported is the number of objects with addresses of this CIDR that the informer has reported.
	reported atomic.Int64
	// gauges is held while a gauge is set, so that an older number does not replace a newer one.
	gauges  sync.Mutex
	counted atomic.Bool
}

var _ Interface = (*Allocator)(nil)

// NewIPAllocator returns an Allocator that is ready. Destroy stops it.
func NewIPAllocator(
	cidr *net.IPNet,
	client networkingv1client.NetworkingV1Interface,
	ipAddressInformer networkingv1informers.IPAddressInformer,
) (*Allocator, error) {
	values, err := rangekeeper.ParseServiceCIDR(cidr.String())
	if err != nil {
		return nil, err
	}
	a := &Allocator{
		net:               cidr,
		values:            values,
		family:            api.IPv4Protocol,
		size:              values.Size(),
		client:            client,
		ipAddressInformer: ipAddressInformer.Informer(),
		ipAddressLister:   ipAddressInformer.Lister(),
		ipAddressSynced:   ipAddressInformer.Informer().HasSynced,
	}
	if netutils.IsIPv6CIDR(cidr) {
		a.family = api.IPv6Protocol
	}
	a.ready.Store(true)

	a.events, err = a.ipAddressInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.changed(nil, obj) },
		UpdateFunc: a.changed,
		DeleteFunc: func(obj any) { a.changed(obj, nil) },
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// changed counts the change of an object that the informer reports.
func (a *Allocator) changed(before, after any) {
	if change := a.count(after) - a.count(before); change != 0 {
		a.reported.Add(change)
		// A starting informer reports all objects one by one. Listing all of them for each would take quadratic time.
		a.gauge(a.countReported)
	}
}

// count returns 1 for an object of this allocator with an address of the CIDR, else 0.
func (a *Allocator) count(obj any) int64 {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	object, ok := obj.(*networkingv1.IPAddress)
	if !ok || !isManaged(object, a.family) {
		return 0
	}
	address, err := netip.ParseAddr(object.Name)
	if err != nil {
		return 0
	}
	if _, ok := a.values.OffsetOf(address); !ok {
		return 0
	}
	return 1
}

// isManaged reports whether an allocator of a family has created an object.
func isManaged(object *networkingv1.IPAddress, family api.IPFamily) bool {
	return object.Labels[networkingv1.LabelManagedBy] == ControllerName &&
		object.Labels[networkingv1.LabelIPAddressFamily] == string(family)
}

// listed returns the cached objects that an allocator of a family has created.
func listed(lister networkingv1listers.IPAddressLister, family api.IPFamily) []*networkingv1.IPAddress {
	// A lister returns no error.
	objects, _ := lister.List(labels.Everything())
	return slices.DeleteFunc(objects, func(object *networkingv1.IPAddress) bool { return !isManaged(object, family) })
}

// Used returns the number of addresses in use that the informer has reported.
func (a *Allocator) Used() int {
	if a.events.HasSynced() {
		return a.countReported()
	}
	// The cache may have objects that the informer has not reported yet.
	used := int64(0)
	for _, object := range listed(a.ipAddressLister, a.family) {
		used += a.count(object)
	}
	return int(used)
}

func (a *Allocator) countReported() int { return int(a.reported.Load()) }

// Free returns the number of free addresses; the largest int if there are more.
func (a *Allocator) Free() int { return a.free(a.Used()) }

func (a *Allocator) free(used int) int {
	return max(int(min(a.size, math.MaxInt))-used, 0)
}

func (a *Allocator) recorder() metricsRecorderInterface {
	if a.counted.Load() {
		return &metricsRecorder{}
	}
	return &emptyMetricsRecorder{}
}

// gauge sets the metrics of addresses in use and free. It is called after an operation and again when the informer reports its change.
func (a *Allocator) gauge(count func() int) {
	a.gauges.Lock()
	defer a.gauges.Unlock()
	cidr := a.net.String()
	used := count()
	a.recorder().setAllocated(cidr, used)
	a.recorder().setAvailable(cidr, a.free(used))
}

// record counts an allocation in the metrics, but not if the allocator was not ready.
func (a *Allocator) record(scope string, begun time.Time, err error) {
	cidr := a.net.String()
	switch {
	case err == nil:
		a.recorder().incrementAllocations(cidr, scope)
		a.recorder().setLatency(cidr, time.Since(begun))
		a.gauge(a.Used)
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

// AllocateService allocates an address for a Service. The error is ErrNotReady, an *ErrNotInRange, ErrAllocated if the address is in
// use, or the API server's.
func (a *Allocator) AllocateService(svc *api.Service, ip net.IP) error {
	_, err := a.allocate(svc, ip)
	return err
}

func (a *Allocator) allocate(svc *api.Service, ip net.IP) (object *networkingv1.IPAddress, err error) {
	begun := time.Now()
	err = a.named(ip, func(address netip.Addr) (err error) {
		object, err = a.create(address, svc)
		return err
	})
	a.record(static, begun, err)
	return object, err
}

// named allocates the requested address.
func (a *Allocator) named(ip net.IP, take func(netip.Addr) error) error {
	if err := a.checkReady(); err != nil {
		return err
	}
	address := addressOf(ip)
	if _, ok := a.values.OffsetOf(address); !ok {
		return &ErrNotInRange{ip, a.net.String()}
	}
	return take(address)
}

// addressOf returns the zero address, which is in no CIDR, for an invalid IP.
func addressOf(ip net.IP) netip.Addr {
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}

// AllocateNext allocates a free address without a Service. An API server refuses such an object.
func (a *Allocator) AllocateNext() (net.IP, error) { return a.AllocateNextService(nil) }

// AllocateNextService allocates a free address for a Service. The error is ErrNotReady, ErrFull if there is none, or the API server's.
func (a *Allocator) AllocateNextService(svc *api.Service) (net.IP, error) {
	ip, _, err := a.allocateNext(svc)
	return ip, err
}

func (a *Allocator) allocateNext(svc *api.Service) (ip net.IP, object *networkingv1.IPAddress, err error) {
	begun := time.Now()
	ip, err = a.next(func(address netip.Addr) (err error) {
		object, err = a.create(address, svc)
		return err
	})
	a.record(dynamic, begun, err)
	return ip, object, err
}

// next allocates the first candidate that is free. The cache may lack an address that another client has allocated: after ErrAllocated
// it tries the next candidate. It returns any other error.
func (a *Allocator) next(take func(netip.Addr) error) (net.IP, error) {
	if err := a.checkReady(); err != nil {
		return nil, err
	}
	for address := range a.values.Candidates(rand.Uint64()) {
		if a.isCached(address) {
			continue
		}
		err := take(address)
		if err == nil {
			return address.AsSlice(), nil
		}
		if !errors.Is(err, ErrAllocated) {
			return nil, err
		}
	}
	return nil, ErrFull
}

func (a *Allocator) isCached(address netip.Addr) bool {
	_, err := a.ipAddressLister.Get(address.String())
	return err == nil
}

// create creates the object of an address. The error is ErrAllocated if it exists.
func (a *Allocator) create(address netip.Addr, svc *api.Service) (*networkingv1.IPAddress, error) {
	object := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{
		Name: address.String(),
		Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(a.family),
			networkingv1.LabelManagedBy:       ControllerName,
		},
	}}
	if svc != nil {
		object.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name}
	}
	object, err := a.client.IPAddresses().Create(context.Background(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil, ErrAllocated
	}
	return object, err
}

// Release releases an address of any owner. It always returns nil: the repair of IPAddress objects finds an address whose release
// has failed.
func (a *Allocator) Release(ip net.IP) error {
	err := a.client.IPAddresses().Delete(context.Background(), ip.String(), metav1.DeleteOptions{})
	switch {
	case err == nil:
		a.gauge(a.Used)
	case !apierrors.IsNotFound(err):
		klog.ErrorS(err, "Failed to delete an IPAddress object; leaving it to the repair", "ipAddress", ip)
	}
	return nil
}

// ForEach calls fn with each address in use in the cache.
func (a *Allocator) ForEach(fn func(net.IP)) {
	for _, object := range listed(a.ipAddressLister, a.family) {
		if a.count(object) > 0 {
			fn(netutils.ParseIPSloppy(object.Name))
		}
	}
}

// CIDR returns the range.
func (a *Allocator) CIDR() net.IPNet { return *a.net }

// IPFamily returns the family of the addresses.
func (a *Allocator) IPFamily() api.IPFamily { return a.family }

// Has reports whether an address is in use, after a request to the API server.
func (a *Allocator) Has(ip net.IP) bool {
	object, err := a.client.IPAddresses().Get(context.Background(), ip.String(), metav1.GetOptions{})
	return err == nil && object.Name != ""
}

// Destroy stops the event handler, and no request.
func (a *Allocator) Destroy() {
	// It returns an error only for an unknown handler.
	_ = a.ipAddressInformer.RemoveEventHandler(a.events)
}

// EnableMetrics starts to count allocations.
func (a *Allocator) EnableMetrics() {
	registerMetrics()
	a.counted.Store(true)
}

// DryRun returns an allocator that evaluates allocations on the cache and creates nothing.
func (a *Allocator) DryRun() Interface {
	return dryRunAllocator{a, a.tryNamed, a.tryNext}
}

func (a *Allocator) tryNamed(ip net.IP) error {
	return a.named(ip, func(address netip.Addr) error {
		if a.isCached(address) {
			return ErrAllocated
		}
		return nil
	})
}

func (a *Allocator) tryNext() (net.IP, error) {
	return a.next(func(netip.Addr) error { return nil })
}

// dryRunAllocator is an allocator for dry runs.
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
