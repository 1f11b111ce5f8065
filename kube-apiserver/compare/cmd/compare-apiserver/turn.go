package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/latency"
)

const securePort = 16443

// takeTurn starts a server on an empty etcd and measures the works, one after the other.
func (c cluster) takeTurn(ctx context.Context, s apiserver.Side, dir string) (all []measurement, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	server, err := apiserver.Start(ctx, apiserver.Config{
		Side: s, Dir: dir, Port: securePort, ClusterIPRange: c.clusterIPRange, NodePortRange: nodePortRange,
	})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	for _, work := range c.works {
		m, err := work.measure(ctx, server)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", work.name, s.Name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// measure lets clients create or delete Services concurrently.
func (w work) measure(ctx context.Context, server *apiserver.Server) (measurement, error) {
	clients, err := server.Clients(w.clients)
	if err != nil {
		return measurement{}, err
	}
	before, err := readCounters(ctx, server)
	if err != nil {
		return measurement{}, err
	}

	do := apiserver.Create(w.serviceType)
	if w.deletes {
		if do, err = apiserver.Delete(ctx, clients[0], w.serviceType, w.services); err != nil {
			return measurement{}, err
		}
	}
	latencies, took, err := apiserver.Load{Clients: clients, Requests: w.services, Do: do}.Run(ctx)
	if err != nil {
		return measurement{}, err
	}

	after, err := readCounters(ctx, server)
	if err != nil {
		return measurement{}, err
	}
	n := float64(w.services)
	m := measurement{
		Ops:         n / took.Seconds(),
		P50:         latency.Percentile(latencies, 0.5),
		P99:         latency.Percentile(latencies, 0.99),
		Bytes:       float64(after.size-before.size) / n,
		CPU:         (after.cpu - before.cpu) * 1000 / n,
		RangeWrites: float64(after.rangeWrites-before.rangeWrites) / n,
		Reads:       (after.reads - before.reads) / n,
	}
	if swaps := after.swaps - before.swaps; swaps > 0 {
		m.PerSwap = (after.operations - before.operations) / swaps
	}
	return m, nil
}
