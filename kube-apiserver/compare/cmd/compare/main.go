// Command compare runs each work on Rangekeeper and on the reference, k8s.io/kubernetes at the version in
// go.mod, in turn and in one process, prints the medians and their ratio, and writes them as JSON. It fails if a ratio
// is below the floor of its work.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/resultsfile"
)

const (
	// rounds is the number of runs of each side; their median counts.
	rounds = 7
	// enough is the shortest time of a run, so that the effects of clock and scheduler are small.
	enough = 100 * time.Millisecond
)

// side is one implementation at one work: it does the work's operation n times.
type side func(n int)

// result is one line of the comparison. Times are nanoseconds per operation; ratio is reference / Rangekeeper.
type result struct {
	Name        string  `json:"name"`
	Reference   float64 `json:"reference_ns"`
	Rangekeeper float64 `json:"rangekeeper_ns"`
	Ratio       float64 `json:"ratio"`
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("compare: ")
	rust := flag.String("rust", "", "path of the compare-rust binary; without it, works that end in /rust are not run")
	out := flag.String("out", "../../target/compare.json", "file to write the results to")
	flag.Parse()

	var results []result
	var low []string
	for _, work := range works {
		reference, rangekeeper := work.prepare()
		var times [2][]float64
		sides := [2]side{reference, rangekeeper}
		var counts [2]int
		for i, side := range sides {
			counts[i] = operationsFor(side)
		}
		for range rounds {
			for i, side := range sides {
				times[i] = append(times[i], measure(side, counts[i]))
			}
		}
		r := newResult(work.name, times[0], times[1])
		results = append(results, r)
		if r.Ratio < work.floor {
			low = append(low, fmt.Sprintf("%s: the ratio is %.2f, below %v", r.Name, r.Ratio, work.floor))
		}
	}
	if *rust != "" {
		fromRust, err := compareRust(*rust)
		must(err)
		results = append(results, fromRust...)
	}
	must(report(results, *out))
	runtime.KeepAlive(sink)
	if low != nil {
		log.Fatal(strings.Join(low, "\n"))
	}
}

// operationsFor returns the number of operations of a run that is long enough.
func operationsFor(run side) int {
	for n := 1; ; n *= 2 {
		if took := time.Duration(measure(run, n) * float64(n)); took >= enough {
			return n
		}
	}
}

// measure returns the nanoseconds per operation of n operations.
func measure(run side, n int) float64 {
	runtime.GC()
	start := time.Now()
	run(n)
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

func newResult(name string, reference, rangekeeper []float64) result {
	r := result{Name: name, Reference: median(reference), Rangekeeper: median(rangekeeper)}
	r.Ratio = r.Reference / r.Rangekeeper
	return r
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func report(results []result, path string) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "work\treference\trangekeeper\tratio\t")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%.1f ns\t%.1f ns\t%.1f\t\n", r.Name, r.Reference, r.Rangekeeper, r.Ratio)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return resultsfile.Write(path, results)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
