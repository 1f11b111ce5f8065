package ipallocator

import (
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
)

// MetaAllocator allocates the addresses of all ServiceCIDR objects of a family. It has an [Allocator] for each CIDR. CIDRs may
// overlap, and several objects may have the same one.
type MetaAllocator struct {
	*shared
	// bitmapAllocator also records the addresses of the first CIDR, for older servers of the cluster.
	bitmapAllocator Interface
	// request records allocations and releases; nil outside of a request.
	request *request
}

// shared is the state that the allocators of all requests share.
type shared struct {
	client            networkingv1client.NetworkingV1Interface
	serviceCIDRLister networkingv1listers.ServiceCIDRLister
	serviceCIDRSynced cache.InformerSynced
	ipAddressInformer networkingv1informers.IPAddressInformer
	ipAddressSynced   cache.InformerSynced
	ipFamily          api.IPFamily
	// index has the CIDRs of the allocators.
	index *ipaddress.Index

	// changed has an entry while the allocators may differ from the objects.
	changed chan struct{}
	// followed is closed after the first follow, served when the first CIDR is ready, and stopped by Destroy.
	followed, served, stopped chan struct{}
	serve                     sync.Once
	// awaitsCIDR makes requests wait for served: a server accepts requests before the first ServiceCIDR is created.
	awaitsCIDR bool

	// mu guards the fields below, and is not held during a request. Only run writes the map.
	mu         sync.Mutex
	allocators map[string]*item
	metrics    bool
}

// item is the state of one CIDR.
type item struct {
	allocator *Allocator
	prefix    netip.Prefix
}

var _ Interface = (*MetaAllocator)(nil)

// NewMetaAllocator returns a MetaAllocator, which follows the objects until Destroy. bitmapAllocator is nil if there are no older
// servers.
func NewMetaAllocator(
	client networkingv1client.NetworkingV1Interface,
	serviceCIDRInformer networkingv1informers.ServiceCIDRInformer,
	ipAddressInformer networkingv1informers.IPAddressInformer,
	isIPv6 bool,
	bitmapAllocator Interface,
) (*MetaAllocator, error) {
	c := newMetaAllocator(client, serviceCIDRInformer, ipAddressInformer, isIPv6, bitmapAllocator)
	c.awaitsCIDR = true
	_, err := serviceCIDRInformer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueueServiceCIDR,
		UpdateFunc: func(_, obj any) { c.enqueueServiceCIDR(obj) },
		DeleteFunc: c.enqueueServiceCIDR,
	})
	if err != nil {
		return nil, err
	}
	go c.run()
	return c, nil
}

// newMetaAllocator returns a MetaAllocator that does not follow the objects yet.
func newMetaAllocator(
	client networkingv1client.NetworkingV1Interface,
	serviceCIDRInformer networkingv1informers.ServiceCIDRInformer,
	ipAddressInformer networkingv1informers.IPAddressInformer,
	isIPv6 bool,
	bitmapAllocator Interface,
) *MetaAllocator {
	family := api.IPv4Protocol
	if isIPv6 {
		family = api.IPv6Protocol
	}
	s := &shared{
		client:            client,
		serviceCIDRLister: serviceCIDRInformer.Lister(),
		serviceCIDRSynced: serviceCIDRInformer.Informer().HasSynced,
		ipAddressInformer: ipAddressInformer,
		ipAddressSynced:   ipAddressInformer.Informer().HasSynced,
		ipFamily:          family,
		changed:           make(chan struct{}, 1),
		followed:          make(chan struct{}),
		served:            make(chan struct{}),
		stopped:           make(chan struct{}),
		allocators:        make(map[string]*item),
	}
	index, err := ipaddress.NewIndex(ipAddressInformer.Informer(), v1.IPFamily(family), s.gauge)
	if err != nil {
		// The released tests need a function without an error; an informer refuses handlers only after its end.
		utilruntime.HandleError(err)
	}
	s.index = index
	return &MetaAllocator{shared: s, bitmapAllocator: bitmapAllocator}
}

// gauge sets the gauges of the CIDRs of an address whose object has changed.
func (c *shared) gauge(address netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range c.allocators {
		if item.allocator.contains(address) {
			item.allocator.gauge()
		}
	}
}

// enqueueServiceCIDR makes run follow all objects again.
func (c *shared) enqueueServiceCIDR(any) {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// run follows the objects until Destroy.
func (c *shared) run() {
	if !cache.WaitForCacheSync(c.stopped, c.serviceCIDRSynced, c.ipAddressSynced) {
		return
	}
	c.follow()
	close(c.followed)
	for {
		select {
		case <-c.stopped:
			return
		case <-c.changed:
			c.follow()
		}
	}
}

// follow creates and removes allocators so that each CIDR of an object has one, which is ready if one of its objects is.
func (c *shared) follow() {
	// A lister returns no error.
	objects, _ := c.serviceCIDRLister.List(labels.Everything())
	wanted := make(map[string]bool)
	for _, object := range objects {
		for _, cidr := range object.Spec.CIDRs {
			if netutils.IsIPv6CIDRString(cidr) == (c.ipFamily == api.IPv6Protocol) {
				wanted[cidr] = wanted[cidr] || isReady(object)
			}
		}
	}
	made := make(map[string]*item)
	for cidr := range wanted {
		if c.allocators[cidr] != nil {
			continue
		}
		var err error
		if made[cidr], err = c.newItem(cidr); err != nil {
			delete(made, cidr)
			klog.ErrorS(err, "Ignoring an invalid CIDR of a ServiceCIDR", "cidr", cidr)
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for cidr, item := range made {
		if c.metrics {
			item.allocator.EnableMetrics()
		}
		c.allocators[cidr] = item
	}
	for cidr, item := range c.allocators {
		ready, ok := wanted[cidr]
		item.allocator.ready.Store(ready)
		if ready {
			c.serve.Do(func() { close(c.served) })
		}
		if !ok {
			item.allocator.Destroy()
			delete(c.allocators, cidr)
		}
	}
}

func (c *shared) newItem(cidr string) (*item, error) {
	_, ipNet, err := netutils.ParseCIDRSloppy(cidr)
	if err != nil {
		return nil, err
	}
	prefix, err := netip.ParsePrefix(ipNet.String())
	if err != nil {
		return nil, err
	}
	allocator, err := newAllocator(ipNet, c.client, c.ipAddressInformer, c.index)
	if err != nil {
		return nil, err
	}
	return &item{allocator, prefix}, nil
}

// isReady reports whether addresses of an object can be allocated. An object without a Ready condition has no controller, and is
// ready.
func isReady(object *networkingv1.ServiceCIDR) bool {
	condition := meta.FindStatusCondition(object.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	return object.DeletionTimestamp.IsZero() && (condition == nil || condition.Status == metav1.ConditionTrue)
}

// startTimeout is the time that a request waits for a starting server to see the objects.
const startTimeout = 30 * time.Second

// all returns the allocators in random order.
func (c *shared) all() []*Allocator {
	c.awaitStart()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*Allocator, 0, len(c.allocators))
	for _, item := range c.allocators {
		all = append(all, item.allocator)
	}
	return all
}

// awaitStart waits until addresses can be allocated for the first time. A server accepts requests before its informers have started,
// and the first server of a cluster before it has created the default ServiceCIDR. Without a CIDR it would answer that the range is
// full, which no client retries.
func (c *shared) awaitStart() {
	start := c.followed
	if c.awaitsCIDR {
		start = c.served
	}
	select {
	case <-start:
		return // without a timer for each request
	default:
	}
	select {
	case <-start:
	case <-c.stopped:
	case <-time.After(startTimeout):
	}
}

// getAllocator returns an allocator of a CIDR that contains ip, and with ready one that is ready. All of them create the same object.
// The error is ErrMismatchedNetwork if there is none.
func (c *shared) getAllocator(ip net.IP, ready bool) (*Allocator, error) {
	address := addressOf(ip)
	for _, allocator := range c.all() {
		if allocator.contains(address) && (!ready || allocator.ready.Load()) {
			return allocator, nil
		}
	}
	return nil, ErrMismatchedNetwork
}

// dualWrite reports whether addresses are also recorded in the bitmap.
func dualWrite() bool {
	return !utilfeature.DefaultFeatureGate.Enabled(features.DisableAllocatorDualWrite)
}

// inBitmap reports whether ip is also recorded in the bitmap.
func (c *MetaAllocator) inBitmap(ip net.IP) bool {
	if !dualWrite() {
		return false
	}
	cidr := c.bitmapAllocator.CIDR()
	return cidr.Contains(ip)
}

// Allocate allocates an address without a Service. An API server refuses such an object.
func (c *MetaAllocator) Allocate(ip net.IP) error { return c.AllocateService(nil, ip) }

// AllocateService allocates an address for a Service. The error is ErrMismatchedNetwork if no ready CIDR contains it, otherwise that
// of [Allocator.AllocateService].
func (c *MetaAllocator) AllocateService(service *api.Service, ip net.IP) error {
	allocator, err := c.getAllocator(ip, true)
	if err != nil {
		return err
	}
	if c.inBitmap(ip) {
		if err := c.bitmapAllocator.Allocate(ip); err != nil {
			return err
		}
	}
	object, err := allocator.allocate(service, ip)
	c.record(object, err)
	return err
}

// record adds an object to those that the request can undo.
func (c *MetaAllocator) record(object *networkingv1.IPAddress, err error) {
	if c.request != nil && err == nil {
		c.request.created = append(c.request.created, object)
	}
}

// AllocateNext allocates a free address without a Service. An API server refuses such an object.
func (c *MetaAllocator) AllocateNext() (net.IP, error) { return c.AllocateNextService(nil) }

// AllocateNextService allocates a free address for a Service. The error is ErrFull if no ready CIDR has one, or the API server's.
func (c *MetaAllocator) AllocateNextService(service *api.Service) (net.IP, error) {
	if dualWrite() {
		// The CIDR of the bitmap comes first, the other ones when it is full.
		if ip, err := c.bitmapAllocator.AllocateNext(); err == nil {
			allocator, err := c.getAllocator(ip, true)
			if err != nil {
				return nil, err
			}
			object, err := allocator.allocate(service, ip)
			c.record(object, err)
			return ip, err
		}
	}
	allocators := c.ready()
	object, err := allocateNext(c.index, allocators, creation{c.client, c.ipFamily, service})
	c.record(object, err)
	if err != nil {
		return nil, err
	}
	return netutils.ParseIPSloppy(object.Name), nil
}

// ready returns the allocators that can allocate.
func (c *shared) ready() []*Allocator {
	return slices.DeleteFunc(c.all(), func(a *Allocator) bool { return a.checkReady() != nil })
}

// Release releases an address, also of a CIDR that is not ready. The error is ErrMismatchedNetwork if no CIDR contains it. In a
// request it only records the address.
func (c *MetaAllocator) Release(ip net.IP) error {
	if c.request != nil {
		if c.inBitmap(ip) {
			_ = c.bitmapAllocator.Release(ip) // it only records the address, too
		}
		c.request.released = append(c.request.released, ip)
		return nil
	}
	allocator, err := c.getAllocator(ip, false)
	if err != nil {
		return err
	}
	if c.inBitmap(ip) {
		// A bit that stays set is a leak, which a repair pass finds.
		_ = c.bitmapAllocator.Release(ip)
	}
	return allocator.Release(ip)
}

// ForEach calls fn with each address in use in the cache.
func (c *shared) ForEach(fn func(net.IP)) {
	for _, object := range listed(c.ipAddressInformer.Lister(), c.ipFamily) {
		fn(netutils.ParseIPSloppy(object.Name))
	}
}

// CIDR returns an empty network, as there may be several CIDRs.
func (c *shared) CIDR() net.IPNet { return net.IPNet{} }

// IPFamily returns the family of the addresses.
func (c *shared) IPFamily() api.IPFamily { return c.ipFamily }

// Has reports whether an address of a ready CIDR is in use, after a request to the API server.
func (c *shared) Has(ip net.IP) bool {
	allocator, err := c.getAllocator(ip, true)
	return err == nil && allocator.Has(ip)
}

// Used returns the number of addresses in use, each counted once.
func (c *shared) Used() int { return c.count((*Allocator).Used) }

// Free returns the number of free addresses, each counted once; the largest int if there are more.
func (c *shared) Free() int { return c.count((*Allocator).Free) }

// count adds up the numbers of the CIDRs that no other one contains.
func (c *shared) count(of func(*Allocator) int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var prefixes []netip.Prefix
	for _, item := range c.allocators {
		prefixes = append(prefixes, item.prefix)
	}
	sum := 0
	for _, item := range c.allocators {
		if isNotContained(item.prefix, prefixes) {
			sum += min(of(item.allocator), math.MaxInt-sum)
		}
	}
	return sum
}

// isNotContained reports whether no wider prefix contains prefix.
func isNotContained(prefix netip.Prefix, prefixes []netip.Prefix) bool {
	return !slices.ContainsFunc(prefixes, func(other netip.Prefix) bool {
		return other.Bits() < prefix.Bits() && other.Contains(prefix.Addr())
	})
}

// Destroy stops following the objects, and destroys the allocators.
func (c *MetaAllocator) Destroy() {
	select {
	case <-c.stopped:
		return
	default:
	}
	close(c.stopped)
	if dualWrite() {
		c.bitmapAllocator.Destroy()
	}
	_ = c.index.Close() // an informer that has ended has no handlers
}

// EnableMetrics starts to count allocations.
func (c *shared) EnableMetrics() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics = true
	for _, item := range c.allocators {
		item.allocator.EnableMetrics()
	}
}

// DryRun returns an allocator that evaluates allocations on the cache and creates nothing.
func (c *MetaAllocator) DryRun() Interface {
	named := func(ip net.IP) error {
		allocator, err := c.getAllocator(ip, true)
		if err != nil {
			return err
		}
		return allocator.tryNamed(ip)
	}
	next := func() (net.IP, error) { return tryNext(c.index, c.ready()) }
	return dryRunAllocator{c, named, next}
}
