// Command measure-audit measures `rangekeeper audit` of a cluster with many Services: over the API of a stock
// kube-apiserver and in its etcd, as one whole process each. It prints time and memory and whether they keep their
// floors, and writes them as JSON. It fails if a floor is missed. `make build apiservers` builds the programs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/rangekeeper/rangekeeper/controlplane/releases"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/floor"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/process"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/resultsfile"
)

const (
	clusterIPRange = "10.0.0.0/16"
	port           = 16443
	// runs is the number of audits of each source.
	runs = 5
	// The most that an audit of 20,000 Services over the API may take.
	maxSeconds, maxMiB = 5, 200
)

// results are the content of the JSON file.
type results struct {
	Release  string   `json:"release"`
	Services int      `json:"services"`
	Sources  []source `json:"sources"`
	// Floors are those of the API.
	Floors []floor.Floor `json:"floors"`
}

// source is the result of one source, the slowest and largest of its runs.
type source struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	// MiB is the peak of the resident memory.
	MiB float64 `json:"mib"`
}

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("measure-audit: ")
	out := flag.String("out", "../../target/measure-audit.json", "file to write the results to; the server keeps its data and log beside it")
	bin := flag.String("bin", "../../bin", "folder of the programs")
	release := flag.String("release", releases.All()[0], "release of Kubernetes; it must keep ClusterIPs in IPAddress objects")
	services := flag.Int("services", 20000, "number of Services")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	r, err := measure(ctx, *bin, *release, *out+".data", *services)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(resultsfile.Write(*out, r), printTable(r), floor.Check(r.Floors)); err != nil {
		log.Fatal(err)
	}
}

// measure audits a cluster that holds services Services.
func measure(ctx context.Context, bin, release, dir string, services int) (r results, err error) {
	config := apiserver.Config{Side: apiserver.Reference(bin, release), Dir: dir, Port: port, ClusterIPRange: clusterIPRange}
	if err := os.RemoveAll(dir); err != nil {
		return r, err
	}
	log.Printf("storing %d Services", services)
	if err := apiserver.Fill(ctx, config, addresses(services)); err != nil {
		return r, err
	}
	server, err := apiserver.Start(ctx, config)
	if err != nil {
		return r, err
	}
	defer server.Stop()
	r = results{Release: release, Services: services}
	for _, from := range []struct{ name, flag string }{
		{"API", "--kubeconfig=" + server.Kubeconfig()},
		{"etcd", "--endpoints=" + strings.Join(server.Etcd.Endpoints(), ",")},
	} {
		s := source{Name: from.name}
		for range runs {
			run, err := auditOnce(ctx, bin+"/rangekeeper", from.flag, services)
			if err != nil {
				return r, fmt.Errorf("%s: %w", from.name, err)
			}
			s.Seconds, s.CPU, s.MiB = max(s.Seconds, run.Seconds), max(s.CPU, run.CPU), max(s.MiB, run.MiB)
		}
		r.Sources = append(r.Sources, s)
	}
	r.Floors = []floor.Floor{
		floor.AtMost("seconds of an audit over the API", r.Sources[0].Seconds, maxSeconds),
		floor.AtMost("MiB of an audit over the API", r.Sources[0].MiB, maxMiB),
	}
	return r, nil
}

// auditOnce runs the command once, which must report all Services and no finding.
func auditOnce(ctx context.Context, program, flag string, services int) (s source, err error) {
	run, err := process.Measure(ctx, []int{0}, program, "audit", "-o", "json", flag)
	if err != nil {
		return s, err
	}
	var report struct {
		Summary  struct{ Services int }
		Findings []json.RawMessage
	}
	if err := json.Unmarshal(run.Stdout, &report); err != nil {
		return s, err
	}
	// The Service kubernetes is one more.
	if report.Summary.Services != services+1 || len(report.Findings) > 0 {
		return s, fmt.Errorf("the audit reports %d Services and %d findings, expected %d and 0", report.Summary.Services, len(report.Findings), services+1)
	}
	return source{Seconds: run.Seconds, CPU: run.CPU, MiB: run.MiB}, nil
}

// addresses are those of the Services; the first one of the range is left to the Service kubernetes.
func addresses(count int) []netip.Addr {
	address := netip.MustParsePrefix(clusterIPRange).Addr().Next()
	all := make([]netip.Addr, 0, count)
	for range count {
		address = address.Next()
		all = append(all, address)
	}
	return all
}

func printTable(r results) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%d Services, source\tseconds\tCPU seconds\tMiB\t\n", r.Services)
	for _, s := range r.Sources {
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.0f\t\n", s.Name, s.Seconds, s.CPU, s.MiB)
	}
	fmt.Fprintln(table)
	floor.Print(table, r.Floors)
	return table.Flush()
}
