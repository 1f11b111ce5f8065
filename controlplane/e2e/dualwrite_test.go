package e2e

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/releases"
)

// agreementTimeout covers the repair of leaks by 1.32. The repair of 1.33 sees after 3 minutes that 1.32 has deleted a
// Service, and removes the IPAddress object a minute later.
const agreementTimeout = repairTimeout

// TestDualWrite runs a server of 1.32, which records ClusterIPs in bitmaps, beside one of 1.33, which records them in
// bitmaps and IPAddress objects, as during an upgrade or a downgrade. One of them or both have Rangekeeper inside.
func TestDualWrite(t *testing.T) {
	older, newer := apiservertest.Version(releases.Of("1.32")), apiservertest.Version(releases.Of("1.33"))
	for _, c := range []struct {
		name         string
		older, newer bool
	}{
		{"1.33 beside stock 1.32", false, true},
		{"1.32 beside stock 1.33", true, false},
		{"both", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it waits for repairs most of the time
			etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()}))
			t.Cleanup(etcd.Close)
			servers := []*apiservertest.Server{
				startServer(t, serverConfig(etcd.Endpoints(), older, c.older, 0)),
				startServer(t, serverConfig(etcd.Endpoints(), newer, c.newer, 1)),
			}
			w := newWorkload(100_000, servers...)
			w.end = time.Now().Add(10 * time.Second)
			if isLong {
				w.end = time.Now().Add(time.Minute)
			}
			if !c.newer {
				w.pause = updatePause
			}
			w.run(t)
			changes := checkOwners(t, etcd.Client(), "")
			t.Logf("%d creates, %d updates, %d deletes, %d retries; %d changes of Services in etcd",
				w.created.Load(), w.updated.Load(), w.deleted.Load(), w.retried.Load(), changes)
			checkAgreement(t, etcd.Client())
		})
	}
}

// checkAgreement fails the test if the bitmaps lack an address of a Service, and waits until they and the IPAddress
// objects record the same addresses as Services. Repairs remove leaks, and objects of Services that the older server
// has deleted.
func checkAgreement(t *testing.T, etcd *clientv3.Client) {
	t.Helper()
	_, bitmaps := auditBoth(t, etcd)
	if len(bitmaps.Findings) > 0 {
		t.Fatalf("findings before any repair: %v", bitmaps.Findings)
	}
	start := time.Now()
	for {
		objects, bitmaps := auditBoth(t, etcd)
		waited := time.Since(start).Round(time.Second)
		if !objects.Has(audit.Wasted) && !bitmaps.Has(audit.Wasted) {
			t.Logf("bitmaps, objects and Services agree after %v: %+v %+v", waited, objects.Ranges, bitmaps.Ranges)
			return
		}
		if waited > agreementTimeout {
			t.Fatalf("after %v objects have findings %v and leaks %v, bitmaps findings %v and leaks %v",
				waited, objects.Findings, objects.Leaks, bitmaps.Findings, bitmaps.Leaks)
		}
		time.Sleep(time.Second)
	}
}

// auditBoth audits the IPAddress objects and the bitmaps of a cluster.
func auditBoth(t *testing.T, etcd *clientv3.Client) (objects, bitmaps *audit.Report) {
	t.Helper()
	state := must(clusterstate.ReadEtcd(t.Context(), etcd, clusterstate.Options{}))
	if state.IPAddresses.Len() == 0 {
		t.Fatal("the cluster has no IPAddress objects")
	}
	// An hour from now no object is too new to be a leak.
	options := audit.Options{Now: time.Now().Add(time.Hour)}
	objects = must(audit.New(state, options)).Report()
	options.Bitmap = true
	return objects, must(audit.New(state, options)).Report()
}
