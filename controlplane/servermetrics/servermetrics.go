// Package servermetrics has gauges of the API servers of a cluster: how many hold leases and stand in the endpoints of
// the Service kubernetes. The bootstrap controller beside a server and the one inside set the same ones.
package servermetrics

import "github.com/prometheus/client_golang/prometheus"

// Found is how many addresses of API servers a turn has found, before its changes, in the JSON of the core.
type Found struct {
	// Leases, Endpoints and Slice count the addresses in each.
	Leases    int `json:"leases"`
	Endpoints int `json:"endpoints"`
	Slice     int `json:"slice"`
	// Agree: Endpoints and slice are as they should be.
	Agree bool `json:"agree"`
}

// Metrics are a prometheus.Collector: what the last turn has found. They have no samples before the first one.
type Metrics struct{ addresses, agree *prometheus.GaugeVec }

// New makes metrics for one bootstrap controller.
func New() *Metrics {
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

// Set takes what a turn has found.
func (m *Metrics) Set(found Found) {
	for object, count := range map[string]int{"MasterLease": found.Leases, "Endpoints": found.Endpoints, "EndpointSlice": found.Slice} {
		m.addresses.WithLabelValues(object).Set(float64(count))
	}
	agree := 0.0
	if found.Agree {
		agree = 1
	}
	m.agree.WithLabelValues().Set(agree)
}
