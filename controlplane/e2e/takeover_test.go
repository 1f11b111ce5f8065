package e2e

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// updatePause separates the creation of a Service from its update or its next creation. If they are in the same second,
// a stock kube-apiserver removes the new IPAddress objects, and other Services get their addresses, too.
const updatePause = 1100 * time.Millisecond

// TestTakeover runs a stock kube-apiserver and ours on a cluster in turn, and then both concurrently.
func TestTakeover(t *testing.T) { onEachVersion(t, testTakeover) }

func testTakeover(t *testing.T, version apiservertest.Version) {
	turns, together := 1, 5*time.Second
	if isLong {
		turns, together = 10, time.Minute
	}
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()}))
	t.Cleanup(etcd.Close)
	start := func(rangekeeper bool) *apiservertest.Server {
		index := 0
		if rangekeeper {
			index = 1
		}
		return startServer(t, serverConfig(etcd.Endpoints(), version, rangekeeper, index))
	}
	var creates, deletes int64
	load := func(name string, w *workload) {
		w.prefix = name
		if version != apiservertest.V1_32 {
			w.pause = updatePause
		}
		w.run(t)
		creates, deletes = creates+w.created.Load(), deletes+w.deleted.Load()
	}
	for turn := range turns {
		for _, rangekeeper := range []bool{false, true} {
			server := start(rangekeeper)
			load(fmt.Sprintf("turn-%d-%v-", turn, rangekeeper), newWorkload(64, server))
			server.Stop()
			checkAudit(t, etcd.Client())
		}
	}
	first, second := start(false), start(true)
	both := newWorkload(100_000, first, second)
	both.end = time.Now().Add(together)
	load("together-", both)
	changes := checkOwners(t, etcd.Client(), "-false-")
	checkAudit(t, etcd.Client())
	t.Logf("%d creates, %d deletes in %d turns of each and %v together, %d changes of Services in etcd",
		creates, deletes, turns, together, changes)
}

// checkAudit fails the test by the findings and leaks of an audit. It is for clusters in which no server was killed.
func checkAudit(t *testing.T, etcd *clientv3.Client) {
	t.Helper()
	report := auditEtcd(t, etcd)
	checkReport(t, report)
	if len(report.Leaks) > 0 {
		t.Errorf("leaks: %v", report.Leaks)
	}
}
