package main

import (
	"bytes"
	"context"
	"net"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"
)

// counters are counters of the server and its etcd.
type counters struct {
	// size is that of etcd's database in bytes, rangeWrites the number of writes of stored ranges.
	size, rangeWrites int64
	// cpu is the server's CPU time in seconds. operations, swaps and reads are counters of etcdstore.
	cpu, operations, swaps, reads float64
}

func readCounters(ctx context.Context, client *kubernetes.Clientset, etcd *clientv3.Client) (c counters, err error) {
	status, err := etcd.Status(ctx, etcd.Endpoints()[0])
	if err != nil {
		return c, err
	}
	c.size = status.DbSize
	ranges, err := etcd.Get(ctx, "/registry/ranges/", clientv3.WithPrefix())
	if err != nil {
		return c, err
	}
	for _, kv := range ranges.Kvs {
		c.rangeWrites += kv.Version
	}
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return c, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return c, err
	}
	c.cpu = sum(families["process_cpu_seconds_total"], "", "")
	c.operations = sum(families["rangekeeper_store_operations_total"], "", "")
	c.swaps = sum(families["rangekeeper_store_requests_total"], "kind", "swap")
	c.reads = sum(families["rangekeeper_store_requests_total"], "kind", "read")
	return c, nil
}

// sum returns the sum of a family's counters, or of those with a label.
func sum(family *dto.MetricFamily, label, value string) (total float64) {
	for _, metric := range family.GetMetric() {
		matches := label == ""
		for _, pair := range metric.GetLabel() {
			matches = matches || pair.GetName() == label && pair.GetValue() == value
		}
		if matches {
			total += metric.GetCounter().GetValue()
		}
	}
	return total
}

// newDialer returns the dial function of one client: client-go shares connections among clients with equal configurations.
func newDialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 30 * time.Second}).DialContext
}
