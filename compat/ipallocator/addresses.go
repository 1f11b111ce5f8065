package ipallocator

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	api "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ControllerName is the value of the managed-by label of the allocated IPAddress objects.
const ControllerName = ipaddress.ManagedBy

// createTimeout limits an allocation, whose caller gives no context. It ends before a request for a Service does, 34 s
// (k8s.io/apiserver/pkg/endpoints/handlers), so that its client is told to try again.
const createTimeout = 30 * time.Second

// withCreateTimeout returns the context of all requests of one allocation.
func withCreateTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), createTimeout)
}

// addresses are the IPAddress objects of a family, and the ServiceCIDR objects that say which there can be.
type addresses struct {
	client            networkingv1client.NetworkingV1Interface
	serviceCIDRSynced cache.InformerSynced
	ipAddressSynced   cache.InformerSynced
	ipFamily          api.IPFamily
	objects           *ipaddress.Allocator
}

// newAddresses returns the addresses of a family, which follow the objects until their end. Allocations wait until they
// can be served, at most startTimeout.
func newAddresses(
	client networkingv1client.NetworkingV1Interface,
	serviceCIDRInformer networkingv1informers.ServiceCIDRInformer,
	ipAddressInformer networkingv1informers.IPAddressInformer,
	isIPv6 bool,
	startTimeout time.Duration,
) (*addresses, error) {
	options := ipaddress.Options{
		Family: "IPv4", Client: client.IPAddresses(), ServiceCIDRs: serviceCIDRInformer, IPAddresses: ipAddressInformer,
		StartTimeout: startTimeout,
	}
	if isIPv6 {
		options.Family = "IPv6"
	}
	objects, err := ipaddress.New(options)
	if err != nil {
		return nil, err
	}
	return &addresses{
		client:            client,
		serviceCIDRSynced: serviceCIDRInformer.Informer().HasSynced,
		ipAddressSynced:   ipAddressInformer.Informer().HasSynced,
		ipFamily:          api.IPFamily(options.Family),
		objects:           objects,
	}, nil
}

// interpret returns the package's error. Nothing is known to be full or unknown as long as the informers have not
// synced.
func (c *addresses) interpret(err error) error {
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

// create creates the object of an address for a Service.
func (c *addresses) create(ctx context.Context, service *api.Service, ip net.IP) (*networkingv1.IPAddress, error) {
	return c.objects.Allocate(ctx, addressOf(ip), ownerOf(service))
}

// createNext creates the object of a free address for a Service.
func (c *addresses) createNext(ctx context.Context, service *api.Service) (*networkingv1.IPAddress, error) {
	return c.objects.AllocateNext(ctx, ownerOf(service))
}

// delete deletes the object of an address, of any owner. It leaves what fails to the repair of IPAddress objects.
func (c *addresses) delete(ip net.IP) {
	object, err := c.client.IPAddresses().Get(context.Background(), ip.String(), metav1.GetOptions{})
	if err == nil {
		err = c.objects.Undo(context.Background(), object)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "Leaving an IPAddress object to the repair", "ipAddress", ip)
	}
}

// contains reports whether a CIDR, and with ready one that is ready, contains an address.
func (c *addresses) contains(ip net.IP, ready bool) bool {
	return slices.ContainsFunc(c.objects.Usage(), func(of ipaddress.Usage) bool {
		return of.CIDR.Contains(addressOf(ip)) && (of.Ready || !ready)
	})
}

// ForEach calls fn with each address in use in the cache.
func (c *addresses) ForEach(fn func(net.IP)) {
	for _, object := range c.objects.List() {
		fn(netutils.ParseIPSloppy(object.Name))
	}
}

// IPFamily returns the family of the addresses.
func (c *addresses) IPFamily() api.IPFamily { return c.ipFamily }

// Has reports whether an address of a ready CIDR is in use, after a request to the API server.
func (c *addresses) Has(ip net.IP) bool {
	if !c.contains(ip, true) {
		return false
	}
	object, err := c.client.IPAddresses().Get(context.Background(), ip.String(), metav1.GetOptions{})
	return err == nil && object.Name != ""
}

// Used returns the number of addresses in use, those that are being created included, each counted once.
func (c *addresses) Used() int {
	return c.count(func(of ipaddress.Usage) uint64 { return of.Used })
}

// Free returns the number of free addresses, each counted once; the largest int if there are more.
func (c *addresses) Free() int {
	return c.count(func(of ipaddress.Usage) uint64 { return of.Free })
}

// count adds up the numbers of the CIDRs that no other one contains.
func (c *addresses) count(of func(ipaddress.Usage) uint64) int {
	var cidrs []netip.Prefix
	all := c.objects.Usage()
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

// close stops following the objects.
func (c *addresses) close() {
	_ = c.objects.Close() // informers that have ended have no handlers
}

// EnableMetrics starts to count allocations.
func (c *addresses) EnableMetrics() {
	registerMetrics()
	c.objects.Record(recorder{})
}

// dryRun returns an allocator that answers as of would, evaluates allocations on the cache and creates nothing. errorOf
// returns the package's error.
func (c *addresses) dryRun(of Interface, errorOf func(error) error) Interface {
	named := func(ip net.IP) error {
		err := errorOf(c.objects.Check(context.Background(), addressOf(ip)))
		if errors.Is(err, ErrMismatchedNetwork) { // tools read the range in the answer to a dry run of the released code
			return &ErrNotInRange{ip, c.readyCIDRs()}
		}
		return err
	}
	next := func() (net.IP, error) {
		address, err := c.objects.Peek(context.Background())
		if err != nil {
			return nil, errorOf(err)
		}
		return address.AsSlice(), nil
	}
	return dryRunAllocator{of, named, next}
}

// readyCIDRs returns the CIDRs from which addresses can be allocated, as text.
func (c *addresses) readyCIDRs() string {
	var all []string
	for _, usage := range c.objects.Usage() {
		if usage.Ready {
			all = append(all, usage.CIDR.String())
		}
	}
	return strings.Join(all, ", ")
}

// recorder records in the metrics.
type recorder struct{ metricsRecorder }

var _ ipaddress.Recorder = recorder{}

func (r recorder) Allocated(cidr netip.Prefix, scope ipaddress.Scope, took time.Duration) {
	r.incrementAllocations(cidr.String(), string(scope))
	r.setLatency(cidr.String(), took)
}

func (r recorder) Failed(cidr netip.Prefix, scope ipaddress.Scope) {
	r.incrementAllocationErrors(cidr.String(), string(scope))
}

func (r recorder) SetUsage(cidr netip.Prefix, used, free uint64) {
	r.setAllocated(cidr.String(), intOf(used))
	r.setAvailable(cidr.String(), intOf(free))
	for _, scope := range []ipaddress.Scope{ipaddress.Static, ipaddress.Dynamic} {
		clusterIPAllocations.WithLabelValues(cidr.String(), string(scope))
		clusterIPAllocationErrors.WithLabelValues(cidr.String(), string(scope))
	}
	clusterIPAllocationLatency.WithLabelValues(cidr.String())
}

func (recorder) Forget(cidr netip.Prefix) {
	labels := map[string]string{"cidr": cidr.String()}
	clusterIPAllocated.Delete(labels)
	clusterIPAvailable.Delete(labels)
	clusterIPAllocationLatency.Delete(labels)
	for _, scope := range []ipaddress.Scope{ipaddress.Static, ipaddress.Dynamic} {
		labels["scope"] = string(scope)
		clusterIPAllocations.Delete(labels)
		clusterIPAllocationErrors.Delete(labels)
	}
}

// intOf returns the largest int for more.
func intOf(n uint64) int { return int(min(n, math.MaxInt)) }

// addressOf returns the zero address, which is in no CIDR, for an invalid one.
func addressOf(ip net.IP) netip.Addr {
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}

// ownerOf returns the reference to a Service; nil for none.
func ownerOf(service *api.Service) *networkingv1.ParentReference {
	if service == nil {
		return nil
	}
	return &networkingv1.ParentReference{Resource: "services", Namespace: service.Namespace, Name: service.Name}
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
