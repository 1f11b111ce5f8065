package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/latency"
)

// measurement is the result of one side's turn at a work.
type measurement struct {
	// operations is the number of measured allocations.
	operations int
	// ops is the number of allocations per second, bytes the growth of the database per allocation.
	ops, bytes float64
	// Percentiles of the latency of an allocation, in milliseconds.
	p50, p99, p999 float64
}

// run is the result of one run on an etcd.
type run struct {
	took  time.Duration
	grown int64
	// offsets are the allocated offsets, latencies those of their allocations. The first allocation is not measured.
	offsets   []int
	latencies []time.Duration
}

// takeTurn measures one side for turnTime, or for runsPerTurn times half of the range.
func takeTurn(ctx context.Context, w work, open opener, dir string) (measurement, error) {
	var took time.Duration
	var grown int64
	var latencies []time.Duration
	for i := 0; i < runsPerTurn && took < turnTime; i++ {
		r, err := runOnce(ctx, w, open, dir, turnTime-took)
		if err != nil {
			return measurement{}, fmt.Errorf("%s: %w", w.name, err)
		}
		took += r.took
		grown += r.grown
		latencies = append(latencies, r.latencies...)
	}
	slices.Sort(latencies)
	return measurement{
		operations: len(latencies),
		ops:        float64(len(latencies)) / took.Seconds(),
		bytes:      float64(grown) / float64(len(latencies)),
		p50:        latency.Percentile(latencies, 0.5),
		p99:        latency.Percentile(latencies, 0.99),
		p999:       latency.Percentile(latencies, 0.999),
	}, nil
}

// runOnce starts an etcd on an empty directory and servers. It lets the callers allocate for a time or until half of
// the range is in use, and checks their offsets.
func runOnce(ctx context.Context, w work, open opener, dir string, limit time.Duration) (r run, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return r, err
	}
	defer os.RemoveAll(dir) // if it fails, so does the next run
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: dir, KeepHistory: true})
	if err != nil {
		return r, err
	}
	defer etcd.Close()
	servers := make([]server, w.servers)
	for i := range servers {
		if servers[i], err = open(etcd.Endpoints()); err != nil {
			return r, err
		}
		defer func() {
			if closeErr := servers[i].close(); err == nil {
				err = closeErr
			}
		}()
		// The first allocation connects and fills the cache.
		offset, err := servers[i].allocate()
		if err != nil {
			return r, err
		}
		r.offsets = append(r.offsets, offset)
	}
	runtime.GC()
	before := etcd.DatabaseSize()
	if err := r.drive(w, servers, limit); err != nil {
		return r, err
	}
	r.grown = etcd.DatabaseSize() - before
	got, err := etcd.Client().Get(ctx, w.key)
	if err != nil {
		return r, err
	}
	if len(got.Kvs) != 1 {
		return r, fmt.Errorf("key %s does not exist", w.key)
	}
	return r, r.check(got.Kvs[0].Value)
}

// drive lets the callers allocate concurrently.
func (r *run) drive(w work, servers []server, limit time.Duration) error {
	type caller struct {
		offsets   []int
		latencies []time.Duration
		err       error
	}
	callers := make([]caller, w.callers)
	var begun atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for i := range callers {
		c, allocate := &callers[i], servers[i%len(servers)].allocate
		group.Go(func() {
			for now := time.Now(); now.Sub(start) < limit && begun.Add(1) <= int64(w.size/2); {
				offset, err := allocate()
				if err != nil {
					c.err = err
					return
				}
				end := time.Now()
				c.offsets = append(c.offsets, offset)
				c.latencies = append(c.latencies, end.Sub(now))
				now = end
			}
		})
	}
	group.Wait()
	r.took = time.Since(start)
	for _, c := range callers {
		if c.err != nil {
			return c.err
		}
		r.offsets = append(r.offsets, c.offsets...)
		r.latencies = append(r.latencies, c.latencies...)
	}
	return nil
}

// check returns an error unless each offset was allocated once, and the stored object has exactly these in use.
func (r *run) check(value []byte) error {
	object, err := decodeStored(value)
	if err != nil {
		return err
	}
	taken := map[int]bool{}
	for i, b := range object.Data {
		for bit := range 8 {
			if b>>bit&1 == 1 {
				taken[(len(object.Data)-1-i)*8+bit] = true
			}
		}
	}
	stored := len(taken)
	for _, offset := range r.offsets {
		if !taken[offset] {
			return fmt.Errorf("offset %d of %s was allocated twice, or is free in the stored object", offset, object.Range)
		}
		delete(taken, offset)
	}
	if len(taken) != 0 {
		return fmt.Errorf("%d of the %d values in use in the stored object were not allocated by a caller", len(taken), stored)
	}
	return nil
}
