package e2e

import (
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// longVariable makes the tests run longer, two hours in all, and wait for the repairs of the servers. `make e2e` sets
// it.
const longVariable = "RANGEKEEPER_E2E_LONG"

var isLong = os.Getenv(longVariable) != ""

// repairTimeout covers three passes, 3 minutes apart, that see a leak after its grace of 6 minutes.
const repairTimeout = 16 * time.Minute

// TestCluster runs three servers on one etcd under load, and kills and restarts one of them.
func TestCluster(t *testing.T) {
	for _, version := range apiservertest.Versions() {
		t.Run(string(version), func(t *testing.T) {
			if isLong {
				t.Parallel() // they wait most of the time
			}
			testCluster(t, version)
		})
	}
}

func testCluster(t *testing.T, version apiservertest.Version) {
	services := 300
	if isLong {
		services = 1000
	}
	etcd, servers := startServers(t, version, 3)
	w := newWorkload(services, servers...)
	start := time.Now()
	w.runAndKill(t, servers[1])
	took := time.Since(start)

	changes := checkHistory(t, etcd)
	if created := w.created.Load(); created < int64(services) {
		t.Errorf("%d creates", created)
	}
	t.Logf("%d creates, %d updates, %d deletes in %v, %d retries; %d changes of Services in etcd", w.created.Load(), w.updated.Load(), w.deleted.Load(), took.Round(time.Second), w.retried.Load(), changes)

	// The requests to the killed server may leak: one of each client, with up to two addresses and two ports.
	report := auditEtcd(t, etcd)
	if len(report.Leaks) > 4*clients {
		t.Errorf("%d leaks", len(report.Leaks))
	}
	if !isLong {
		checkReport(t, report)
		return
	}
	awaitRepair(t, etcd)
}

// runAndKill runs the workload, and kills and restarts a server when half of the Services are created.
func (w *workload) runAndKill(t *testing.T, server *apiservertest.Server) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(t)
	}()
	<-w.half
	server.Kill()
	server.Restart()
	<-done
}

// awaitRepair waits until the servers' repairs have left nothing to report.
func awaitRepair(t *testing.T, etcd *clientv3.Client) {
	t.Helper()
	awaitAudit(t, etcd, func(report *audit.Report) bool { return len(report.Leaks)+len(report.Findings) == 0 })
}

// awaitAudit waits until the servers' repairs have left what an audit reports so.
func awaitAudit(t *testing.T, etcd *clientv3.Client, isRepaired func(*audit.Report) bool) {
	t.Helper()
	start := time.Now()
	for {
		report := auditEtcd(t, etcd)
		if isRepaired(report) {
			break
		}
		if time.Since(start) > repairTimeout {
			t.Fatalf("%v after the workload, %d leaks and %d findings are not repaired: %v %v", repairTimeout, len(report.Leaks), len(report.Findings), report.Leaks, report.Findings)
		}
		time.Sleep(10 * time.Second)
	}
	t.Logf("repaired %v after the workload", time.Since(start).Round(time.Second))
}

func auditEtcd(t *testing.T, etcd *clientv3.Client) *audit.Report {
	t.Helper()
	state := must(clusterstate.ReadEtcd(t.Context(), etcd, clusterstate.Options{}))
	return must(audit.New(state, audit.Options{Now: time.Now()})).Report()
}

// checkReport fails the test if a value has two owners, or a Service has a value that is not recorded as allocated.
// Leaks are allowed.
func checkReport(t *testing.T, report *audit.Report) {
	t.Helper()
	for _, finding := range report.Findings {
		t.Errorf("%+v", finding)
	}
	t.Logf("%d leaks, %+v", len(report.Leaks), report.Ranges)
}
