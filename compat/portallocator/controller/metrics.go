package controller

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The metrics of kube-apiserver, under its names.
const (
	namespace = "apiserver"
	subsystem = "nodeport_repair"
)

var (
	nodePortRepairPortErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "port_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Findings of repair passes over node ports by type: leak, repair, outOfRange, duplicate.",
	}, []string{"type"})
	nodePortRepairReconcileErrors = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "reconcile_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Repair passes over node ports that failed.",
	})
)

// registerMetrics registers the metrics in the registry of an API server.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nodePortRepairPortErrors, nodePortRepairReconcileErrors)
})
