package ipallocator

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/cache"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The released tests call these functions. The core library decides their results.

// newMetaAllocator returns a MetaAllocator whose requests do not wait for a ServiceCIDR.
func newMetaAllocator(
	client networkingv1client.NetworkingV1Interface,
	serviceCIDRInformer networkingv1informers.ServiceCIDRInformer,
	ipAddressInformer networkingv1informers.IPAddressInformer,
	isIPv6 bool,
	bitmapAllocator Interface,
) *MetaAllocator {
	c := must(newAllocator(client, serviceCIDRInformer, ipAddressInformer, isIPv6, bitmapAllocator, 0))
	c.allocators = make(map[string]*item)
	serviceCIDRs.Store(c, serviceCIDRInformer.Informer().GetStore())
	return c
}

// serviceCIDRs has the cache.Store of each *MetaAllocator.
var serviceCIDRs sync.Map

// readiness is whether addresses of a CIDR can be allocated.
type readiness struct {
	c    *MetaAllocator
	cidr netip.Prefix
}

func (r readiness) Load() bool {
	return slices.ContainsFunc(r.c.objects.Usage(), func(of ipaddress.Usage) bool { return of.CIDR == r.cidr && of.Ready })
}

// Store changes the condition of the ServiceCIDRs in the cache.
func (r readiness) Store(ready bool) {
	condition := metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse}
	if ready {
		condition.Status = metav1.ConditionTrue
	}
	store, _ := serviceCIDRs.Load(r.c)
	for _, one := range store.(cache.Store).List() {
		if object := one.(*networkingv1.ServiceCIDR).DeepCopy(); slices.Contains(object.Spec.CIDRs, r.cidr.String()) {
			object.Status.Conditions = []metav1.Condition{condition}
			_ = store.(cache.Store).Update(object) // a cache returns no error
		}
	}
}

func (c *MetaAllocator) allocatorOf(cidr netip.Prefix) (*Allocator, error) {
	_, network, err := netutils.ParseCIDRSloppy(cidr.String())
	if err != nil {
		return nil, err
	}
	return &Allocator{addresses: c.addresses, cidr: *network, size: hostsPerNetwork(network), ready: readiness{c, cidr}}, nil
}

// The released tests report changes of objects. As their informers do not run, a MetaAllocator reads the caches at each
// call.
func (c *MetaAllocator) run()                   {}
func (c *MetaAllocator) enqueueServiceCIDR(any) {}
func (c *MetaAllocator) deleteServiceCIDR(any)  {}

// getAllocator returns the Allocator of a CIDR that contains ip, and with ready of one that is ready.
func (c *MetaAllocator) getAllocator(ip net.IP, ready bool) (*Allocator, error) {
	for _, of := range c.objects.Usage() {
		if !of.CIDR.Contains(addressOf(ip)) || ready && !of.Ready {
			continue
		}
		name := of.CIDR.String()
		if c.allocators[name] == nil {
			a, err := c.allocatorOf(of.CIDR)
			if err != nil {
				return nil, err
			}
			c.allocators[name] = &item{a}
		}
		return c.allocators[name].allocator, nil
	}
	return nil, ErrMismatchedNetwork
}

func hostsPerNetwork(subnet *net.IPNet) uint64 {
	return must(rangekeeper.ParseServiceCIDR(subnet.String())).Size()
}

// broadcastAddress returns the highest address of a subnet, which is not allocatable in IPv4.
func broadcastAddress(subnet netip.Prefix) (netip.Addr, error) {
	cidr, err := rangekeeper.ParseServiceCIDR(subnet.String())
	if err != nil {
		return netip.Addr{}, err
	}
	last, ok := cidr.ValueAt(cidr.Size() - 1)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%s has no addresses", subnet)
	}
	if last.Is4() {
		last = last.Next()
	}
	return last, nil
}

// addOffsetAddress counts from any address, not from the first one of a subnet.
func addOffsetAddress(address netip.Addr, offset uint64) (netip.Addr, error) {
	if offset == 0 {
		return address, nil
	}
	bits := 64
	if address.Is4() {
		bits = 0
	}
	cidr, err := rangekeeper.ParseServiceCIDR(netip.PrefixFrom(address, bits).String())
	if err != nil {
		return netip.Addr{}, err
	}
	at := offset - 1
	if first, ok := cidr.OffsetOf(address); ok {
		at += first + 1
	}
	sum, ok := cidr.ValueAt(at)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%s has no address %d after %s", netip.PrefixFrom(address, bits), offset, address)
	}
	return sum, nil
}

// ipIterator returns the addresses from first to last, from an offset on and with wrap, by a CIDR that has both.
func ipIterator(first, last netip.Addr, offset uint64) func() netip.Addr {
	for bits := first.BitLen(); bits >= 0; bits-- {
		cidr := must(rangekeeper.ParseServiceCIDR(netip.PrefixFrom(first, bits).String()))
		low, okLow := cidr.OffsetOf(first)
		high, okHigh := cidr.OffsetOf(last)
		if !okLow || !okHigh {
			continue
		}
		size, n := high-low+1, uint64(0)
		return func() netip.Addr {
			if n == size {
				return netip.Addr{}
			}
			address, _ := cidr.ValueAt(low + (offset+n)%size)
			n++
			return address
		}
	}
	panic(fmt.Sprintf("no CIDR has %s and %s", first, last))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
