package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/latency"
)

const (
	// clients is the number of clients that send requests concurrently.
	clients = 32
	// singlePart is the part of a step's requests that one client sends alone: 200 of 3,000.
	singlePart = 15
	// wideRange has addresses for all Services of a run.
	wideRange = "10.0.0.0/12"
	firstPort = 16443
)

// contender is a running server and what was measured on it.
type contender struct {
	name    string
	server  *apiserver.Server
	clients []*kubernetes.Clientset
	// services is the number of Services that clients have created and not deleted.
	services int
	steps    []step
}

// step is a measurement between two numbers of Services.
type step struct {
	// Services is the number of Services at the beginning.
	Services int `json:"services"`
	// Requests is the number of requests of all clients, PerSecond their rate.
	Requests  int     `json:"requests"`
	PerSecond float64 `json:"per_second"`
	// CPU is the API server's CPU time per request, in milliseconds.
	CPU float64 `json:"cpu_ms"`
	// P50 and P99 are percentiles of the latency with all clients, in milliseconds.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// SingleP50 is the median with one client, at the beginning of the step.
	SingleP50 float64 `json:"single_p50_ms"`
	// Load is the machine's load average over a minute, at the end.
	Load float64 `json:"load"`
}

// bothSides are the steps of both sides.
type bothSides struct {
	Reference   []step `json:"reference"`
	Rangekeeper []step `json:"rangekeeper"`
}

// start starts server number i on an etcd with Services that have these addresses.
func (c comparison) start(ctx context.Context, side apiserver.Side, dir, clusterIPRange string, i int, addresses []netip.Addr) (*contender, error) {
	config := apiserver.Config{Side: side, Dir: dir, Port: uint16(firstPort + i), ClusterIPRange: clusterIPRange}
	if err := apiserver.Fill(ctx, config, addresses); err != nil {
		return nil, err
	}
	server, err := apiserver.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	own := &contender{name: side.Name, server: server, services: len(addresses)}
	if own.clients, err = server.Clients(clients); err == nil {
		err = own.settle(ctx)
	}
	if err != nil {
		server.Stop()
		return nil, fmt.Errorf("%s: %w", side.Name, err)
	}
	return own, nil
}

// settle waits until the server has done its work after the start, such as the first repair: until it takes a tenth of
// a core.
func (c *contender) settle(ctx context.Context) error {
	const interval, timeout, idle = time.Second, 2 * time.Minute, 0.1
	last := 0.0
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(interval) {
		metrics, err := c.server.Metrics(ctx)
		if err != nil {
			return err
		}
		now := metrics.CPU()
		if last > 0 && now-last < idle*interval.Seconds() {
			return nil
		}
		last = now
	}
	return fmt.Errorf("still busy %v after its start", timeout)
}

// takeStep sends a step's requests, the first ones by one client. change is the number of Services that each one adds.
func (c *contender) takeStep(ctx context.Context, requests, change int, do apiserver.Request, end time.Time) error {
	single := max(1, requests/singlePart)
	alone, _, err := apiserver.Load{Clients: c.clients[:1], Requests: single, Do: do}.Run(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	s := step{Services: c.services, SingleP50: latency.Percentile(alone, 0.5)}
	before, err := c.server.Metrics(ctx)
	if err != nil {
		return err
	}
	rest := func(ctx context.Context, client *kubernetes.Clientset, i int) error { return do(ctx, client, single+i) }
	all, took, err := apiserver.Load{Clients: c.clients, Requests: requests - single, End: end, Do: rest}.Run(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := c.server.Metrics(ctx)
	if err != nil {
		return err
	}
	c.services += change * (single + len(all))
	if len(all) == 0 {
		return nil // the time was over
	}
	s.Requests = len(all)
	s.PerSecond = float64(len(all)) / took.Seconds()
	s.CPU = (after.CPU() - before.CPU()) * 1000 / float64(len(all))
	s.P50, s.P99 = latency.Percentile(all, 0.5), latency.Percentile(all, 0.99)
	if s.Load, err = load(); err != nil {
		return err
	}
	c.steps = append(c.steps, s)
	log.Printf("%s at %d Services: %.0f/s, %.2f ms of CPU each, p50 %.1f ms, p99 %.1f ms, one client %.1f ms",
		c.name, s.Services, s.PerSecond, s.CPU, s.P50, s.P99, s.SingleP50)
	return nil
}

// create adds Services, until a time if it is not zero.
func (c *contender) create(ctx context.Context, count int, end time.Time) error {
	return c.takeStep(ctx, count, 1, apiserver.Create(corev1.ServiceTypeClusterIP), end)
}

// delete removes Services.
func (c *contender) delete(ctx context.Context, count int) error {
	do, err := apiserver.Delete(ctx, c.clients[0], corev1.ServiceTypeClusterIP, count)
	if err != nil {
		return err
	}
	return c.takeStep(ctx, count, -1, do, time.Time{})
}

// load returns the machine's load average over a minute.
func load() (average float64, err error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(text), &average)
	}
	return average, err
}
