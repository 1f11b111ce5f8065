// Command compare-growth measures how the stock kube-apiserver and the same release with Rangekeeper inside behave as
// Services become many: creations from an empty cluster on, creations in a nearly full range, and deletions. The
// servers run beside each other, each on an etcd of its own that syncs to disk, and take turns. The command prints the
// figures and whether they keep their floors, writes them as JSON, and plots the creations. It fails if a floor is
// missed. `make apiservers dropin` builds the servers.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/releases"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/floor"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/resultsfile"
)

// parts are the names of the measurements.
const (
	growthPart   = "growth"
	fullPart     = "full"
	deletionPart = "deletion"
)

// comparison is a run of the command.
type comparison struct {
	// sides are the reference and Rangekeeper.
	sides [2]apiserver.Side
	// dir has the data of the servers.
	dir string
	// step is the number of Services in a step.
	step int
	// tail is the time that the reference has for further steps.
	tail time.Duration
}

// results are the content of the JSON file.
type results struct {
	Release string `json:"release"`
	// Load is the machine's load average over a minute before the run.
	Load     float64       `json:"load"`
	Growth   *bothSides    `json:"growth,omitempty"`
	Full     []fullResult  `json:"full,omitempty"`
	Deletion *bothSides    `json:"deletion,omitempty"`
	Floors   []floor.Floor `json:"floors"`
}

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("compare-growth: ")
	out := flag.String("out", "../../target/compare-growth.json", "file to write the results to; the servers keep their data and logs beside it")
	plot := flag.String("plot", "../../docs/growth.svg", "file to write the plot to")
	bin := flag.String("bin", "../../bin", "folder of the servers")
	release := flag.String("release", releases.All()[0], "release of Kubernetes; it must keep ClusterIPs in IPAddress objects")
	step := flag.Int("step", 3000, "Services in a step; a trial run takes fewer, such as 60")
	tail := flag.Duration("tail", 10*time.Minute, "time for further steps of the stock kube-apiserver alone")
	parts := flag.String("parts", strings.Join([]string{growthPart, fullPart, deletionPart}, ","), "measurements to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	c := comparison{
		sides: [2]apiserver.Side{apiserver.Reference(*bin, *release), apiserver.Rangekeeper(*bin, *release)},
		dir:   *out + ".data", step: *step, tail: *tail,
	}
	must(os.RemoveAll(c.dir))
	selected := strings.Split(*parts, ",")
	r := results{Release: *release, Load: must1(load())}
	if slices.Contains(selected, growthPart) {
		r.Growth = must1(c.growth(ctx))
		r.Floors = append(r.Floors, c.growthFloors(*r.Growth)...)
		must(writePlot(*plot, *release, *r.Growth))
	}
	if slices.Contains(selected, fullPart) {
		for _, rng := range fullRanges {
			for _, side := range c.sides {
				r.Full = append(r.Full, must1(c.nearlyFull(ctx, side, rng)))
			}
		}
		r.Floors = append(r.Floors, fullFloors(r.Full)...)
	}
	if slices.Contains(selected, deletionPart) {
		r.Deletion = must1(c.deletion(ctx))
	}
	must(resultsfile.Write(*out, r))
	must(printTables(r))
	must(floor.Check(r.Floors))
}

// folder returns the folder of a server.
func (c comparison) folder(names ...string) string {
	return filepath.Join(append([]string{c.dir}, names...)...)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must1[T any](value T, err error) T {
	must(err)
	return value
}
