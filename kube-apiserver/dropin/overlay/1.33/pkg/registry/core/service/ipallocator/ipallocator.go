package ipallocator

import (
	"math"
	"net"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
)

// ControllerName is the value of the managed-by label of the allocated IPAddress objects.
const ControllerName = ipaddress.ManagedBy

// recorder records in the released metrics.
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
