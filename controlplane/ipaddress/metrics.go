package ipaddress

import (
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Scope is the way in which an address is chosen.
type Scope string

const (
	// Static allocations name an address.
	Static Scope = "static"
	// Dynamic allocations take any.
	Dynamic Scope = "dynamic"
)

// Recorder records what happens to the addresses of CIDRs, such as [Metrics].
type Recorder interface {
	// Allocated counts an allocation, and the time that it took.
	Allocated(cidr netip.Prefix, scope Scope, took time.Duration)
	// Failed counts an allocation that failed.
	Failed(cidr netip.Prefix, scope Scope)
	// SetUsage sets the numbers of used and free addresses. The first call for a CIDR comes before its first
	// allocation.
	SetUsage(cidr netip.Prefix, used, free uint64)
	// Forget drops all numbers of a CIDR that is gone.
	Forget(cidr netip.Prefix)
}

// Record has r record from now on, and sets the usage of all CIDRs at once: a CIDR without an allocation has gauges,
// too.
func (a *Allocator) Record(r Recorder) {
	a.gauges.Lock()
	a.recorder = r
	a.gauges.Unlock()
	a.setGauges(func(cidr) bool { return true })
}

func (a *Allocator) record() Recorder {
	a.gauges.Lock()
	defer a.gauges.Unlock()
	return a.recorder
}

// count records a finished allocation in the first CIDR that has the address.
func (a *Allocator) count(address netip.Addr, scope Scope, begun time.Time, err error) {
	c, ok := find(a.cidrs.get(), address)
	if !ok { // deleted meanwhile
		return
	}
	if err != nil {
		a.record().Failed(c.prefix, scope)
	} else {
		a.record().Allocated(c.prefix, scope, time.Since(begun))
	}
	a.index.refill()
	a.setGaugesOf(address)
}

// setGaugesOf sets the gauges of the CIDRs of an address whose object has changed.
func (a *Allocator) setGaugesOf(address netip.Addr) {
	a.setGauges(func(c cidr) bool { return c.has(address) })
}

// setGauges sets the gauges of some CIDRs: of those that still exist while no other gauge is set.
func (a *Allocator) setGauges(of func(cidr) bool) {
	a.gauges.Lock()
	defer a.gauges.Unlock()
	if a.isClosed() {
		return
	}
	for _, c := range *a.cidrs.all.Load() {
		if of(c) {
			used, free := a.index.usage(c.values)
			a.recorder.SetUsage(c.prefix, used, free)
		}
	}
}

// cidrsChanged sets the gauges of CIDRs that have come, and drops those of CIDRs that are gone.
func (a *Allocator) cidrsChanged(gone []netip.Prefix) {
	a.gauges.Lock()
	for _, prefix := range gone {
		a.recorder.Forget(prefix)
	}
	a.gauges.Unlock()
	a.setGauges(func(cidr) bool { return true })
}

// nobody records nothing.
type nobody struct{}

func (nobody) Allocated(netip.Prefix, Scope, time.Duration) {}
func (nobody) Failed(netip.Prefix, Scope)                   {}
func (nobody) SetUsage(netip.Prefix, uint64, uint64)        {}
func (nobody) Forget(netip.Prefix)                          {}

// Metrics are kube-apiserver's metrics of ClusterIPs, with its names and labels
// (pkg/registry/core/service/ipallocator/metrics.go). Other than there they exist from the first moment on, for each
// ServiceCIDR (kubernetes#139134, kubernetes#140613).
type Metrics struct {
	used, free        *prometheus.GaugeVec
	allocated, failed *prometheus.CounterVec
	took              *prometheus.HistogramVec
}

// NewMetrics returns Metrics that are registered. The error is that of the registerer.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "kube_apiserver", Subsystem: "clusterip_allocator", Name: name, Help: help}
	}
	took := opts("allocation_duration_seconds", "Time in seconds that the allocation of a ClusterIP took, by CIDR")
	m := &Metrics{
		used:      prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("allocated_ips", "Number of allocated ClusterIPs, by CIDR")), []string{"cidr"}),
		free:      prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("available_ips", "Number of free ClusterIPs, by CIDR")), []string{"cidr"}),
		allocated: prometheus.NewCounterVec(prometheus.CounterOpts(opts("allocation_total", "Number of allocations of ClusterIPs, by CIDR and scope")), []string{"cidr", "scope"}),
		failed:    prometheus.NewCounterVec(prometheus.CounterOpts(opts("allocation_errors_total", "Number of allocations of ClusterIPs that failed, by CIDR and scope")), []string{"cidr", "scope"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: took.Namespace, Subsystem: took.Subsystem, Name: took.Name, Help: took.Help, Buckets: prometheus.DefBuckets,
		}, []string{"cidr"}),
	}
	for _, c := range []prometheus.Collector{m.used, m.free, m.allocated, m.failed, m.took} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Allocated implements [Recorder].
func (m *Metrics) Allocated(cidr netip.Prefix, scope Scope, took time.Duration) {
	m.allocated.WithLabelValues(cidr.String(), string(scope)).Inc()
	m.took.WithLabelValues(cidr.String()).Observe(took.Seconds())
}

// Failed implements [Recorder].
func (m *Metrics) Failed(cidr netip.Prefix, scope Scope) {
	m.failed.WithLabelValues(cidr.String(), string(scope)).Inc()
}

// SetUsage implements [Recorder].
func (m *Metrics) SetUsage(cidr netip.Prefix, used, free uint64) {
	m.used.WithLabelValues(cidr.String()).Set(float64(used))
	m.free.WithLabelValues(cidr.String()).Set(float64(free))
	// A counter that appears with its first count has no rate for it.
	for _, scope := range []Scope{Static, Dynamic} {
		m.allocated.WithLabelValues(cidr.String(), string(scope))
		m.failed.WithLabelValues(cidr.String(), string(scope))
	}
	m.took.WithLabelValues(cidr.String())
}

// Forget implements [Recorder].
func (m *Metrics) Forget(cidr netip.Prefix) {
	labels := prometheus.Labels{"cidr": cidr.String()}
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.used, m.free, m.allocated, m.failed, m.took} {
		vec.DeletePartialMatch(labels)
	}
}
