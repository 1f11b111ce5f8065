package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/server"
)

// longestPause is how long a server may be paused between two writes of its lease, which are ten seconds apart, so that
// its lease is not taken for that of a dead server.
const longestPause = 14 * time.Second

// TestRepairBesideServers runs `rangekeeper repair --apply` again and again beside stock servers. One was killed for
// ever, and its lease has no time to live. Those that live lose theirs, as by a restore of etcd; one is paused, one
// has a clock that is minutes ahead, two have one address. The repair must delete the dead server's lease, and nothing
// else.
func TestRepairBesideServers(t *testing.T) {
	t.Parallel() // it waits most of the time
	onNewest(t, func(t *testing.T, version apiservertest.Version) {
		if isLong {
			t.Parallel()
		}
		testRepairBesideServers(t, version)
	})
}

func testRepairBesideServers(t *testing.T, version apiservertest.Version) {
	const exact, paused, shared, dead = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"
	lasts := 70 * time.Second // two runs of the repair
	if isLong {
		lasts = 10 * time.Minute
	}
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true}))
	t.Cleanup(etcd.Close)
	start := func(address string, ahead time.Duration) *apiservertest.Server {
		config := serverConfig(etcd.Endpoints(), version, false, 0)
		config.AdvertiseAddress, config.ClockOffset = address, ahead
		return apiservertest.Start(t, config)
	}
	first := start(exact, 0)
	client := must(kubernetes.NewForConfig(first.RESTConfig(apiservertest.Admin)))
	pausing := start(paused, 0)
	start(shared, clockOffset)
	start(shared, 0)
	killed := start(dead, 0)
	awaitAddresses(t, client, exact, paused, shared, dead)
	killed.Kill()
	loseLease(t, etcd.Client(), dead)

	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	disturbed := make(chan struct{})
	go func() {
		defer close(disturbed)
		for i := 0; ctx.Err() == nil; i++ {
			loseLease(t, etcd.Client(), []string{paused, shared, exact}[i%3])
			pausing.Pause()
			time.Sleep(longestPause)
			pausing.Resume()
			time.Sleep(11 * time.Second) // it writes its lease
		}
	}()
	var deleted []string
	runs := 0
	for ctx.Err() == nil {
		var out, log bytes.Buffer
		code := server.Program.Run(t.Context(), []string{"repair", "--apply", "-o", "json", "--endpoints", strings.Join(etcd.Endpoints(), ",")}, &out, &log)
		var plan audit.Plan
		if err := json.Unmarshal(out.Bytes(), &plan); code > 1 || err != nil {
			t.Errorf("repair ends with %d: %v\n%s", code, err, &log)
			break
		}
		for _, object := range plan.ServerObjects {
			deleted = append(deleted, object.Action+" "+object.Kind+" "+object.Name)
		}
		runs++
		time.Sleep(time.Second)
	}
	cancel()
	<-disturbed
	t.Logf("%d runs of the repair in %v: %q", runs, lasts, deleted)
	if want := []string{"delete MasterLease " + dead}; !slices.Equal(deleted, want) {
		t.Errorf("the repair did %q, not %q", deleted, want)
	}
	awaitAddresses(t, client, exact, paused, shared)
}

// leaseKey begins the keys of the servers' leases.
const leaseKey = "/registry/masterleases/"

// loseLease takes the time to live from a server's lease, if there is one.
func loseLease(t *testing.T, etcd *clientv3.Client, address string) {
	key := leaseKey + address
	for range 10 {
		read := must(etcd.Get(t.Context(), key))
		if read.Count == 0 {
			t.Logf("%s has no lease to lose", address)
			return
		}
		lease := read.Kvs[0]
		unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", lease.ModRevision)
		if must(etcd.Txn(t.Context()).If(unchanged).Then(clientv3.OpPut(key, string(lease.Value))).Commit()).Succeeded {
			return
		}
	}
	t.Errorf("%s is written all the time", key)
}
