package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator/controller"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

func referenceCIDR(cidr string) *net.IPNet {
	_, parsed, err := net.ParseCIDR(cidr)
	must(err)
	return parsed
}

// referenceRange returns the reference's allocator without metrics, restored from a snapshot.
func referenceRange(cidr string, snapshot []byte) *ipallocator.Range {
	parsed := referenceCIDR(cidr)
	r, err := ipallocator.NewInMemory(parsed)
	must(err)
	must(r.Restore(parsed, snapshot))
	return r
}

func referenceAllocateNext(cidr string, snapshot []byte) side {
	r := referenceRange(cidr, snapshot)
	return func(n int) {
		for range n {
			ip, err := r.AllocateNext()
			must(err)
			must(r.Release(ip))
		}
	}
}

func referenceAllocate(cidr string, snapshot []byte, free []netip.Addr) side {
	r := referenceRange(cidr, snapshot)
	ips := referenceIPs(free)
	return func(n int) {
		for i := range n {
			ip := ips[i&(addressesPerWork-1)]
			must(r.Allocate(ip))
			must(r.Release(ip))
		}
	}
}

func referenceHas(cidr string, snapshot []byte, addresses []netip.Addr) side {
	r := referenceRange(cidr, snapshot)
	ips := referenceIPs(addresses)
	return func(n int) {
		for i := range n {
			sink += toInt(r.Has(ips[i&(addressesPerWork-1)]))
		}
	}
}

func referenceSnapshot(cidr string, snapshot []byte) side {
	r := referenceRange(cidr, snapshot)
	return func(n int) {
		var stored api.RangeAllocation
		for range n {
			must(r.Snapshot(&stored))
		}
		mustEqual(stored.Data, snapshot)
	}
}

func referenceRestore(cidr string, snapshot []byte) side {
	r := referenceRange(cidr, nil)
	parsed := referenceCIDR(cidr)
	return func(n int) {
		for range n {
			must(r.Restore(parsed, snapshot))
		}
	}
}

func referenceForEach(cidr string, snapshot []byte) side {
	r := referenceRange(cidr, snapshot)
	return func(n int) {
		for range n {
			r.ForEach(func(net.IP) { sink++ })
		}
	}
}

func referenceNodePorts(snapshot []byte) side {
	ports := utilnet.ParsePortRangeOrDie(nodePorts)
	r, err := portallocator.NewInMemory(*ports)
	must(err)
	must(r.Restore(*ports, snapshot))
	return func(n int) {
		for range n {
			port, err := r.AllocateNext()
			must(err)
			must(r.Release(port))
		}
	}
}

// referenceRepair runs passes of the reference's repair controller.
func referenceRepair(c cluster) side {
	network := referenceCIDR(cidr12)
	services := &serviceList{list: corev1.ServiceList{Items: c.services}}
	return func(n int) {
		for range n {
			registry := &rangeRegistry{stored: api.RangeAllocation{
				ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"},
				Range:      cidr12,
				Data:       c.snapshot,
			}}
			repair := controller.NewRepair(time.Hour, services, noEvents{}, network, registry, nil, nil)
			stop := make(chan struct{})
			repair.RunUntil(func() { close(stop) }, stop)
			mustEqual(registry.stored.Data, c.snapshot)
		}
	}
}

// serviceList is a client that lists Services from memory.
type serviceList struct {
	corev1client.ServiceInterface
	list corev1.ServiceList
}

func (s *serviceList) Services(string) corev1client.ServiceInterface { return s }

func (s *serviceList) List(context.Context, metav1.ListOptions) (*corev1.ServiceList, error) {
	return &s.list, nil
}

// rangeRegistry keeps a RangeAllocation in memory.
type rangeRegistry struct {
	stored api.RangeAllocation
}

func (r *rangeRegistry) Get() (*api.RangeAllocation, error) {
	stored := r.stored
	return &stored, nil
}

func (r *rangeRegistry) CreateOrUpdate(updated *api.RangeAllocation) error {
	r.stored = *updated
	return nil
}

// noEvents panics on every call: a cluster without drift causes no Event.
type noEvents struct {
	eventsv1client.EventsV1Interface
}

func referenceIPs(addresses []netip.Addr) []net.IP {
	ips := make([]net.IP, len(addresses))
	for i, address := range addresses {
		ips[i] = net.IP(address.AsSlice())
	}
	return ips
}

// sink uses results, so that the compiler removes no call.
var sink int

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func mustEqual(got, want []byte) {
	if !bytes.Equal(got, want) {
		must(fmt.Errorf("the snapshot differs from the expected one: %d bytes, want %d", len(got), len(want)))
	}
}
