package ipallocator

import (
	"net"
	"time"

	api "k8s.io/api/core/v1"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	netutils "k8s.io/utils/net"
)

// startTimeout is the time for which an allocation waits after the start of a program until it has seen the objects.
const startTimeout = 30 * time.Second

// MetaAllocator allocates the addresses of all ServiceCIDR objects of a family. No lock is held during a request to the
// API server.
type MetaAllocator struct {
	*addresses
	// bitmapAllocator is the one that the caller has given. It is not written: the feature gate
	// DisableAllocatorDualWrite of the reference is locked.
	bitmapAllocator Interface
	// allocators is nil except in the released tests.
	allocators map[string]*item
}

// item is one CIDR of a MetaAllocator, as the released tests know it.
type item struct{ allocator *Allocator }

var _ Interface = (*MetaAllocator)(nil)

// NewMetaAllocator returns a MetaAllocator, which follows the objects until Destroy. The caller starts the informers.
// bitmapAllocator may be nil: it is not used.
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
	c, err := newAddresses(client, serviceCIDRInformer, ipAddressInformer, isIPv6, startTimeout)
	if err != nil {
		return nil, err
	}
	return &MetaAllocator{addresses: c, bitmapAllocator: bitmapAllocator}, nil
}

// Allocate allocates an address without a Service. An API server refuses such an object.
func (c *MetaAllocator) Allocate(ip net.IP) error { return c.AllocateService(nil, ip) }

// AllocateService allocates an address for a Service. The error is ErrMismatchedNetwork if no ready CIDR contains it,
// ErrAllocated if it is in use, ErrNotReady after the start of the program, or the API server's.
//
// Cost: one request.
func (c *MetaAllocator) AllocateService(service *api.Service, ip net.IP) error {
	ctx, cancel := withCreateTimeout()
	defer cancel()
	_, err := c.create(ctx, service, ip)
	return c.interpret(err)
}

// AllocateNext allocates a free address without a Service. An API server refuses such an object.
func (c *MetaAllocator) AllocateNext() (net.IP, error) { return c.AllocateNextService(nil) }

// AllocateNextService allocates a free address for a Service. The error is ErrFull if no ready CIDR has one,
// ErrNotReady after the start of the program, or the API server's.
//
// Cost: one request, and another one for each address that another allocator has just allocated.
func (c *MetaAllocator) AllocateNextService(service *api.Service) (net.IP, error) {
	ctx, cancel := withCreateTimeout()
	defer cancel()
	object, err := c.createNext(ctx, service)
	if err != nil {
		return nil, c.interpret(err)
	}
	return netutils.ParseIPSloppy(object.Name), nil
}

// Release releases an address, also of a CIDR that is not ready. The error is ErrMismatchedNetwork if no CIDR contains
// it. It releases the address of any owner, as the caller names none, and leaves what fails to the repair of IPAddress
// objects.
func (c *MetaAllocator) Release(ip net.IP) error {
	if !c.contains(ip, false) {
		return ErrMismatchedNetwork
	}
	c.delete(ip)
	return nil
}

// CIDR returns an empty network, as there may be several CIDRs.
func (c *MetaAllocator) CIDR() net.IPNet { return net.IPNet{} }

// Destroy stops following the objects. It may be called again.
func (c *MetaAllocator) Destroy() { c.close() }

// DryRun returns an allocator that evaluates allocations on the cache and creates nothing.
func (c *MetaAllocator) DryRun() Interface { return c.dryRun(c, c.interpret) }
