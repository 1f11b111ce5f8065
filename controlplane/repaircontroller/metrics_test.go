package repaircontroller

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/project"
	"github.com/rangekeeper/rangekeeper/controlplane/servermetrics"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestAlerts has all metrics that the alert rules of the chart read.
func TestAlerts(t *testing.T) {
	rules, err := os.ReadFile(project.Path("release", "deploy", "chart", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	metrics := NewMetrics()
	metrics.passed(NodePorts, time.Second, Result{
		Findings: []rangekeeper.Finding{{Reason: rangekeeper.ReasonPortOutOfRange}}, Ranges: []RangeResult{{RangeName: RangeName{Name: "servicenodeports"}, Size: 10}},
	}, nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, family := range families {
		has[family.GetName()] = len(family.GetMetric()) > 0
	}
	// Those of servers have no samples before its first turn, after which other tests read them.
	described := make(chan *prometheus.Desc, 10)
	servermetrics.New().Describe(described)
	close(described)
	for description := range described {
		has[regexp.MustCompile(`rangekeeper_\w+`).FindString(description.String())] = true
	}
	read := regexp.MustCompile(`rangekeeper_\w+`).FindAllString(string(rules), -1)
	if len(read) < 5 {
		t.Errorf("%q", read)
	}
	has["rangekeeper_audit_timestamp_seconds"] = true // of `rangekeeper audit -o prometheus`, whose test compares all
	for _, name := range read {
		if !has[name] {
			t.Errorf("no metric %s in %v", name, has)
		}
	}
}
