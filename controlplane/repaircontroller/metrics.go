package repaircontroller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Metrics are a prometheus.Collector: the counters of kube-apiserver's repair controllers under their names, and the
// duration of passes, the size of their diffs, and the state of ranges after the last one.
type Metrics struct {
	errors    map[Controller]*prometheus.CounterVec
	failures  map[Controller]prometheus.Counter
	durations *prometheus.HistogramVec
	changes   *prometheus.CounterVec
	// The state after the last pass.
	size, used, free, inUse, leaks *prometheus.GaugeVec
	findings, last, kept           *prometheus.GaugeVec
}

// NewMetrics makes counters at 0, for the Repairers of one process.
func NewMetrics() *Metrics {
	types := []string{"type"}
	counter := func(subsystem, name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "apiserver", Subsystem: subsystem, Name: name, Help: help}
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rangekeeper", Name: name, Help: help}, labels)
	}
	return &Metrics{
		size:     gauge("range_size", "Values that a range can allocate.", "range"),
		used:     gauge("range_used", "Values of a range that are recorded as allocated after the last repair pass.", "range"),
		free:     gauge("range_free", "Values of a range that are not recorded as allocated after the last repair pass.", "range"),
		inUse:    gauge("range_in_use", "Values of a range that Services use.", "range"),
		leaks:    gauge("leaks", "Values that are recorded as allocated though no Service uses them, after the last repair pass.", "range"),
		kept:     gauge("range_kept", "1 if a stored range is kept though another one is configured, so that nothing of it is repaired.", "range"),
		findings: gauge("findings", "Findings of the last repair pass with a reason.", "controller", "reason"),
		last:     gauge("repair_last_success_timestamp_seconds", "When the last repair pass has succeeded, in seconds since 1970.", "controller"),
		errors: map[Controller]*prometheus.CounterVec{
			ClusterIPs: prometheus.NewCounterVec(counter("clusterip_repair", "ip_errors_total", "Findings of repair passes over ClusterIPs by type: leak, repair, full, outOfRange, duplicate, invalid."), types),
			NodePorts:  prometheus.NewCounterVec(counter("nodeport_repair", "port_errors_total", "Findings of repair passes over node ports by type: leak, repair, outOfRange, duplicate."), types),
		},
		failures: map[Controller]prometheus.Counter{
			ClusterIPs: prometheus.NewCounter(counter("clusterip_repair", "reconcile_errors_total", "Repair passes over ClusterIPs that failed.")),
			NodePorts:  prometheus.NewCounter(counter("nodeport_repair", "reconcile_errors_total", "Repair passes over node ports that failed.")),
		},
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "rangekeeper", Subsystem: "repair", Name: "pass_duration_seconds",
			Help: "How long repair passes took.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}, []string{"controller"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "rangekeeper", Subsystem: "repair", Name: "values_total",
			Help: "Values that repair passes set, cleared, or left alone because they or Services had changed.",
		}, []string{"controller", "change"}),
	}
}

// Describe makes Metrics a prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, collector := range m.collectors() {
		collector.Describe(descriptions)
	}
}

// Collect makes Metrics a prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	for _, collector := range m.collectors() {
		collector.Collect(metrics)
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.errors[ClusterIPs], m.errors[NodePorts], m.failures[ClusterIPs], m.failures[NodePorts], m.durations, m.changes,
		m.size, m.used, m.free, m.inUse, m.leaks, m.findings, m.last, m.kept,
	}
}

// types are what FindingType gives.
var types = map[rangekeeper.Reason]string{
	rangekeeper.ReasonClusterIPNotValid:         "invalid",
	rangekeeper.ReasonClusterIPNotAllocated:     "repair",
	rangekeeper.ReasonClusterIPAlreadyAllocated: "duplicate",
	rangekeeper.ReasonClusterIPOutOfRange:       "outOfRange",
	rangekeeper.ReasonServiceCIDRFull:           "full",
	rangekeeper.ReasonPortNotAllocated:          "repair",
	rangekeeper.ReasonPortAlreadyAllocated:      "duplicate",
	rangekeeper.ReasonPortOutOfRange:            "outOfRange",
}

// FindingType is what kube-apiserver's counters have as their type for a finding.
func FindingType(reason rangekeeper.Reason) string { return types[reason] }

// passed counts a pass.
func (m *Metrics) passed(c Controller, took time.Duration, result Result, err error) {
	m.durations.WithLabelValues(c.Name).Observe(took.Seconds())
	if err != nil {
		m.failures[c].Inc()
	} else {
		m.last.WithLabelValues(c.Name).SetToCurrentTime()
		m.findings.DeletePartialMatch(prometheus.Labels{"controller": c.Name})
		for _, finding := range result.Findings {
			m.findings.WithLabelValues(c.Name, finding.Reason.String()).Inc()
		}
		for _, r := range result.Ranges {
			if r.Name != "" {
				m.set(r)
			}
		}
	}
	for _, finding := range result.Findings {
		m.errors[c].WithLabelValues(FindingType(finding.Reason)).Inc()
	}
	for _, r := range result.Ranges {
		m.errors[c].WithLabelValues("leak").Add(float64(r.Cleared))
		m.changes.WithLabelValues(c.Name, "set").Add(float64(r.Set))
		m.changes.WithLabelValues(c.Name, "cleared").Add(float64(r.Cleared))
		m.changes.WithLabelValues(c.Name, "changed").Add(float64(r.Changed))
	}
}

// set sets the gauges of a range, which has one only, that it is kept, while the stored one is another range.
func (m *Metrics) set(r RangeResult) {
	kept := m.kept.WithLabelValues(r.Name)
	kept.Set(0)
	if r.Kept != nil {
		kept.Set(1)
	}
	for vec, value := range map[*prometheus.GaugeVec]uint64{
		m.size: r.Size, m.used: r.Used, m.free: r.Size - r.Used, m.inUse: r.InUse, m.leaks: uint64(r.Leaked - r.Cleared),
	} {
		if r.Kept != nil {
			vec.DeleteLabelValues(r.Name)
		} else {
			vec.WithLabelValues(r.Name).Set(float64(value))
		}
	}
}
