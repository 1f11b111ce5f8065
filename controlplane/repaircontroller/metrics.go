package repaircontroller

import (
	"slices"
	"sync"
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

	mu sync.Mutex
	// shown are the samples of the last pass of each controller, but for last.
	shown map[Controller]map[sample]float64
}

// sample is one of a gauge, with the values of its labels.
type sample struct {
	of     *prometheus.GaugeVec
	labels [3]string
}

// values are those of the labels that the gauge has.
func (s sample) values(m *Metrics) []string {
	switch s.of {
	case m.kept:
		return s.labels[:1]
	case m.findings:
		return s.labels[:]
	default:
		return s.labels[:2]
	}
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
	m := &Metrics{
		shown:    map[Controller]map[sample]float64{},
		size:     gauge("range_size", "Values that a range can allocate.", "range", "values"),
		used:     gauge("range_used", "Values of a range that are recorded as allocated after the last repair pass.", "range", "values"),
		free:     gauge("range_free", "Values of a range that are not recorded as allocated after the last repair pass.", "range", "values"),
		inUse:    gauge("range_in_use", "Values of a range that Services use.", "range", "values"),
		leaks:    gauge("leaks", "Values that are recorded as allocated though no Service uses them, after the last repair pass.", "range", "values"),
		kept:     gauge("range_kept", "1 if a stored range is kept though another one is configured, so that nothing of it is repaired.", "range"),
		findings: gauge("findings", "Findings of the last repair pass with a reason, by the range that they are about.", "controller", "reason", "range"),
		last:     gauge("repair_last_success_timestamp_seconds", "When the last repair pass has succeeded, in seconds since 1970; 0 for never.", "controller"),
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
	for _, c := range []Controller{ClusterIPs, NodePorts} {
		m.last.WithLabelValues(c.Name).Set(0)
	}
	return m
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

// looked records the outcome of a pass.
func (m *Metrics) looked(c Controller, took time.Duration, result Result, err error) {
	m.durations.WithLabelValues(c.Name).Observe(took.Seconds())
	if err != nil {
		m.failures[c].Inc()
	} else {
		m.last.WithLabelValues(c.Name).SetToCurrentTime()
		m.show(c, result)
	}
}

// passed records the outcome of a pass, and counts what it has found and repaired.
func (m *Metrics) passed(c Controller, took time.Duration, result Result, err error) {
	m.looked(c, took, result, err)
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

// show sets the gauges of a controller to the result of its pass. A scrape meanwhile sees each of before or of now.
func (m *Metrics) show(c Controller, result Result) {
	now := map[sample]float64{}
	for _, finding := range slices.Concat(result.Findings, result.Full) {
		name := ""
		if finding.Range >= 0 && finding.Range < len(result.Ranges) {
			name = result.Ranges[finding.Range].Name
		}
		now[sample{m.findings, [3]string{c.Name, finding.Reason.String(), name}}]++
	}
	for _, r := range result.Ranges {
		if r.Name == "" {
			continue
		}
		kept := 0.0
		if r.Kept != nil {
			kept = 1
		}
		now[sample{m.kept, [3]string{r.Name}}] = kept
		if r.Kept != nil && !r.IsObject {
			continue // nothing is found out about the values of the stored range
		}
		of := [3]string{r.Name, r.Values}
		now[sample{m.size, of}], now[sample{m.used, of}], now[sample{m.free, of}] = float64(r.Size), float64(r.Used), float64(r.Size-r.Used)
		if r.NotReady {
			now[sample{m.free, of}] = 0
		}
		now[sample{m.inUse, of}], now[sample{m.leaks, of}] = float64(r.InUse), float64(r.Leaked-r.Cleared)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for s, value := range now {
		s.of.WithLabelValues(s.values(m)...).Set(value)
	}
	for s := range m.shown[c] {
		if _, ok := now[s]; !ok {
			s.of.DeleteLabelValues(s.values(m)...)
		}
	}
	m.shown[c] = now
}
