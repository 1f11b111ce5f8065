// Command measure-snapshot measures commands of rangekeeper on etcd snapshots with very many Services, and over the
// pages of a server with as many, in turn with those of an older build. Each run is a whole process. It prints medians
// of processor time and memory and whether they keep their floors, and writes them as JSON. It fails if a floor is
// missed, or if both builds answer differently.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/floor"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/process"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/resultsfile"
)

// results are the content of the JSON file.
type results struct {
	Services int     `json:"services"`
	Bytes    int64   `json:"snapshot_bytes"`
	Works    []work  `json:"works"`
	Large    *figure `json:"large,omitempty"`
	// LargeServices is the number of Services of the audit Large.
	LargeServices int           `json:"large_services,omitempty"`
	Floors        []floor.Floor `json:"floors"`
}

// work is the result of one command.
type work struct {
	Name string `json:"name"`
	// Before is nil if no older build is measured.
	Before *figure `json:"before,omitempty"`
	Now    figure  `json:"now"`
	// cpu and memory are the most of the older build's that this one may take, 0 for any.
	cpu, memory float64
	args        []string
}

// figure has medians.
type figure struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	MiB     float64 `json:"mib"`
}

// largeFactor is how many more Services the large snapshot has, and maxLargeMiB the memory that its audit may take.
const (
	largeFactor = 10
	maxLargeMiB = 1.2 * 1024
)

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("measure-snapshot: ")
	out := flag.String("out", "../../target/measure-snapshot.json", "file to write the results to; the snapshots lie beside it")
	program := flag.String("program", "../../bin/rangekeeper", "the program")
	before := flag.String("before", "", "an older build of it to compare with")
	services := flag.Int("services", 100_000, "number of Services")
	large := flag.Bool("large", true, "audit a snapshot with ten times as many, too")
	runs := flag.Int("runs", 5, "runs of each command")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	m := &measurement{ctx: ctx, dir: *out + ".data", program: *program, before: *before, runs: *runs}
	r, err := m.measure(*services, *large)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(resultsfile.Write(*out, r), printTable(r), floor.Check(r.Floors)); err != nil {
		log.Fatal(err)
	}
}

type measurement struct {
	ctx                  context.Context
	dir, program, before string
	runs                 int
}

func (m *measurement) measure(services int, large bool) (r results, err error) {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return r, err
	}
	of := cluster{services}
	snapshot, err := m.snapshot(of)
	if err != nil {
		return r, err
	}
	info, err := os.Stat(snapshot)
	if err != nil {
		return r, err
	}
	kubeconfig := filepath.Join(m.dir, "kubeconfig")
	server, err := of.serve(kubeconfig)
	if err != nil {
		return r, err
	}
	defer server.Close()
	r = results{Services: services, Bytes: info.Size()}
	from := "--etcd-snapshot=" + snapshot
	for _, w := range []work{
		{Name: "audit", args: []string{"audit", "-o=json", from}, cpu: 0.45, memory: 0.3},
		{Name: "explain", args: []string{"explain", address(services / 2), "-o=json", from}, cpu: 0.4},
		{Name: "repair", args: []string{"repair", "-o=json", from, "--force", "--to-file=" + filepath.Join(m.dir, "repaired.db")}, memory: 0.35},
		{Name: "audit, API", args: []string{"audit", "-o=json", "--kubeconfig=" + kubeconfig}, memory: 0.5},
	} {
		if err := m.run(&w); err != nil {
			return r, err
		}
		r.Works = append(r.Works, w)
		if w.Before == nil {
			continue
		}
		if w.cpu > 0 {
			r.Floors = append(r.Floors, floor.AtMost("CPU time of "+w.Name+", of the older build's", w.Now.CPU/w.Before.CPU, w.cpu))
		}
		if w.memory > 0 {
			r.Floors = append(r.Floors, floor.AtMost("memory of "+w.Name+", of the older build's", w.Now.MiB/w.Before.MiB, w.memory))
		}
	}
	if !large {
		return r, nil
	}
	r.LargeServices = largeFactor * services
	if snapshot, err = m.snapshot(cluster{r.LargeServices}); err != nil {
		return r, err
	}
	m.before = ""
	w := work{Name: "audit, large", args: []string{"audit", "-o=json", "--etcd-snapshot=" + snapshot}}
	if err := m.run(&w); err != nil {
		return r, err
	}
	r.Large = &w.Now
	r.Floors = append(r.Floors,
		floor.AtMost(fmt.Sprintf("CPU time of an audit of %d Services, of that of %d", r.LargeServices, services), w.Now.CPU/r.Works[0].Now.CPU, largeFactor),
		floor.AtMost(fmt.Sprintf("MiB of an audit of %d Services", r.LargeServices), w.Now.MiB, maxLargeMiB))
	return r, nil
}

// snapshot returns a snapshot file of a cluster, which an earlier measurement may have written.
func (m *measurement) snapshot(of cluster) (path string, err error) {
	path = filepath.Join(m.dir, fmt.Sprintf("%d.db", of.services))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	log.Printf("writing %s", path)
	if err := of.writeSnapshot(path + ".new"); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
}

// run runs the command with both builds in turn, which must answer the same.
func (m *measurement) run(w *work) error {
	var before, now []figure
	for range m.runs {
		var answers [][]byte
		for _, side := range []struct {
			program string
			to      *[]figure
		}{{m.before, &before}, {m.program, &now}} {
			if side.program == "" {
				continue
			}
			run, err := process.Measure(m.ctx, []int{0, 1}, side.program, w.args...) // 1: something was found
			if err != nil {
				return err
			}
			answers = append(answers, undated(run.Stdout))
			*side.to = append(*side.to, figure{run.Seconds, run.CPU, run.MiB})
		}
		if len(answers) == 2 && !bytes.Equal(answers[0], answers[1]) {
			return fmt.Errorf("%s: the builds answer differently: %d and %d bytes", w.Name, len(answers[0]), len(answers[1]))
		}
	}
	w.Now = medians(now)
	if before != nil {
		of := medians(before)
		w.Before = &of
	}
	return nil
}

// undated returns a document without its source, which has the time and the version of the program.
func undated(document []byte) []byte {
	var content map[string]any
	if json.Unmarshal(document, &content) != nil {
		return document
	}
	delete(content, "source")
	text, err := json.Marshal(content)
	if err != nil {
		return document
	}
	return text
}

func medians(all []figure) (m figure) {
	median := func(of func(figure) float64) float64 {
		sorted := slices.SortedFunc(slices.Values(all), func(a, b figure) int { return cmp.Compare(of(a), of(b)) })
		return of(sorted[len(sorted)/2])
	}
	m.Seconds = median(func(f figure) float64 { return f.Seconds })
	m.CPU = median(func(f figure) float64 { return f.CPU })
	m.MiB = median(func(f figure) float64 { return f.MiB })
	return m
}

func printTable(r results) error {
	fmt.Printf("a snapshot of %d bytes\n\n", r.Bytes)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%d Services\tseconds\tCPU seconds\tMiB\tolder build: seconds\tCPU seconds\tMiB\t\n", r.Services)
	for _, w := range r.Works {
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.0f\t", w.Name, w.Now.Seconds, w.Now.CPU, w.Now.MiB)
		if w.Before != nil {
			fmt.Fprintf(table, "%.2f\t%.2f\t%.0f\t", w.Before.Seconds, w.Before.CPU, w.Before.MiB)
		}
		fmt.Fprintln(table)
	}
	if r.Large != nil {
		fmt.Fprintf(table, "audit of %d\t%.2f\t%.2f\t%.0f\t\n", r.LargeServices, r.Large.Seconds, r.Large.CPU, r.Large.MiB)
	}
	fmt.Fprintln(table)
	floor.Print(table, r.Floors)
	return table.Flush()
}
