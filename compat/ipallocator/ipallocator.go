package ipallocator

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	api "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/informers"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	netutils "k8s.io/utils/net"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Allocator allocates the addresses of one CIDR, whether or not a ServiceCIDR object has it.
type Allocator struct {
	*addresses
	cidr net.IPNet
	// size is the number of allocatable addresses.
	size uint64
	// ready is whether addresses can be allocated. It changes in the released tests only.
	ready interface {
		Load() bool
		Store(bool)
	}
}

var _ Interface = (*Allocator)(nil)

// NewIPAllocator returns an Allocator of a CIDR, which follows the objects until Destroy. The caller starts the
// informer. An IPv6 CIDR has at most 64 host bits.
func NewIPAllocator(cidr *net.IPNet, client networkingv1client.NetworkingV1Interface, ipAddressInformer networkingv1informers.IPAddressInformer) (*Allocator, error) {
	values, err := rangekeeper.ParseServiceCIDR(cidr.String())
	if err != nil {
		return nil, err
	}
	if bits, _ := cidr.Mask.Size(); netutils.IsIPv6CIDR(cidr) && bits < 64 {
		return nil, fmt.Errorf("shortest allowed prefix length for service CIDR is 64, got %d", bits)
	}
	// An informer that does not run, so that its store keeps the one object.
	only := informers.NewSharedInformerFactory(nil, 0).Networking().V1().ServiceCIDRs()
	object := &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr.String()}}}
	if err := only.Informer().GetStore().Add(object); err != nil {
		return nil, err
	}
	c, err := newAddresses(client, only, ipAddressInformer, netutils.IsIPv6CIDR(cidr), 0)
	if err != nil {
		return nil, err
	}
	c.serviceCIDRSynced = func() bool { return true }
	a := &Allocator{addresses: c, cidr: *cidr, size: values.Size(), ready: new(atomic.Bool)}
	a.ready.Store(true)
	return a, nil
}

// isReady reports whether the objects are known.
func (a *Allocator) isReady() bool { return a.ready.Load() && a.ipAddressSynced() }

// Allocate allocates an address without a Service. An API server refuses such an object.
func (a *Allocator) Allocate(ip net.IP) error { return a.AllocateService(nil, ip) }

// AllocateService allocates an address for a Service. The error is an *ErrNotInRange, ErrAllocated if the address is in
// use, ErrNotReady before the informer has synced, or the API server's.
//
// Cost: one request.
func (a *Allocator) AllocateService(service *api.Service, ip net.IP) error {
	if !a.isReady() {
		return ErrNotReady
	}
	ctx, cancel := withCreateTimeout()
	defer cancel()
	_, err := a.create(ctx, service, ip)
	return a.interpret(err, ip)
}

// interpret returns the package's error about an address.
func (a *Allocator) interpret(err error, ip net.IP) error {
	if err = a.addresses.interpret(err); errors.Is(err, ErrMismatchedNetwork) {
		return &ErrNotInRange{ip, a.cidr.String()}
	}
	return err
}

// AllocateNext allocates a free address without a Service. An API server refuses such an object.
func (a *Allocator) AllocateNext() (net.IP, error) { return a.AllocateNextService(nil) }

// AllocateNextService allocates a free address for a Service. The error is ErrFull if there is none, ErrNotReady before
// the informer has synced, or the API server's.
//
// Cost: one request, and another one for each address that another allocator has just allocated.
func (a *Allocator) AllocateNextService(service *api.Service) (net.IP, error) {
	if !a.isReady() {
		return nil, ErrNotReady
	}
	ctx, cancel := withCreateTimeout()
	defer cancel()
	object, err := a.createNext(ctx, service)
	if err != nil {
		return nil, a.interpret(err, nil)
	}
	return netutils.ParseIPSloppy(object.Name), nil
}

// Release releases an address of any owner. It leaves what fails to the repair of IPAddress objects, and returns nil.
func (a *Allocator) Release(ip net.IP) error {
	a.delete(ip)
	return nil
}

// Free returns the number of free addresses; the largest int if there are more.
func (a *Allocator) Free() int { return max(intOf(a.size)-a.Used(), 0) }

// CIDR returns the CIDR.
func (a *Allocator) CIDR() net.IPNet { return a.cidr }

// Destroy stops following the objects. It may be called again.
func (a *Allocator) Destroy() { a.close() }

// DryRun returns an allocator that evaluates allocations on the cache and creates nothing.
func (a *Allocator) DryRun() Interface {
	dry := a.dryRun(a, a.addresses.interpret).(dryRunAllocator)
	named, next := dry.named, dry.next
	dry.named = func(ip net.IP) error {
		if !a.isReady() {
			return ErrNotReady
		}
		return a.interpret(named(ip), ip)
	}
	dry.next = func() (net.IP, error) {
		if !a.isReady() {
			return nil, ErrNotReady
		}
		return next()
	}
	return dry
}
