package bootstrap

import "github.com/prometheus/client_golang/prometheus"

// counts are how many addresses of servers a turn has found.
type counts struct {
	Leases    int  `json:"leases"`
	Endpoints int  `json:"endpoints"`
	Slice     int  `json:"slice"`
	Agree     bool `json:"agree"`
}

// Metrics are a prometheus.Collector: how many API servers hold leases and are announced, as the last turn has found
// them, and whether that was right. They have no samples before the first turn, and none in the mode none.
type Metrics struct {
	addresses *prometheus.GaugeVec
	agree     *prometheus.GaugeVec
}

// NewMetrics makes metrics for one Controller.
func NewMetrics() *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rangekeeper", Subsystem: "apiserver", Name: name, Help: help}, labels)
	}
	return &Metrics{
		addresses: gauge("addresses", "Addresses of API servers in leases, in the Endpoints and in the EndpointSlice of the Service kubernetes.", "object"),
		agree:     gauge("addresses_agree", "1 if the last turn has found Endpoints and EndpointSlice of the Service kubernetes as they should be; else it writes them."),
	}
}

// Describe makes Metrics a prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	m.addresses.Describe(descriptions)
	m.agree.Describe(descriptions)
}

// Collect makes Metrics a prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.addresses.Collect(metrics)
	m.agree.Collect(metrics)
}

func (m *Metrics) set(found *counts) {
	for object, count := range map[string]int{"MasterLease": found.Leases, "Endpoints": found.Endpoints, "EndpointSlice": found.Slice} {
		m.addresses.WithLabelValues(object).Set(float64(count))
	}
	agree := 0.0
	if found.Agree {
		agree = 1
	}
	m.agree.WithLabelValues().Set(agree)
}
