// Command compare-store measures allocations through an etcd that syncs to disk, by the reference, k8s.io/kubernetes
// at the version in go.mod, and by Rangekeeper, in turn and in one process. It prints the medians and their ratios,
// and writes them as JSON.
package main

import (
	"context"
	"flag"
	"log"
	"slices"
	"time"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/resultsfile"
)

const (
	// turns is the number of runs of each work by each side; their medians count.
	turns = 5
	// turnTime is the time in which callers allocate in one turn, if the range has enough values.
	turnTime = 4 * time.Second
	// runsPerTurn is the largest number of runs in a turn, each of which allocates half of the range on an empty etcd.
	runsPerTurn = 4
)

// result is one line of the comparison. Ratios are Rangekeeper / reference.
type result struct {
	Name string `json:"name"`
	// Allocations per second.
	ReferenceOps   float64 `json:"reference_ops"`
	RangekeeperOps float64 `json:"rangekeeper_ops"`
	Ratio          float64 `json:"ratio"`
	// Growth of etcd's database in bytes per allocation.
	ReferenceBytes   float64 `json:"reference_bytes"`
	RangekeeperBytes float64 `json:"rangekeeper_bytes"`
	BytesRatio       float64 `json:"bytes_ratio"`
	// The 99th percentiles of latencies, in milliseconds.
	ReferenceP99   float64 `json:"reference_p99_ms"`
	RangekeeperP99 float64 `json:"rangekeeper_p99_ms"`

	reference, rangekeeper measurement
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("compare-store: ")
	out := flag.String("out", "../../target/compare-store.json", "file to write the results to; etcd keeps its data beside it while it runs")
	flag.Parse()

	var results []result
	for _, work := range works {
		r, err := compare(context.Background(), work, *out+".data")
		must(err)
		results = append(results, r)
	}
	must(report(results, *out))
}

// compare runs the sides in turn and returns the result. Each turn has data directories of its own in dir.
func compare(ctx context.Context, w work, dir string) (result, error) {
	log.Printf("%s: %d turns of each side", w.name, turns)
	var measured [2][]measurement
	for range turns {
		for i, open := range [2]opener{w.reference, w.rangekeeper} {
			m, err := takeTurn(ctx, w, open, dir)
			if err != nil {
				return result{}, err
			}
			measured[i] = append(measured[i], m)
		}
	}
	return newResult(w.name, median(measured[0]), median(measured[1])), nil
}

func newResult(name string, reference, rangekeeper measurement) result {
	return result{
		Name:             name,
		ReferenceOps:     reference.ops,
		RangekeeperOps:   rangekeeper.ops,
		Ratio:            rangekeeper.ops / reference.ops,
		ReferenceBytes:   reference.bytes,
		RangekeeperBytes: rangekeeper.bytes,
		BytesRatio:       rangekeeper.bytes / reference.bytes,
		ReferenceP99:     reference.p99,
		RangekeeperP99:   rangekeeper.p99,
		reference:        reference,
		rangekeeper:      rangekeeper,
	}
}

// median returns the median of each figure over the turns, and the sum of their operations.
func median(turns []measurement) measurement {
	var all measurement
	for _, turn := range turns {
		all.operations += turn.operations
	}
	of := func(figure func(measurement) float64) float64 {
		values := make([]float64, len(turns))
		for i, turn := range turns {
			values[i] = figure(turn)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	all.ops = of(func(m measurement) float64 { return m.ops })
	all.bytes = of(func(m measurement) float64 { return m.bytes })
	all.p50 = of(func(m measurement) float64 { return m.p50 })
	all.p99 = of(func(m measurement) float64 { return m.p99 })
	all.p999 = of(func(m measurement) float64 { return m.p999 })
	return all
}

func report(results []result, path string) error {
	if err := printTable(results); err != nil {
		return err
	}
	return resultsfile.Write(path, results)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
