package ipallocator

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// startTimeout is the time for which a request waits for a starting server to see the objects.
const startTimeout = 30 * time.Second

// createTimeout limits the creation of an IPAddress object, which has no context. It ends before a request for a
// Service does, 34 s (k8s.io/apiserver/pkg/endpoints/handlers), so that its client is told to try again.
const createTimeout = 30 * time.Second

// MetaAllocator allocates the addresses of all ServiceCIDR objects of a family.
type MetaAllocator struct {
	client            networkingv1client.NetworkingV1Interface
	serviceCIDRSynced cache.InformerSynced
	ipAddressSynced   cache.InformerSynced
	ipFamily          api.IPFamily
	addresses         *ipaddress.Allocator
	// bitmapAllocator also records the addresses of the first CIDR, for older servers of the cluster.
	bitmapAllocator Interface
	// addressKeys and cidrKeys are the prefixes of the keys of IPAddress and ServiceCIDR objects; "" if they are not in
	// the etcd of Services.
	addressKeys, cidrKeys string
	// request records allocations and releases; nil outside of a request.
	request *request
	// allocators is nil except in the released tests.
	allocators map[string]*item
}

// item and Allocator are one CIDR of a MetaAllocator, as the released tests know it; export_test.go has the methods.
type item struct{ allocator *Allocator }

// Allocator is a MetaAllocator of one CIDR.
type Allocator struct {
	*MetaAllocator
	cidr  net.IPNet
	size  uint64
	ready interface {
		Load() bool
		Store(bool)
	}
	ipAddressSynced cache.InformerSynced
}

var _ Interface = (*MetaAllocator)(nil)

// NewMetaAllocator returns a MetaAllocator, which follows the objects until Destroy. bitmapAllocator is nil if there
// are no older servers.
func NewMetaAllocator(
	client networkingv1client.NetworkingV1Interface,
	serviceCIDRInformer networkingv1informers.ServiceCIDRInformer,
	ipAddressInformer networkingv1informers.IPAddressInformer,
	isIPv6 bool,
	bitmapAllocator Interface,
) (*MetaAllocator, error) {
	return newAllocator(client, serviceCIDRInformer, ipAddressInformer, isIPv6, bitmapAllocator, startTimeout)
}

// newAllocator returns a MetaAllocator whose allocations wait until they can be served, at most startTimeout.
func newAllocator(
	client networkingv1client.NetworkingV1Interface,
	serviceCIDRInformer networkingv1informers.ServiceCIDRInformer,
	ipAddressInformer networkingv1informers.IPAddressInformer,
	isIPv6 bool,
	bitmapAllocator Interface,
	startTimeout time.Duration,
) (*MetaAllocator, error) {
	family := api.IPv4Protocol
	if isIPv6 {
		family = api.IPv6Protocol
	}
	addresses, err := ipaddress.New(ipaddress.Options{
		Family:       v1.IPFamily(family),
		Client:       client.IPAddresses(),
		ServiceCIDRs: serviceCIDRInformer,
		IPAddresses:  ipAddressInformer,
		StartTimeout: startTimeout,
	})
	if err != nil {
		return nil, err
	}
	return &MetaAllocator{
		client:            client,
		serviceCIDRSynced: serviceCIDRInformer.Informer().HasSynced,
		ipAddressSynced:   ipAddressInformer.Informer().HasSynced,
		ipFamily:          family,
		addresses:         addresses,
		bitmapAllocator:   bitmapAllocator,
	}, nil
}

// SetObjectKeys sets the prefixes of the keys of IPAddress and ServiceCIDR objects, before the first request; "" if
// they are not in the etcd of Services.
func (c *MetaAllocator) SetObjectKeys(addresses, cidrs string) {
	c.addressKeys, c.cidrKeys = addresses, cidrs
}

// CachedCIDRs returns the revision of the API server's watch cache of ServiceCIDR objects, and theirs by name.
func (c *MetaAllocator) CachedCIDRs(ctx context.Context) (revision string, objects map[string]string, err error) {
	list, err := c.client.ServiceCIDRs().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return "", nil, err
	}
	objects = make(map[string]string, len(list.Items))
	for _, object := range list.Items {
		objects[object.Name] = object.ResourceVersion
	}
	return list.ResourceVersion, objects, nil
}

// errorOf returns the package's error for an error of the addresses, and records it in the request.
func (c *MetaAllocator) errorOf(err error) error {
	err = c.interpret(err)
	if c.request != nil && err != nil {
		c.request.recordFailure(err)
	}
	return err
}

// interpret returns the package's error. Nothing is known to be full or unknown as long as the informers have not
// synced.
func (c *MetaAllocator) interpret(err error) error {
	isSynced := c.serviceCIDRSynced() && c.ipAddressSynced()
	switch {
	case errors.Is(err, rangekeeper.ErrAlreadyAllocated):
		return ErrAllocated
	case errors.Is(err, rangekeeper.ErrFull) && isSynced:
		return ErrFull
	case errors.Is(err, rangekeeper.ErrNotInRange) && isSynced:
		return ErrMismatchedNetwork
	case errors.Is(err, rangekeeper.ErrFull) || errors.Is(err, rangekeeper.ErrNotInRange) || errors.Is(err, ipaddress.ErrNotSynced):
		return ErrNotReady
	}
	return err
}

// dualWrite reports whether addresses are also recorded in the bitmap.
func (c *MetaAllocator) dualWrite() bool {
	return c.bitmapAllocator != nil && !utilfeature.DefaultFeatureGate.Enabled(features.DisableAllocatorDualWrite)
}

// inBitmap reports whether ip is also recorded in the bitmap.
func (c *MetaAllocator) inBitmap(ip net.IP) bool {
	if !c.dualWrite() {
		return false
	}
	cidr := c.bitmapAllocator.CIDR()
	return cidr.Contains(ip)
}

// Allocate allocates an address without a Service. An API server refuses such an object.
func (c *MetaAllocator) Allocate(ip net.IP) error { return c.AllocateService(nil, ip) }

// AllocateService allocates an address for a Service. The error is ErrMismatchedNetwork if no ready CIDR contains it,
// ErrAllocated if it is in use, ErrNotReady after the start of the server, or the API server's.
func (c *MetaAllocator) AllocateService(service *api.Service, ip net.IP) error {
	if c.inBitmap(ip) {
		if err := c.addresses.Check(context.Background(), addressOf(ip)); errors.Is(err, rangekeeper.ErrNotInRange) {
			return c.errorOf(err)
		}
		if err := c.bitmapAllocator.Allocate(ip); err != nil {
			return err
		}
	}
	return c.allocate(service, ip)
}

// allocate creates the object of an address.
func (c *MetaAllocator) allocate(service *api.Service, ip net.IP) error {
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	object, err := c.addresses.Allocate(ctx, addressOf(ip), ownerOf(service))
	if err == nil {
		err = c.record(ctx, object)
	}
	return c.errorOf(err)
}

// errNoServiceCIDR: the ServiceCIDR of an address was deleted, or etcd was restored and lacks it.
var errNoServiceCIDR = errors.New("the ServiceCIDR of the allocated address is gone")

// record adds an object to those that the request can undo, with a ServiceCIDR that has its address.
func (c *MetaAllocator) record(ctx context.Context, object *networkingv1.IPAddress) error {
	if c.request == nil {
		return nil
	}
	c.request.created = append(c.request.created, object)
	cidr, err := c.serviceCIDROf(ctx, addressOf(netutils.ParseIPSloppy(object.Name)))
	if err == nil {
		c.request.cidrs = append(c.request.cidrs, cidr)
	}
	return err
}

// serviceCIDROf returns a ServiceCIDR that has an address. If etcd may have been restored it is one that etcd has now:
// the cache can have others, with the same names and revisions.
func (c *MetaAllocator) serviceCIDROf(ctx context.Context, address netip.Addr) (*networkingv1.ServiceCIDR, error) {
	for {
		cached := c.addresses.ServiceCIDROf(address)
		if cached == nil {
			return nil, errNoServiceCIDR
		}
		if !allocatorstorage.MayBeRestored() {
			return cached, nil
		}
		stored, err := c.client.ServiceCIDRs().Get(ctx, cached.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			stored = nil
		case err != nil:
			return nil, err
		case stored.UID == cached.UID && stored.ResourceVersion == cached.ResourceVersion:
			return cached, nil
		}
		c.addresses.CorrectServiceCIDR(cached, stored)
	}
}

// AllocateNext allocates a free address without a Service. An API server refuses such an object.
func (c *MetaAllocator) AllocateNext() (net.IP, error) { return c.AllocateNextService(nil) }

// AllocateNextService allocates a free address for a Service. The error is ErrFull if no ready CIDR has one,
// ErrNotReady after the start of the server, or the API server's.
func (c *MetaAllocator) AllocateNextService(service *api.Service) (net.IP, error) {
	if c.dualWrite() {
		// The CIDR of the bitmap comes first, the other ones when it is full.
		for ip, err := c.bitmapAllocator.AllocateNext(); err == nil; ip, err = c.bitmapAllocator.AllocateNext() {
			// An address that a newer server has allocated has an object and no bit. It keeps the bit that it has now.
			if err := c.allocate(service, ip); !errors.Is(err, ErrAllocated) {
				return ip, err
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	object, err := c.addresses.AllocateNext(ctx, ownerOf(service))
	if err == nil {
		err = c.record(ctx, object)
	}
	if err != nil {
		return nil, c.errorOf(err)
	}
	return netutils.ParseIPSloppy(object.Name), nil
}

// Release releases an address, also of a CIDR that is not ready. The error is ErrMismatchedNetwork if no CIDR contains
// it. In a request it only records the address; else it releases the address of any owner, as the caller names none,
// and leaves what fails to the repair of IPAddress objects.
func (c *MetaAllocator) Release(ip net.IP) error {
	if c.request != nil {
		if c.inBitmap(ip) {
			_ = c.bitmapAllocator.Release(ip) // it only records the address, too
		}
		c.request.released = append(c.request.released, ip)
		return nil
	}
	if !c.contains(ip, false) {
		return ErrMismatchedNetwork
	}
	if c.inBitmap(ip) {
		// A bit that stays set is a leak, which a repair pass finds.
		_ = c.bitmapAllocator.Release(ip)
	}
	object, err := c.client.IPAddresses().Get(context.Background(), ip.String(), metav1.GetOptions{})
	if err == nil {
		err = c.addresses.Undo(context.Background(), object)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "Leaving an IPAddress object to the repair", "ipAddress", ip)
	}
	return nil
}

// contains reports whether a CIDR, and with ready one that is ready, contains an address.
func (c *MetaAllocator) contains(ip net.IP, ready bool) bool {
	return slices.ContainsFunc(c.addresses.Usage(), func(of ipaddress.Usage) bool {
		return of.CIDR.Contains(addressOf(ip)) && (of.Ready || !ready)
	})
}

// ForEach calls fn with each address in use in the cache.
func (c *MetaAllocator) ForEach(fn func(net.IP)) {
	for _, object := range c.addresses.List() {
		fn(netutils.ParseIPSloppy(object.Name))
	}
}

// CIDR returns an empty network, as there may be several CIDRs.
func (c *MetaAllocator) CIDR() net.IPNet { return net.IPNet{} }

// IPFamily returns the family of the addresses.
func (c *MetaAllocator) IPFamily() api.IPFamily { return c.ipFamily }

// Has reports whether an address of a ready CIDR is in use, after a request to the API server.
func (c *MetaAllocator) Has(ip net.IP) bool {
	if !c.contains(ip, true) {
		return false
	}
	object, err := c.client.IPAddresses().Get(context.Background(), ip.String(), metav1.GetOptions{})
	return err == nil && object.Name != ""
}

// Used returns the number of addresses in use, those that are being created included, each counted once.
func (c *MetaAllocator) Used() int {
	return c.count(func(of ipaddress.Usage) uint64 { return of.Used })
}

// Free returns the number of free addresses, each counted once; the largest int if there are more.
func (c *MetaAllocator) Free() int {
	return c.count(func(of ipaddress.Usage) uint64 { return of.Free })
}

// count adds up the numbers of the CIDRs that no other one contains.
func (c *MetaAllocator) count(of func(ipaddress.Usage) uint64) int {
	var cidrs []netip.Prefix
	all := c.addresses.Usage()
	for _, one := range all {
		cidrs = append(cidrs, one.CIDR)
	}
	sum := 0
	for _, one := range all {
		if isNotContained(one.CIDR, cidrs) {
			sum += min(intOf(of(one)), math.MaxInt-sum)
		}
	}
	return sum
}

// isNotContained reports whether no wider CIDR contains cidr.
func isNotContained(cidr netip.Prefix, cidrs []netip.Prefix) bool {
	return !slices.ContainsFunc(cidrs, func(other netip.Prefix) bool {
		return other.Bits() < cidr.Bits() && other.Contains(cidr.Addr())
	})
}

// Destroy stops following the objects.
func (c *MetaAllocator) Destroy() {
	if c.dualWrite() {
		c.bitmapAllocator.Destroy()
	}
	_ = c.addresses.Close() // informers that have ended have no handlers
}

// EnableMetrics starts to count allocations.
func (c *MetaAllocator) EnableMetrics() {
	registerMetrics()
	c.addresses.Record(recorder{})
}

// DryRun returns an allocator that evaluates allocations on the cache and creates nothing.
func (c *MetaAllocator) DryRun() Interface {
	named := func(ip net.IP) error {
		return c.errorOf(c.addresses.Check(context.Background(), addressOf(ip)))
	}
	next := func() (net.IP, error) {
		address, err := c.addresses.Peek(context.Background())
		if err != nil {
			return nil, c.errorOf(err)
		}
		return address.AsSlice(), nil
	}
	return dryRunAllocator{c, named, next}
}
