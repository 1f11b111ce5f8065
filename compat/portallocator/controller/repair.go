// Package controller repairs ranges of node ports.
package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/util/net"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/rangekeeper/rangekeeper/compat/rangeallocation"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/controlplane/repairloop"
)

// numRepairsBeforeLeakCleanup is the number of passes in a row that see an unused port before it is released:
// its Service may not be written yet.
const numRepairsBeforeLeakCleanup = 3

// Repair repairs drift between the range of node ports and the Services, and reports in Events what it cannot repair.
type Repair struct {
	loop *repairloop.Loop
}

// NewRepair returns a Repair of the range of alloc, which makes a pass after each interval; 0 for 3 minutes. All
// programs that repair the range need the same interval: a leak is cleaned in the third pass, so an allocation has two
// intervals until its Service must be written. If alloc is of storage.NewEtcd, and the range in an etcd, a leak is not
// cleaned before etcdstore.DefaultGrace, 6 minutes, either. eventClient gets the Events.
func NewRepair(interval time.Duration, serviceClient corev1client.ServicesGetter, eventClient eventsv1client.EventsV1Interface, portRange net.PortRange, alloc rangeallocation.RangeRegistry) *Repair {
	registerMetrics()
	return &Repair{repairloop.New(repairloop.Config{
		Controller: repaircontroller.NodePorts, Ranges: []repairloop.Range{repairloop.RangeOf(alloc, portRange.String())},
		Services: serviceClient, Events: eventClient,
		Interval: interval, Passes: numRepairsBeforeLeakCleanup,
		Found:  func(kind string, n int) { nodePortRepairPortErrors.WithLabelValues(kind).Add(float64(n)) },
		Failed: func() { nodePortRepairReconcileErrors.Inc() },
	})}
}

// RunUntil makes passes until stopCh is closed, and calls onFirstSuccess after the first one that succeeds.
func (c *Repair) RunUntil(onFirstSuccess func(), stopCh chan struct{}) {
	c.loop.RunUntil(onFirstSuccess, stopCh)
}
