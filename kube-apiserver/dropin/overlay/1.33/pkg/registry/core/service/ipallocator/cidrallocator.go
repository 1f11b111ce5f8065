package ipallocator

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	netutils "k8s.io/utils/net"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// startTimeout is the time for which a request waits for a starting server to see the objects.
const startTimeout = 30 * time.Second

// MetaAllocator allocates the addresses of all ServiceCIDR objects of a family.
type MetaAllocator struct {
	*addresses
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

// item is one CIDR of a MetaAllocator, as the released tests know it.
type item struct{ allocator *Allocator }

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
	c, err := newAddresses(throughStored{client}, serviceCIDRInformer, ipAddressInformer, isIPv6, startTimeout)
	if err != nil {
		return nil, err
	}
	c.client = client // which released tests look at
	return &MetaAllocator{addresses: c, bitmapAllocator: bitmapAllocator}, nil
}

// SetObjectKeys sets the prefixes of the keys of IPAddress and ServiceCIDR objects, before the first request; "" if
// they are not in the etcd of Services.
func (c *MetaAllocator) SetObjectKeys(addresses, cidrs string) {
	c.addressKeys, c.cidrKeys = addresses, cidrs
}

// CachedCIDRs returns the ServiceCIDR objects in the API server's watch cache.
func (c *MetaAllocator) CachedCIDRs(ctx context.Context) (runtime.Object, error) {
	return c.client.ServiceCIDRs().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
}

// CachedAddresses returns the IPAddress objects in the API server's watch cache.
func (c *MetaAllocator) CachedAddresses(ctx context.Context) (runtime.Object, error) {
	return c.client.IPAddresses().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
}

// errorOf returns the package's error for an error of the addresses, and records it in the request.
func (c *MetaAllocator) errorOf(err error) error {
	err = c.interpret(err)
	if c.request != nil && err != nil {
		c.request.recordFailure(err)
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
		if err := c.objects.Check(context.Background(), addressOf(ip)); errors.Is(err, rangekeeper.ErrNotInRange) {
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
	ctx, cancel := withCreateTimeout()
	defer cancel()
	object, err := c.create(ctx, service, ip)
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
		cached := c.objects.ServiceCIDROf(address)
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
		c.objects.CorrectServiceCIDR(cached, stored)
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
	ctx, cancel := withCreateTimeout()
	defer cancel()
	object, err := c.createNext(ctx, service)
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
	c.delete(ip)
	return nil
}

// CIDR returns an empty network, as there may be several CIDRs.
func (c *MetaAllocator) CIDR() net.IPNet { return net.IPNet{} }

// Destroy stops following the objects.
func (c *MetaAllocator) Destroy() {
	if c.dualWrite() {
		c.bitmapAllocator.Destroy()
	}
	c.close()
}

// DryRun returns an allocator that evaluates allocations on the cache and creates nothing.
func (c *MetaAllocator) DryRun() Interface { return c.dryRun(c, c.errorOf) }
