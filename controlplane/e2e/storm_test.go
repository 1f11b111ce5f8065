package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/server"
)

const (
	// stormQuota is the size of etcd's database that is reached on purpose.
	stormQuota = 16 << 20
	// stormGrace is the time limit of requests, after which a server takes an IPAddress object without a Service for
	// leaked: by then the stale caches of one server lack the Services of others.
	stormGrace = 4 * time.Second
	// narrowPorts replace churnPorts on one server after the other, and highestPort is the last one of them.
	narrowPorts, highestPort = "30000-30095", 30095
	// operatorPorts is the number of node ports that an operator records and cleans.
	operatorPorts = 8
)

// TestStorm has clients work on two servers, of which the second one gets no answers of watches for a while, so that
// all its caches are stale. Meanwhile etcd reaches its quota, is compacted, and goes on, and operators carry out a
// plan and undo it, two at a time. In the long form the servers get another range of node ports after that, one after
// the other. No two Services may ever have the same value, no value of a Service may be free, and clients get values
// when all is over.
func TestStorm(t *testing.T) {
	t.Parallel() // it waits most of the time
	onNewest(t, testStorm)
}

func testStorm(t *testing.T, version apiservertest.Version) {
	stale, rounds, pause := 6*time.Second, 1, 500*time.Millisecond
	if isLong {
		stale, rounds, pause = 2*time.Minute, 5, 50*time.Millisecond
	}
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true, Quota: stormQuota}))
	t.Cleanup(etcd.Close)
	client := etcd.Client()
	read := followHistory(t, client, 1)
	proxy := startWatchProxy(t, must(url.Parse(etcd.Endpoints()[0])).Host)
	var servers []*apiservertest.Server
	for i, endpoint := range []string{etcd.Endpoints()[0], proxy.address} {
		config := serverConfig([]string{endpoint}, version, true, i)
		config.ServiceNodePortRange = churnPorts
		config.Flags = append(config.Flags, "--request-timeout="+stormGrace.String())
		servers = append(servers, startServer(t, config))
	}
	operators := newOperators(t, etcd)
	c := startChurn(t, pause, servers...)

	proxy.hold()
	for range rounds {
		operators.carryOutAndUndo(t)
		time.Sleep(stale / time.Duration(2*rounds))
		fillAndMakeRoom(t, etcd, c)
		time.Sleep(stale / time.Duration(2*rounds))
	}
	if proxy.held.Load() == 0 {
		t.Error("no answer of a watch was held back")
	}
	proxy.release()
	c.reset()
	c.awaitProgress(t)

	if isLong {
		for _, server := range slices.Backward(servers) {
			server.RestartWith("--service-node-port-range=" + narrowPorts)
			c.reset()
			c.awaitProgress(t)
		}
	}
	c.stop()
	t.Log(c)

	h := read()
	// The server with the narrow range has no bits for the other ports, which Services keep.
	h.noBit = slices.DeleteFunc(h.noBit, func(found string) bool {
		_, rest, isPort := strings.Cut(found, portPrefix)
		number, _, _ := strings.Cut(rest, " ")
		port, err := strconv.Atoi(number)
		return isPort && err == nil && port > highestPort
	})
	h.mustHold(t)
	t.Log(h)
	if isLong {
		awaitAudit(t, client, func(report *audit.Report) bool { return len(report.Leaks) == 0 })
	}
}

// fillAndMakeRoom writes until etcd has no space, waits until a client was refused, and makes room again: etcd is
// compacted up to its last revision.
func fillAndMakeRoom(t *testing.T, etcd *embedded.Etcd, c *churn) {
	t.Helper()
	client := etcd.Client()
	filling := strings.Repeat("x", 1<<20)
	var err error
	for i := 0; !errors.Is(err, rpctypes.ErrNoSpace); i++ {
		if _, err = client.Put(t.Context(), "/filling", filling); i > 2*stormQuota>>20 {
			t.Fatalf("the quota is not reached: %v", err)
		}
	}
	c.reset()
	for end := time.Now().Add(patience); c.refused() < churners; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("clients do not notice that etcd has no space: %v", c)
		}
	}
	deleted := must(client.Delete(t.Context(), "/filling"))
	must(client.Compact(t.Context(), deleted.Header.Revision, clientv3.WithCompactPhysical()))
	must(client.Defragment(t.Context(), etcd.Endpoints()[0]))
	must(client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}))
}

// operators use the command beside the servers.
type operators struct {
	etcd *embedded.Etcd
	dir  string
}

func newOperators(t *testing.T, etcd *embedded.Etcd) *operators {
	// The servers' clients wait for no operator, so that values are cleared soon.
	before := edit.LeakAge
	edit.LeakAge = time.Second
	t.Cleanup(func() { edit.LeakAge = before })
	return &operators{etcd, t.TempDir()}
}

func (o *operators) run(ctx context.Context, args ...string) (code int, out string) {
	var all bytes.Buffer
	code = server.Program.Run(ctx, append(args, "--endpoints", strings.Join(o.etcd.Endpoints(), ",")), &all, &all)
	return code, all.String()
}

// carryOutAndUndo records node ports, and has two operators carry out one plan that clears them. Then both undo it.
func (o *operators) carryOutAndUndo(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for range operatorPorts {
		if code, out := o.run(ctx, "allocate", "servicenodeports"); code != 0 {
			t.Fatalf("allocate: %s", out)
		}
	}
	// A plan that has a port of a request under way is refused, as nothing of it may be written then. They try again.
	for end := time.Now().Add(patience); ; {
		plan := filepath.Join(o.dir, fmt.Sprint("plan-", time.Now().UnixNano(), ".json"))
		if code, out := o.run(ctx, "repair", "--plan-to", plan, "--clean-leaks"); code > 1 {
			t.Fatalf("repair --plan-to: %s", out)
		}
		other := plan + ".other"
		if err := os.WriteFile(other, must(os.ReadFile(plan)), 0o600); err != nil {
			t.Fatal(err)
		}
		var applied []string
		for file, isApplied := range o.each(ctx, []string{"repair", "--apply", "--plan"}, plan, other) {
			if isApplied {
				applied = append(applied, file+edit.JournalSuffix)
			}
		}
		if len(applied) > 0 {
			journal := applied[0]
			o.each(ctx, []string{"undo"}, journal, journal)
			for _, suffix := range []string{"", edit.UndoneSuffix} {
				if _, err := os.Stat(journal + suffix); err == nil {
					return
				}
			}
			t.Fatalf("the journal %s is gone", journal)
		}
		if time.Now().After(end) {
			t.Fatal("no plan was carried out")
		}
	}
}

// each runs a command on two files at once, and returns whether each has ended without a fault or finding.
func (o *operators) each(ctx context.Context, command []string, files ...string) map[string]bool {
	var group sync.WaitGroup
	var mutex sync.Mutex
	ended := make(map[string]bool)
	for _, file := range files {
		group.Go(func() {
			code, _ := o.run(ctx, append(slices.Clone(command), file)...)
			mutex.Lock()
			defer mutex.Unlock()
			ended[file] = ended[file] || code == 0
		})
	}
	group.Wait()
	return ended
}
