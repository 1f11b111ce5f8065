// Command compare-apiserver measures the creation and deletion of Services by the stock kube-apiserver and by the same
// release with Rangekeeper inside, in turn, each on an empty etcd that syncs to disk. It prints the medians and their
// ratios, and writes them as JSON. `make apiservers dropin` builds the servers. With -before, the reference is an
// earlier build with Rangekeeper inside.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/releases"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/resultsfile"
)

// turns is the number of runs of each work by each side; their medians count.
const turns = 5

// work is the clients' load in a turn.
type work struct {
	name        string
	serviceType corev1.ServiceType
	clients     int
	// services is the number of Services created in a turn, or deleted.
	services int
	// deletes means that the work deletes the Services of earlier works.
	deletes bool
}

// cluster is the cluster of one turn, on which the works run one after the other.
type cluster struct {
	release        string
	clusterIPRange string
	works          []work
}

var clusters = []cluster{
	{releases.Of("1.32"), "10.0.0.0/12", []work{
		{"12/64", corev1.ServiceTypeClusterIP, 64, 1000, false},
		{"12/1", corev1.ServiceTypeClusterIP, 1, 300, false},
		{"12/delete/64", corev1.ServiceTypeClusterIP, 64, 1000, true},
		{"12/delete/1", corev1.ServiceTypeClusterIP, 1, 300, true},
	}},
	{releases.All()[0], "10.0.0.0/12", []work{
		{"clusterip/64", corev1.ServiceTypeClusterIP, 64, 1000, false},
		{"clusterip/1", corev1.ServiceTypeClusterIP, 1, 300, false},
		{"clusterip/delete/64", corev1.ServiceTypeClusterIP, 64, 1000, true},
		{"clusterip/delete/1", corev1.ServiceTypeClusterIP, 1, 300, true},
		{"nodeport/64", corev1.ServiceTypeNodePort, 64, 1000, false},
		{"nodeport/1", corev1.ServiceTypeNodePort, 1, 300, false},
		{"nodeport/delete/64", corev1.ServiceTypeNodePort, 64, 1000, true},
		{"nodeport/delete/1", corev1.ServiceTypeNodePort, 1, 300, true},
	}},
}

// nodePortRange has enough ports for all works of a turn.
const nodePortRange = "20000-32767"

// measurement is the result of one side's turn at a work.
type measurement struct {
	// Ops is the number of creations or deletions per second.
	Ops float64 `json:"ops"`
	// P50 and P99 are percentiles of their latency, in milliseconds.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// Bytes is the growth of etcd's database per operation.
	Bytes float64 `json:"bytes"`
	// CPU is the API server's CPU time per operation, in milliseconds.
	CPU float64 `json:"cpu_ms"`
	// RangeWrites is the number of writes of stored ranges per operation.
	RangeWrites float64 `json:"range_writes"`
	// Reads is the number of reads of stored ranges by Rangekeeper per operation.
	Reads float64 `json:"reads"`
	// PerSwap is the number of operations per compare-and-swap; 0 if there was none.
	PerSwap float64 `json:"operations_per_swap"`
}

// result is one line of the comparison.
type result struct {
	Name        string      `json:"name"`
	Reference   measurement `json:"reference"`
	Rangekeeper measurement `json:"rangekeeper"`
	// The ratios are Rangekeeper / reference.
	Ratio      float64 `json:"ratio"`
	P99Ratio   float64 `json:"p99_ratio"`
	BytesRatio float64 `json:"bytes_ratio"`
	CPURatio   float64 `json:"cpu_ratio"`
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("compare-apiserver: ")
	out := flag.String("out", "../../target/compare-apiserver.json", "file to write the results to; the servers keep their data beside it while they run")
	bin := flag.String("bin", "../../bin", "folder of the servers")
	before := flag.String("before", "", "folder of an earlier build's servers with Rangekeeper inside, which replace the stock ones")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	var results []result
	for _, c := range clusters {
		r, err := c.compare(ctx, *bin, *before, *out+".data")
		must(err)
		results = append(results, r...)
	}
	must(printTable(results))
	must(resultsfile.Write(*out, results))
}

// compare runs the sides in turn and returns the results.
func (c cluster) compare(ctx context.Context, bin, before, dir string) ([]result, error) {
	sides := [2]apiserver.Side{apiserver.Reference(bin, c.release), apiserver.Rangekeeper(bin, c.release)}
	if before != "" {
		sides[0] = apiserver.Rangekeeper(before, c.release)
		sides[0].Name = "before"
	}
	measured := make([][2][]measurement, len(c.works))
	for turn := range turns {
		for i, side := range sides {
			log.Printf("kube-apiserver %s: turn %d of %d, %s", c.release, turn+1, turns, side.Name)
			all, err := c.takeTurn(ctx, side, dir)
			if err != nil {
				return nil, err
			}
			for w, m := range all {
				measured[w][i] = append(measured[w][i], m)
			}
		}
	}
	var results []result
	for w, work := range c.works {
		reference, rangekeeper := median(measured[w][0]), median(measured[w][1])
		results = append(results, result{
			Name: c.release + "/" + work.name, Reference: reference, Rangekeeper: rangekeeper,
			Ratio:      rangekeeper.Ops / reference.Ops,
			P99Ratio:   rangekeeper.P99 / reference.P99,
			BytesRatio: rangekeeper.Bytes / reference.Bytes,
			CPURatio:   rangekeeper.CPU / reference.CPU,
		})
	}
	return results, nil
}

// median returns the median of each figure over the turns.
func median(turns []measurement) measurement {
	of := func(figure func(measurement) float64) float64 {
		values := make([]float64, len(turns))
		for i, turn := range turns {
			values[i] = figure(turn)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return measurement{
		Ops:         of(func(m measurement) float64 { return m.Ops }),
		P50:         of(func(m measurement) float64 { return m.P50 }),
		P99:         of(func(m measurement) float64 { return m.P99 }),
		Bytes:       of(func(m measurement) float64 { return m.Bytes }),
		CPU:         of(func(m measurement) float64 { return m.CPU }),
		RangeWrites: of(func(m measurement) float64 { return m.RangeWrites }),
		Reads:       of(func(m measurement) float64 { return m.Reads }),
		PerSwap:     of(func(m measurement) float64 { return m.PerSwap }),
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
