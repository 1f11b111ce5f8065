package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// stressReport is the document that a stress test gives.
type stressReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Range is what was allocated from.
	Range        string  `json:"range"`
	Callers      int     `json:"callers"`
	Servers      int     `json:"servers"`
	ReleaseShare float64 `json:"releaseShare"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// Latencies are those of allocations, of releases, and of both.
	Latencies []stressLatency `json:"latencies"`
	// Operations have ended, however; Swaps are the writes that were sent for them,
	// Conflicts how many of all requests met another state than expected.
	Operations        int64   `json:"operations"`
	Swaps             int64   `json:"swaps"`
	OperationsPerSwap float64 `json:"operationsPerSwap"`
	Conflicts         int64   `json:"conflicts"`
	// DatabaseBytes is what etcd's database has grown by.
	DatabaseBytes     int64   `json:"databaseBytes"`
	BytesPerOperation float64 `json:"bytesPerOperation"`
	// Full allocations found no free value; of Unknown operations it is not known
	// whether they took place; Deferred releases were left to a repair.
	Full     int64 `json:"full"`
	Unknown  int64 `json:"unknown"`
	Deferred int64 `json:"deferred"`
	// HandedOutTwice values were given to a caller while another one had them; Lost
	// ones have an owner and are stored as free. Both are faults. Leaked ones are
	// stored as allocated and have no owner: what came of Unknown and Deferred.
	HandedOutTwice int64 `json:"handedOutTwice"`
	Lost           int64 `json:"lost"`
	Leaked         int64 `json:"leaked"`
}

const kindStress = "Stress"

// stressLatency says how many operations of a kind there were and how long they
// took, in milliseconds.
type stressLatency struct {
	Operation string  `json:"operation"`
	Count     int64   `json:"count"`
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50"`
	P90       float64 `json:"p90"`
	P99       float64 `json:"p99"`
	P999      float64 `json:"p99.9"`
}

func newStressLatency(operation string, c *counts, took time.Duration) stressLatency {
	ms := func(share float64) float64 { return float64(c.percentile(share).Microseconds()) / 1000 }
	n := c.total()
	return stressLatency{operation, n, float64(n) / took.Seconds(), ms(0.5), ms(0.9), ms(0.99), ms(0.999)}
}

func (r *stressReport) writeTable(w io.Writer) error {
	var t table
	var rows [][]string
	for _, l := range r.Latencies {
		row := []string{l.Operation, fmt.Sprint(l.Count), fmt.Sprintf("%.0f", l.PerSecond)}
		for _, ms := range []float64{l.P50, l.P90, l.P99, l.P999} {
			row = append(row, fmt.Sprintf("%.2f ms", ms))
		}
		rows = append(rows, row)
	}
	t.add("", []string{"OPERATION", "COUNT", "PER SECOND", "P50", "P90", "P99", "P99.9"}, rows)
	fmt.Fprintln(&t.b)
	line := func(label, format string, values ...any) {
		fmt.Fprintf(&t.b, "%-21s "+format+"\n", append([]any{label + ":"}, values...)...)
	}
	line("Range", "%s", r.Range)
	line("Callers", "%d over %s, %.1f s", r.Callers, count(r.Servers, "server"), r.Seconds)
	line("Swaps", "%d, %.1f operations each", r.Swaps, r.OperationsPerSwap)
	line("Conflicts", "%d", r.Conflicts)
	line("Bytes per operation", "%.0f (the database has grown by %.1f MiB)", r.BytesPerOperation, float64(r.DatabaseBytes)/(1<<20))
	line("Full", "%d allocations found no free value", r.Full)
	line("Unknown", "%s", count(int(r.Unknown), "operation"))
	line("Deferred", "%s", count(int(r.Deferred), "release"))
	line("Leaked", "%s", count(int(r.Leaked), "value"))
	line("Lost", "%s", count(int(r.Lost), "value"))
	line("Handed out twice", "%s", count(int(r.HandedOutTwice), "value"))
	_, err := w.Write(t.b.Bytes())
	return err
}

// reading is how far a stress test has come.
type reading struct {
	allocations, releases        *counts
	operations, swaps, conflicts int64
}

// meter measures a stress test and says on stderr how it goes.
type meter struct {
	log  io.Writer
	size func(context.Context) (int64, error)
	read func() reading

	began      time.Time
	first      reading
	firstSize  int64
	overwrites bool
	shown      bool
}

func (m *meter) begin(ctx context.Context) (err error) {
	m.overwrites = isTerminal(m.log)
	if m.firstSize, err = m.size(ctx); err != nil {
		return err
	}
	m.first, m.began = m.read(), time.Now()
	return nil
}

// show writes a line each second until the test is done.
func (m *meter) show(ctx context.Context, done <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	before, at := m.first, m.began
	for {
		select {
		case <-done:
			if m.shown && m.overwrites {
				fmt.Fprintln(m.log)
			}
			return
		case <-ticker.C:
		}
		now, took := m.read(), time.Since(at)
		latencies := now.allocations.plus(now.releases).since(before.allocations.plus(before.releases))
		l := newStressLatency("", latencies, took)
		// It is to fit into 80 columns: a longer one cannot be rewritten.
		line := fmt.Sprintf("%.0f s  %.0f/s  p50 %.2f ms  p99 %.2f ms  %.1f/swap  %s",
			time.Since(m.began).Seconds(), l.PerSecond, l.P50, l.P99,
			perOne(now.operations-before.operations, now.swaps-before.swaps), count(int(now.conflicts-before.conflicts), "conflict"))
		if size, err := m.size(context.WithoutCancel(ctx)); err == nil {
			line += fmt.Sprintf("  %.0f B/op", perOne(size-m.firstSize, now.operations-m.first.operations))
		}
		if m.overwrites {
			fmt.Fprintf(m.log, "\r%s\x1b[K", line)
		} else {
			fmt.Fprintln(m.log, "rangekeeper:", line)
		}
		m.shown = true
		before, at = now, at.Add(took)
	}
}

// end gives the report of what was measured.
func (m *meter) end(ctx context.Context) (*stressReport, error) {
	last, took := m.read(), time.Since(m.began)
	size, err := m.size(ctx)
	if err != nil {
		return nil, err
	}
	allocations, releases := last.allocations.since(m.first.allocations), last.releases.since(m.first.releases)
	report := &stressReport{
		APIVersion: audit.APIVersion, Kind: kindStress,
		Seconds: took.Seconds(),
		Latencies: []stressLatency{
			newStressLatency("allocate", allocations, took),
			newStressLatency("release", releases, took),
			newStressLatency("both", allocations.plus(releases), took),
		},
		Operations: last.operations - m.first.operations,
		Swaps:      last.swaps - m.first.swaps,
		Conflicts:  last.conflicts - m.first.conflicts,

		DatabaseBytes: size - m.firstSize,
	}
	report.OperationsPerSwap = perOne(report.Operations, report.Swaps)
	report.BytesPerOperation = perOne(report.DatabaseBytes, report.Operations)
	return report, nil
}

// perOne divides; 0 if there is nothing to divide by.
func perOne(all, n int64) float64 {
	if n == 0 {
		return 0
	}
	return float64(all) / float64(n)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
