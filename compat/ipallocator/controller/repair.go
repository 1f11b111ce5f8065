// Package controller repairs ranges of ClusterIPs, and IPAddress objects.
package controller

import (
	"net"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/compat/rangeallocation"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/controlplane/repairloop"
)

// numRepairsBeforeLeakCleanup is the number of passes in a row that see an unused address before it is released:
// its Service may not be written yet.
const numRepairsBeforeLeakCleanup = 3

// Repair repairs drift between the ranges of ClusterIPs and the Services, and reports in Events what it cannot repair.
type Repair struct {
	// The released tests read these.
	networkByFamily   map[v1.IPFamily]*net.IPNet
	allocatorByFamily map[v1.IPFamily]rangeallocation.RangeRegistry
	leaksByFamily     map[v1.IPFamily]repairloop.Range

	loop *repairloop.Loop
}

// NewRepair returns a Repair of one range or, if secondaryNetwork has an address, of two. It makes a pass after each
// interval; 0 for 3 minutes. All programs that repair the range need the same interval: a leak is cleaned in the third
// pass, so an allocation has two intervals until its Service must be written. A leak of an allocator of
// storage.NewEtcd, whose range is in an etcd, is not cleaned before etcdstore.DefaultGrace, 6 minutes, either.
// eventClient gets the Events.
func NewRepair(interval time.Duration, serviceClient corev1client.ServicesGetter, eventClient eventsv1client.EventsV1Interface, network *net.IPNet, alloc rangeallocation.RangeRegistry, secondaryNetwork *net.IPNet, secondaryAlloc rangeallocation.RangeRegistry) *Repair {
	registerMetrics()
	c := &Repair{
		networkByFamily:   map[v1.IPFamily]*net.IPNet{},
		allocatorByFamily: map[v1.IPFamily]rangeallocation.RangeRegistry{},
		leaksByFamily:     map[v1.IPFamily]repairloop.Range{},
	}
	ranges := []repairloop.Range{c.add(network, alloc)}
	if secondaryNetwork != nil && secondaryNetwork.IP != nil {
		ranges = append(ranges, c.add(secondaryNetwork, secondaryAlloc))
	}
	c.loop = repairloop.New(repairloop.Config{
		Controller: repaircontroller.ClusterIPs, Ranges: ranges, Services: serviceClient, Events: eventClient,
		Interval: interval, Passes: numRepairsBeforeLeakCleanup,
		Found:  func(kind string, n int) { clusterIPRepairIPErrors.WithLabelValues(kind).Add(float64(n)) },
		Failed: func() { clusterIPRepairReconcileErrors.Inc() },
	})
	return c
}

func (c *Repair) add(network *net.IPNet, alloc rangeallocation.RangeRegistry) repairloop.Range {
	family := v1.IPv4Protocol
	if netutils.IsIPv6CIDR(network) {
		family = v1.IPv6Protocol
	}
	c.networkByFamily[family], c.allocatorByFamily[family] = network, alloc
	c.leaksByFamily[family] = repairloop.RangeOf(alloc, network.String())
	return c.leaksByFamily[family]
}

// RunUntil makes passes until stopCh is closed, and calls onFirstSuccess after the first one that succeeds.
func (c *Repair) RunUntil(onFirstSuccess func(), stopCh chan struct{}) {
	c.loop.RunUntil(onFirstSuccess, stopCh)
}
