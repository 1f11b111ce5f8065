package controller

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The metrics of kube-apiserver, under its names.
const (
	namespace = "apiserver"
	subsystem = "clusterip_repair"
)

var (
	clusterIPRepairIPErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "ip_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Findings of repair passes over ClusterIPs by type: leak, repair, full, outOfRange, duplicate, invalid.",
	}, []string{"type"})
	clusterIPRepairReconcileErrors = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "reconcile_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Repair passes over ClusterIPs that failed.",
	})
)

// registerMetrics registers the metrics in the registry of an API server.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(clusterIPRepairIPErrors, clusterIPRepairReconcileErrors)
})
