package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
)

// TestStress compares the figures of a report with one another.
func TestStress(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, args := range [][]string{
		{},
		{"--servers", "3"},
		{"--range", "30000-30063", "--servers", "2"},                               // full most of the time
		{"--range", "fd00::/112", "--callers", "1"},                                //
		{"--range", "10.96.0.0/28", "--release-share", "1"},                        // no caller ever has two
		{"--range", "10.96.0.0/27", "--release-share", "0"},                        // until it is full
		{"--range", "10.96.0.0/20", "--release-share", "0.1", "--duration", "1ns"}, //
	} {
		r := runJSON[stressReport](t, exitOK, append([]string{"stress", "--duration", "300ms"}, args...)...)
		if len(r.Latencies) != 3 {
			t.Fatalf("%v: %+v", args, r)
		}
		allocations, releases, both := r.Latencies[0], r.Latencies[1], r.Latencies[2]
		if allocations.Count+releases.Count != both.Count || both.Count+r.Full+r.Unknown+r.Deferred != r.Operations {
			t.Errorf("%v: %+v", args, r)
		}
		if r.HandedOutTwice != 0 || r.Lost != 0 || r.Leaked > r.Unknown+r.Deferred || releases.Count > allocations.Count {
			t.Errorf("%v: %+v", args, r)
		}
		for _, l := range r.Latencies {
			if l.Count > 0 && !slices.IsSorted([]float64{0.001, l.P50, l.P90, l.P99, l.P999, 1e4 * r.Seconds}) {
				t.Errorf("%v: %+v", args, l)
			}
		}
		switch {
		case slices.Contains(args, "1ns"): // too short for anything
			continue
		case r.Operations == 0 || r.Swaps == 0 || r.Seconds <= 0 || allocations.Count == 0:
			t.Errorf("%v: %+v", args, r)
		case slices.Contains(args, "0"):
			if allocations.Count != 30 || releases.Count != 0 || r.Full != 64 {
				t.Errorf("%v: %+v", args, r)
			}
		case releases.Count == 0:
			t.Errorf("%v: %+v", args, r)
		}
		if len(args) == 0 && (r.Range != "10.96.0.0/12" || r.Callers != 64 || r.Servers != 1 || r.Conflicts != 0 || r.OperationsPerSwap < 2 ||
			float64(r.DatabaseBytes) < 1<<17*float64(r.Swaps)) {
			t.Errorf("%+v", r) // every swap writes 128 KiB
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestStressOnRunningEtcd leaves everything else alone, and nothing behind.
func TestStressOnRunningEtcd(t *testing.T) {
	e, etcd := cluster(t)
	runOK(t, append([]string{"init", "serviceips", "10.96.0.0/28"}, etcd...)...)
	all := func() []string {
		got, err := e.Client().Get(t.Context(), "", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, kv := range got.Kvs {
			keys = append(keys, fmt.Sprint(string(kv.Key), kv.ModRevision))
		}
		return keys
	}
	before := all()
	code, stdout, stderr := run(t, append([]string{"stress", "--duration", "1500ms", "--servers", "2"}, etcd...)...)
	if code != exitOK || stderr == "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	for line := range lines(stderr) {
		if !strings.HasPrefix(line, "rangekeeper: ") || !strings.Contains(line, "p99") {
			t.Errorf("%q", line)
		}
	}
	for _, want := range []string{"P99.9", "64 over 2 servers", "10.96.0.0/12", "Handed out twice:     0 values"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%s, want %q", stdout, want)
		}
	}
	if after := all(); !slices.Equal(before, after) {
		t.Errorf("got %q, want %q", after, before)
	}
}

// TestStressFinds lets another writer free everything now and then.
func TestStressFinds(t *testing.T) {
	e, etcd := cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		n := 0
		for response := range e.Client().Watch(ctx, stressPrefix, clientv3.WithPrefix()) {
			for _, event := range response.Events {
				if n++; n%10 == 0 && event.IsModify() {
					e.Client().Put(ctx, string(event.Kv.Key), string(stored(t, "10.96.0.0/24", nil)))
				}
			}
		}
	}()
	r := runJSON[stressReport](t, exitFound, append([]string{"stress", "--duration", "500ms", "--range", "10.96.0.0/24"}, etcd...)...)
	if r.HandedOutTwice == 0 {
		t.Errorf("%+v", r)
	}
}

// TestStressInterrupted tells what was measured until then.
func TestStressInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stdout bytes.Buffer
	code := Run(ctx, []string{"stress", "--duration", "1h"}, &stdout, writerFunc(func(b []byte) (int, error) {
		cancel()
		return len(b), nil
	}))
	if code != exitOK || !strings.Contains(stdout.String(), "Handed out twice:     0 values") {
		t.Errorf("exit code %d, %s", code, stdout.String())
	}
}

// TestStressRefused fills an etcd, and tells what was measured until then.
func TestStressRefused(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Quota: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	code, stdout, stderr := run(t, "stress", "--duration", "1m", "--endpoints", e.Endpoints()[0])
	if code != exitInput || !strings.Contains(stdout, "Handed out twice") || !strings.Contains(stderr, "space exceeded") {
		t.Errorf("exit code %d, %s, %s", code, stdout, stderr)
	}
}

func TestStressUsage(t *testing.T) {
	for _, args := range [][]string{
		{"extra"},
		{"--callers", "0"},
		{"--callers", "1000000"},
		{"--servers", "0"},
		{"--servers", "65"},
		{"--duration", "0s"},
		{"--duration", "-1s"},
		{"--release-share", "-0.1"},
		{"--release-share", "1.1"},
		{"--release-share", "NaN"},
		{"--range", ""},
		{"--range", "nonsense"},
		{"--range", "1000-1999/10"},
		{"--data-dir", "data"},
		{"--user", "root:secret"},
		{"-o", "yaml"},
	} {
		runFails(t, exitInput, nil, append([]string{"stress", "--duration", "1ms"}, args...)...)
	}
}
