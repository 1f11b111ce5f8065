package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// watcher is a watch under way.
type watcher struct {
	t      *testing.T
	said   []string // on stderr before it watched
	lines  chan string
	errs   chan string
	cancel context.CancelFunc
	ended  chan int
}

// startWatch runs the command and waits until it watches.
func startWatch(t *testing.T, args ...string) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{t: t, lines: make(chan string, 100), errs: make(chan string, 100), cancel: cancel, ended: make(chan int, 1)}
	var printed sync.WaitGroup
	pipe := func(to chan string) *io.PipeWriter {
		r, pipe := io.Pipe()
		printed.Go(func() {
			for s := bufio.NewScanner(r); s.Scan(); {
				to <- s.Text()
			}
			close(to)
		})
		return pipe
	}
	stdout, stderr := pipe(w.lines), pipe(w.errs)
	go func() {
		code := program.Run(ctx, append([]string{"watch"}, args...), stdout, stderr)
		stdout.Close()
		stderr.Close()
		printed.Wait()
		w.ended <- code
	}()
	for line := ""; !strings.Contains(line, "watching"); w.said = append(w.said, line) {
		line = w.next(w.errs)
	}
	return w
}

// next waits for a line.
func (w *watcher) next(from chan string) string {
	w.t.Helper()
	select {
	case line, ok := <-from:
		if ok {
			return line
		}
		w.t.Fatalf("the watch has ended with code %d", <-w.ended)
	case <-time.After(time.Minute):
		w.t.Fatal("nothing comes")
	}
	return ""
}

// check waits for lines, in any order, and cuts the revision off, which all share.
func (w *watcher) check(want ...string) {
	w.t.Helper()
	var got []string
	revision := ""
	for range want {
		line, at, ok := strings.Cut(w.next(w.lines), " revision ")
		if !ok || revision != "" && at != revision {
			w.t.Errorf("%q at revision %q, the others at %q", line, at, revision)
		}
		revision = at
		got = append(got, line)
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		w.t.Errorf("got %q, want %q", got, want)
	}
}

// interrupt ends it; nothing more may have come.
func (w *watcher) interrupt() {
	w.t.Helper()
	w.cancel()
	if code := <-w.ended; code != exitOK || len(w.lines) > 0 || len(w.errs) > 0 {
		w.t.Errorf("exit code %d, %d lines, %d lines on stderr", code, len(w.lines), len(w.errs))
	}
}

func TestWatch(t *testing.T) {
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	c, ctx := e.Client(), t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	runOK(t, with("init", "serviceips", "10.96.0.0/24")...)
	runOK(t, with("init", "servicenodeports", "30000-30009")...)
	runOK(t, with("allocate", "serviceips", "10.96.0.200")...)
	w := startWatch(t, with("serviceips")...)
	ports := startWatch(t, with("servicenodeports", "-o", "json")...)

	runOK(t, with("allocate", "serviceips", "10.96.0.1")...)
	w.check("allocated 10.96.0.1")
	var want []string
	for _, value := range runOK(t, with("allocate", "serviceips", "-n", "20")...) {
		want = append(want, "allocated "+value)
	}
	w.check(want...)
	runOK(t, with("release", "serviceips", "10.96.0.200")...) // the bitmap gets shorter
	w.check("released 10.96.0.200")
	runOK(t, with("release", "serviceips", "10.96.0.1")...)
	w.check("released 10.96.0.1")

	// As a kube-apiserver writes it: both at once.
	must(c.Put(ctx, serviceIPsKey, string(stored(t, "10.96.0.0/24", []byte{1}))))
	want = append(strings.Split(strings.ReplaceAll(strings.Join(want, "\n"), "allocated", "released"), "\n"), "allocated 10.96.0.1")
	w.check(want...)
	must(c.Put(ctx, serviceIPsKey, string(stored(t, "10.96.0.0/24", nil))))
	w.check("released 10.96.0.1")
	must(c.Put(ctx, serviceIPsKey, string(stored(t, "10.96.0.0/24", []byte{2}))))
	w.check("allocated 10.96.0.2")
	must(c.Put(ctx, serviceIPsKey, string(stored(t, "10.97.0.0/24", []byte{2}))))
	w.check("created 10.97.0.0/24", "allocated 10.97.0.2")
	must(c.Delete(ctx, serviceIPsKey))
	w.check("deleted 10.97.0.0/24")
	must(c.Put(ctx, serviceIPsKey, string(stored(t, "", nil)))) // not initialised
	runOK(t, with("init", "serviceips", "10.96.0.0/24")...)
	w.check("created 10.96.0.0/24")
	w.interrupt()

	var got change
	runOK(t, with("allocate", "servicenodeports", "30009")...)
	if err := json.Unmarshal([]byte(ports.next(ports.lines)), &got); err != nil || got.Kind != "RangeChange" || got.Type != "allocated" || got.Value != "30009" || got.Revision < 2 {
		t.Errorf("%v, %+v", err, got)
	}
	// What cannot be read ends it.
	put, err := c.Put(ctx, nodePortsKey, "garbage")
	if err != nil {
		t.Fatal(err)
	}
	if line := ports.next(ports.errs); !strings.Contains(line, nodePortsKey) || !strings.Contains(line, fmt.Sprint("revision ", put.Header.Revision)) {
		t.Errorf("%s", line)
	}
	if code := <-ports.ended; code != exitInput {
		t.Errorf("exit code %d", code)
	}
}

// TestWatchCompacted misses changes that are compacted before they are reported.
func TestWatchCompacted(t *testing.T) {
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "serviceips", "10.96.0.0/24")...)
	runOK(t, with("allocate", "serviceips", "10.96.0.1")...)
	w := rangeWatch{client: e.Client(), key: clusterstate.RangeKey("", "serviceips"), parse: rangekeeper.ParseCIDR}
	var told []string
	tell := func(changes []change, _ int64) error {
		for _, c := range changes {
			told = append(told, c.Type+" "+c.Value)
		}
		return nil
	}
	at, err := w.catchUp(t.Context(), true, tell)
	if err != nil || told != nil {
		t.Fatal(err, told)
	}
	runOK(t, with("allocate", "serviceips", "10.96.0.2")...)
	runOK(t, with("allocate", "serviceips", "10.96.0.3")...)
	runOK(t, with("release", "serviceips", "10.96.0.1", "10.96.0.2")...)
	if err := e.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.follow(t.Context(), at, tell); !errors.Is(err, rpctypes.ErrCompacted) || told != nil {
		t.Fatal(err, told)
	}
	if _, err := w.catchUp(t.Context(), false, tell); err != nil || !slices.Equal(told, []string{"released 10.96.0.1", "allocated 10.96.0.3"}) {
		t.Error(err, told)
	}
}

// TestWatchRestored restores etcd from before an allocation that was printed. The value is free again, and what comes
// next is seen though the revision is below the one that was reached.
func TestWatchRestored(t *testing.T) {
	t.Parallel() // it waits
	etcd := etcdtest.StartCluster(t, 1)
	with := func(args ...string) []string { return append(args, "--endpoints", etcd.Endpoints()[0]) }
	runOK(t, with("init", "servicenodeports", "30000-30099")...)
	backup := etcdtest.Save(t, etcd.Client())
	etcdtest.Fill(t, etcd.Client(), etcdtest.Revision(t, etcd.Client())+100)
	w := startWatch(t, with("servicenodeports")...)
	runOK(t, with("allocate", "servicenodeports", "30001")...)
	w.check("allocated 30001")
	etcd.Restore(backup, etcdtest.Restoration{}, func() {})
	for !strings.Contains(w.next(w.errs), "the store went back from revision ") {
	}
	w.check("released 30001")
	runOK(t, with("allocate", "servicenodeports", "30002")...)
	w.check("allocated 30002")
	w.cancel()
	if code := <-w.ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestWatchEtcdGone stops the etcd: the watch says so and ends.
func TestWatchEtcdGone(t *testing.T) {
	t.Parallel() // it waits
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "serviceips", "10.96.0.0/24")...)
	w := startWatch(t, with("serviceips", "--timeout", "5s")...)
	e.Close()
	if line := w.next(w.errs); !strings.Contains(line, "etcd does not answer") {
		t.Errorf("%q", line)
	}
	if line := w.next(w.errs); !strings.Contains(line, "no answer for 5s") {
		t.Errorf("%q", line)
	}
	if code := <-w.ended; code != exitUnreachable {
		t.Errorf("exit code %d", code)
	}
}
