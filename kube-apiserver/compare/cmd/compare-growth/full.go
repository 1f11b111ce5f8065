package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/latency"
)

// fullRange is a range in which few addresses are free.
type fullRange struct {
	name, cidr string
	free       int
}

var fullRanges = []fullRange{
	{"20-one-free", "10.0.0.0/20", 1},
	{"16-99.9%", "10.0.0.0/16", 65},
}

const (
	// roundsPart is the part of a step's Services that are created in such a range one by one: 200 of 3,000.
	roundsPart = 15
	// warmUpRounds are not measured.
	warmUpRounds = 10
	// freedPause lets the server's caches see a deletion before the next creation.
	freedPause = 100 * time.Millisecond
	// fullTimeout is how long a creation is tried again that finds no address.
	fullTimeout = 10 * time.Second
)

// fullResult is one side's result in one range.
type fullResult struct {
	Range string `json:"range"`
	Side  string `json:"side"`
	// Percentiles of a creation's latency in milliseconds, in an empty cluster and in the nearly full range.
	EmptyP50 float64 `json:"empty_p50_ms"`
	EmptyP99 float64 `json:"empty_p99_ms"`
	FullP50  float64 `json:"full_p50_ms"`
	FullP99  float64 `json:"full_p99_ms"`
	// Ratio is FullP50 / EmptyP50.
	Ratio float64 `json:"ratio"`
	// Refused is the number of creations that found no address and were tried again.
	Refused int `json:"refused"`
	// Load is the machine's load average over a minute, at the end.
	Load float64 `json:"load"`
}

// nearlyFull returns one side's result in a range. It creates Services in turn on a server whose range is empty and on
// one whose range is nearly full.
func (c comparison) nearlyFull(ctx context.Context, side apiserver.Side, rng fullRange) (r fullResult, err error) {
	var both [2]*contender
	for i, filled := range [][]netip.Addr{nil, rng.used()} {
		own, err := c.start(ctx, side, c.folder(fullPart, rng.name, side.Name, []string{"empty", "full"}[i]), rng.cidr, i, filled)
		if err != nil {
			return r, err
		}
		defer own.server.Stop()
		both[i] = own
	}
	r = fullResult{Range: rng.name, Side: side.Name}
	var latencies [2][]time.Duration
	for n := range warmUpRounds + max(1, c.step/roundsPart) {
		for i := range both {
			at := (n + i) % 2
			took, refused, err := both[at].createAndDelete(ctx)
			if err != nil {
				return r, fmt.Errorf("%s, %s: %w", rng.name, side.Name, err)
			}
			if n >= warmUpRounds {
				latencies[at] = append(latencies[at], took)
				r.Refused += refused
			}
		}
	}
	for _, l := range latencies {
		slices.Sort(l)
	}
	r.EmptyP50, r.EmptyP99 = latency.Percentile(latencies[0], 0.5), latency.Percentile(latencies[0], 0.99)
	r.FullP50, r.FullP99 = latency.Percentile(latencies[1], 0.5), latency.Percentile(latencies[1], 0.99)
	r.Ratio = r.FullP50 / r.EmptyP50
	log.Printf("%s, %s: p50 %.1f ms empty, %.1f ms nearly full", rng.name, side.Name, r.EmptyP50, r.FullP50)
	r.Load, err = load()
	return r, err
}

// createAndDelete creates a Service and deletes it. It returns the time of the creation, and how many earlier attempts
// found no address: a server may not know yet that the last one is free again.
func (c *contender) createAndDelete(ctx context.Context) (took time.Duration, refused int, err error) {
	services := c.clients[0].CoreV1().Services(metav1.NamespaceDefault)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "last"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	for end := time.Now().Add(fullTimeout); ; refused++ {
		begin := time.Now()
		_, err = services.Create(ctx, service, metav1.CreateOptions{})
		took = time.Since(begin)
		if err == nil {
			break
		}
		if !apierrors.IsInternalError(err) || time.Now().After(end) {
			return 0, refused, err
		}
		time.Sleep(freedPause)
	}
	err = services.Delete(ctx, service.Name, metav1.DeleteOptions{})
	time.Sleep(freedPause)
	return took, refused, err
}

// used returns the addresses that are in use from the beginning: all but the free ones, which lie evenly among them,
// and the one that the Service kubernetes gets.
func (r fullRange) used() (addresses []netip.Addr) {
	prefix := netip.MustParsePrefix(r.cidr)
	// Neither the network nor the broadcast address can be allocated.
	size := 1<<(32-prefix.Bits()) - 3
	freeBefore := func(i int) int { return (i*r.free + size/2) / size }
	address := prefix.Addr().Next()
	for i := range size {
		address = address.Next()
		if freeBefore(i+1) == freeBefore(i) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
