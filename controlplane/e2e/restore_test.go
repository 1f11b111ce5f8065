package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// falls bounds the wait until the servers have given up what was under way at a fault.
const falls = 30 * time.Second

// TestRestoreUnderServers puts an older copy of etcd's data back while servers run and clients work on, and then one
// that is older than two of the three servers, while the first of them restarts. In the history
// of the restored etcd no two Services may ever have the same value, and no value of a Service may be free. The servers
// must not take their own lost allocations for used ones: clients get free node ports, and what is leaked is not more
// than what was under way.
func TestRestoreUnderServers(t *testing.T) {
	if isLong {
		t.Parallel() // for repairs
	}
	onNewest(t, func(t *testing.T, version apiservertest.Version) {
		if isLong {
			t.Parallel()
		}
		etcd, servers, c := restoreUnderServers(t, version, true)
		if c.full > 0 {
			t.Errorf("%d creations failed after the restore as the range was full", c.full)
		}
		checkHistory(t, etcd.Client())
		const underWay = churners * portsOfChurn
		ports, _ := leaks(t, etcd.Client())
		for end := time.Now().Add(falls); len(ports) > underWay && time.Now().Before(end); time.Sleep(time.Second) {
			ports, _ = leaks(t, etcd.Client())
		}
		t.Logf("%d node ports leaked", len(ports))
		if len(ports) > underWay {
			t.Errorf("%v after the load, %d node ports are leaked; at most %d were under way", falls, len(ports), underWay)
		}
		if isLong {
			// IPAddress objects that the servers' watch caches miss are leaked until the servers restart, as /livez
			// demands.
			for _, server := range servers {
				server.Restart()
			}
			awaitRepair(t, etcd.Client())
			checkHistory(t, etcd.Client())
		}
	})
}

// TestStockRestoreUnderServers logs the same for stock kube-apiservers.
func TestStockRestoreUnderServers(t *testing.T) {
	if os.Getenv(stockVariable) == "" {
		t.Skipf("%s is not set: stock kube-apiservers are only counted for a comparison", stockVariable)
	}
	onEachVersion(t, func(t *testing.T, version apiservertest.Version) {
		etcd, _, _ := restoreUnderServers(t, version, false)
		t.Log(readHistory(t, etcd.Client(), 1))
		ports, addresses := leaks(t, etcd.Client())
		t.Logf("%d node ports and %d addresses leaked", len(ports), len(addresses))
	})
}

// TestDeletionsUnderWay stops a server while it deletes Services, some of which are gone from etcd and their IPAddress
// objects are not. An etcd that has all of them is put back, and the server goes on. It must not delete the objects:
// the Services are there again.
func TestDeletionsUnderWay(t *testing.T) { onNewest(t, testDeletionsUnderWay) }

func testDeletionsUnderWay(t *testing.T, version apiservertest.Version) {
	const count, deleters = 96, 16
	rounds := 2
	if isLong {
		rounds = 20
	}
	etcd := etcdtest.StartCluster(t, 1)
	client := etcd.Client()
	server := startOn(t, etcd.Endpoints(), version, true, 1)[0]
	w := newWorkload(0, server)
	services := w.servers[0].CoreV1().Services(metav1.NamespaceDefault)
	stored := func() int64 {
		keys := clusterstate.ServiceKeys(clusterstate.DefaultPrefix)
		return must(client.Get(t.Context(), keys, clientv3.WithPrefix(), clientv3.WithCountOnly())).Count
	}
	for round := range rounds {
		name := func(i int) string { return fmt.Sprintf("s-%d-%d", round, i) }
		for i := range count {
			if err := w.create(t.Context(), name(i), corev1.ServiceSpec{IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack), Ports: ports("TCP")}); err != nil {
				t.Fatal(err)
			}
		}
		copied, all := etcd.CopyData(0), stored()
		var deletions sync.WaitGroup
		for first := range deleters {
			deletions.Go(func() {
				for i := first; i < count; i += deleters {
					// What is refused, clients try again, also by themselves.
					services.Delete(t.Context(), name(i), metav1.DeleteOptions{})
				}
			})
		}
		for stored() > all-count/4 {
		}
		server.Pause()
		left := stored()
		etcd.PutBack(0, copied)
		server.Resume()
		deletions.Wait()
		if err := w.create(t.Context(), name(count), clusterIP); err != nil {
			t.Error(err)
		}
		t.Logf("stopped when %d of %d Services were deleted", all-left, count)
		checkHistory(t, client)
	}
}

// restoreUnderServers returns when the load has ended, which has gone on after the restore.
func restoreUnderServers(t *testing.T, version apiservertest.Version, rangekeeper bool) (*etcdtest.Cluster, []*apiservertest.Server, *churn) {
	before, lost, after, pause := 5*time.Second, 5*time.Second, 5*time.Second, 50*time.Millisecond
	if isLong { // for several passes of each server
		before, lost, after, pause = 20*time.Second, 30*time.Second, 10*time.Minute, 500*time.Millisecond
	}
	etcd := etcdtest.StartCluster(t, 1)
	servers := startOn(t, etcd.Endpoints(), version, rangekeeper, 1)
	empty := etcd.CopyData(0)
	for i := 1; i < 3; i++ {
		servers = append(servers, startAs(t, etcd.Endpoints(), version, rangekeeper, i))
	}
	c := startChurn(t, pause, servers...)
	time.Sleep(before)
	copied := etcd.CopyData(0)
	time.Sleep(lost)
	t.Logf("before the restore: %v", c)
	for _, backup := range []string{copied, empty} {
		etcd.PutBack(0, backup)
		if backup == empty {
			servers[0].Restart()
		}
		c.reset()
		c.keep(t, 20)
		time.Sleep(after)
		if rangekeeper {
			c.awaitProgress(t)
		}
	}
	c.stop()
	t.Logf("after the restore: %v", c)
	return etcd, servers, c
}

// startOn starts servers on an etcd, with few node ports.
func startOn(t *testing.T, endpoints []string, version apiservertest.Version, rangekeeper bool, count int, flags ...string) (servers []*apiservertest.Server) {
	t.Helper()
	for i := range count {
		servers = append(servers, startAs(t, endpoints, version, rangekeeper, i, flags...))
	}
	return servers
}

// startAs starts the server with this number.
func startAs(t *testing.T, endpoints []string, version apiservertest.Version, rangekeeper bool, i int, flags ...string) *apiservertest.Server {
	t.Helper()
	config := serverConfig(endpoints, version, rangekeeper, i)
	config.ServiceNodePortRange = churnPorts
	config.Flags = append(config.Flags, flags...)
	return startServer(t, config)
}
