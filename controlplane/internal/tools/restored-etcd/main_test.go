package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// sh runs a script beside the etcd of a snapshot. Nothing may be left behind.
func sh(t *testing.T, ctx context.Context, snapshot, script string) (code int, stdout, stderr string, err error) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out, errs bytes.Buffer
	code, err = run(ctx, []string{snapshot, "sh", "-c", script}, &out, &errs)
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return code, out.String(), errs.String(), err
}

// TestServes reads the etcd while the command runs, and then no more.
func TestServes(t *testing.T) {
	snapshot := etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz")
	want, err := clusterstate.ReadSnapshotFile(t.Context(), snapshot, clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	connect := func(endpoint string, patience time.Duration) (*clientv3.Client, error) {
		return clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: []string{endpoint}, DialTimeout: patience})
	}
	// The command reports its endpoint and waits until it was read.
	told, read := filepath.Join(t.TempDir(), "told"), filepath.Join(t.TempDir(), "read")
	endpoint := make(chan string, 1)
	go func() {
		defer os.WriteFile(read, nil, 0o600)
		for t.Context().Err() == nil {
			if b, _ := os.ReadFile(told); bytes.HasSuffix(b, []byte("\n")) {
				url := strings.TrimSpace(string(b))
				endpoint <- url
				client, err := connect(url, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				defer client.Close()
				got, err := clusterstate.ReadEtcd(t.Context(), client, clusterstate.Options{})
				if err != nil || got.Services.Len() != want.Services.Len() || got.Services.Len() == 0 {
					t.Errorf("%v, %d Services in the file", err, want.Services.Len())
				}
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	code, stdout, stderr, err := sh(t, t.Context(), snapshot,
		`echo "$ETCDCTL_ENDPOINTS" >`+told+`; until [ -e `+read+` ]; do sleep 0.05; done; echo out; echo err >&2; exit 7`)
	if err != nil || code != 7 || stdout != "out\n" || stderr != "err\n" {
		t.Errorf("code %d, %v, stdout %q, stderr %q", code, err, stdout, stderr)
	}
	if client, err := connect(<-endpoint, time.Second); err == nil {
		client.Close()
		t.Error("etcd still serves")
	}
}

func TestNotRun(t *testing.T) {
	good := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	bad := etcdtest.Write(t, []byte("not a snapshot"))
	for want, args := range map[string][]string{
		"usage":             {good},
		bad:                 {bad, "true"},
		"/none.db":          {"/none.db", "true"},
		"/none/command: ":   {good, "/none/command"},
		"permission denied": {good, bad},
	} {
		t.Setenv("TMPDIR", t.TempDir())
		var out, errs bytes.Buffer
		code, err := run(t.Context(), args, &out, &errs)
		if code != exitNotRun || err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%v: code %d, %v", args, code, err)
		}
		if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
			t.Errorf("%v: left behind: %v", args, left)
		}
	}
}

// TestInterrupted ends the command when the program is interrupted.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started := filepath.Join(t.TempDir(), "started")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(started); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	code, stdout, _, err := sh(t, ctx, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"),
		`trap 'echo stopped; exit 3' TERM; touch `+started+`; while :; do sleep 0.05; done`)
	if stdout != "stopped\n" || code == 0 {
		t.Errorf("code %d, %v, stdout %q", code, err, stdout)
	}
}
