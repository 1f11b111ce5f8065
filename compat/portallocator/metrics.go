package portallocator

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The metrics of kube-apiserver, under its names.
const (
	namespace = "kube_apiserver"
	subsystem = "nodeport_allocator"
)

var (
	nodePortAllocated = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "allocated_ports", StabilityLevel: metrics.ALPHA,
		Help: "Node ports that are in use.",
	})
	nodePortAvailable = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "available_ports", StabilityLevel: metrics.ALPHA,
		Help: "Node ports that are free.",
	})
	nodePortAllocations = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "allocation_total", StabilityLevel: metrics.ALPHA,
		Help: "Allocations of node ports by scope: static for a named port, dynamic for any.",
	}, []string{"scope"})
	nodePortAllocationErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "allocation_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Allocations of node ports that failed, by scope: static for a named port, dynamic for any.",
	}, []string{"scope"})
)

// registerMetrics registers the metrics in the registry of an API server.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nodePortAllocated, nodePortAvailable, nodePortAllocations, nodePortAllocationErrors)
})

// metricsRecorderInterface counts allocations.
type metricsRecorderInterface interface {
	setAllocated(allocated int)
	setAvailable(available int)
	incrementAllocations(scope string)
	incrementAllocationErrors(scope string)
}

// metricsRecorder counts in the metrics above.
type metricsRecorder struct{}

func (*metricsRecorder) setAllocated(allocated int) { nodePortAllocated.Set(float64(allocated)) }
func (*metricsRecorder) setAvailable(available int) { nodePortAvailable.Set(float64(available)) }
func (*metricsRecorder) incrementAllocations(scope string) {
	nodePortAllocations.WithLabelValues(scope).Inc()
}
func (*metricsRecorder) incrementAllocationErrors(scope string) {
	nodePortAllocationErrors.WithLabelValues(scope).Inc()
}

// emptyMetricsRecorder counts nothing.
type emptyMetricsRecorder struct{}

func (*emptyMetricsRecorder) setAllocated(int)                 {}
func (*emptyMetricsRecorder) setAvailable(int)                 {}
func (*emptyMetricsRecorder) incrementAllocations(string)      {}
func (*emptyMetricsRecorder) incrementAllocationErrors(string) {}
