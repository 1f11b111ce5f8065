package ipallocator

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The metrics of kube-apiserver, under its names.
const (
	namespace = "kube_apiserver"
	subsystem = "clusterip_allocator"
)

var (
	clusterIPAllocated = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "allocated_ips", StabilityLevel: metrics.ALPHA,
		Help: "Addresses of a CIDR that are in use.",
	}, []string{"cidr"})
	clusterIPAvailable = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "available_ips", StabilityLevel: metrics.ALPHA,
		Help: "Addresses of a CIDR that are free.",
	}, []string{"cidr"})
	clusterIPAllocations = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "allocation_total", StabilityLevel: metrics.ALPHA,
		Help: "Allocations of addresses by scope: static for a named address, dynamic for any.",
	}, []string{"cidr", "scope"})
	clusterIPAllocationErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "allocation_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Allocations of addresses that failed, by scope: static for a named address, dynamic for any.",
	}, []string{"cidr", "scope"})
	clusterIPAllocationLatency = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "allocation_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help: "How long allocations of addresses took that create an IPAddress object.", Buckets: metrics.DefBuckets,
	}, []string{"cidr"})
)

// registerMetrics registers the metrics in the registry of an API server.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(clusterIPAllocated, clusterIPAvailable, clusterIPAllocations, clusterIPAllocationErrors,
		clusterIPAllocationLatency)
})

// metricsRecorderInterface counts allocations.
type metricsRecorderInterface interface {
	setAllocated(cidr string, allocated int)
	setAvailable(cidr string, available int)
	setLatency(cidr string, latency time.Duration)
	incrementAllocations(cidr, scope string)
	incrementAllocationErrors(cidr, scope string)
}

// metricsRecorder counts in the metrics above.
type metricsRecorder struct{}

func (*metricsRecorder) setAllocated(cidr string, allocated int) {
	clusterIPAllocated.WithLabelValues(cidr).Set(float64(allocated))
}

func (*metricsRecorder) setAvailable(cidr string, available int) {
	clusterIPAvailable.WithLabelValues(cidr).Set(float64(available))
}

func (*metricsRecorder) setLatency(cidr string, latency time.Duration) {
	clusterIPAllocationLatency.WithLabelValues(cidr).Observe(latency.Seconds())
}

func (*metricsRecorder) incrementAllocations(cidr, scope string) {
	clusterIPAllocations.WithLabelValues(cidr, scope).Inc()
}

func (*metricsRecorder) incrementAllocationErrors(cidr, scope string) {
	clusterIPAllocationErrors.WithLabelValues(cidr, scope).Inc()
}

// emptyMetricsRecorder counts nothing.
type emptyMetricsRecorder struct{}

func (*emptyMetricsRecorder) setAllocated(string, int)                 {}
func (*emptyMetricsRecorder) setAvailable(string, int)                 {}
func (*emptyMetricsRecorder) setLatency(string, time.Duration)         {}
func (*emptyMetricsRecorder) incrementAllocations(string, string)      {}
func (*emptyMetricsRecorder) incrementAllocationErrors(string, string) {}
