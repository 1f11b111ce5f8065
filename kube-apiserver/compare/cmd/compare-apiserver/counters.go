package main

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
)

// counters are counters of the server and its etcd.
type counters struct {
	// size is that of etcd's database in bytes, rangeWrites the number of writes of stored ranges.
	size, rangeWrites int64
	// cpu is the server's CPU time in seconds. operations, swaps and reads are counters of etcdstore.
	cpu, operations, swaps, reads float64
}

func readCounters(ctx context.Context, server *apiserver.Server) (c counters, err error) {
	status, err := server.Etcd.Status(ctx, server.Etcd.Endpoints()[0])
	if err != nil {
		return c, err
	}
	c.size = status.DbSize
	ranges, err := server.Etcd.Get(ctx, "/registry/ranges/", clientv3.WithPrefix())
	if err != nil {
		return c, err
	}
	for _, kv := range ranges.Kvs {
		// The witness beside a range is not one.
		if !strings.HasSuffix(string(kv.Key), etcdstore.WitnessKey("")) {
			c.rangeWrites += kv.Version
		}
	}
	metrics, err := server.Metrics(ctx)
	if err != nil {
		return c, err
	}
	c.cpu = metrics.CPU()
	c.operations = metrics.Sum("rangekeeper_store_operations_total", "", "")
	c.swaps = metrics.Sum("rangekeeper_store_requests_total", "kind", "swap")
	c.reads = metrics.Sum("rangekeeper_store_requests_total", "kind", "read")
	return c, nil
}
