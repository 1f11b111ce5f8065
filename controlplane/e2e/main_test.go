package e2e

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// patience is for what takes some seconds on a machine that has nothing else to do.
const patience = 2 * time.Minute

func TestMain(m *testing.M) { etcdtest.Main(m, nil) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// onEachVersion runs a test on servers of each release.
func onEachVersion(t *testing.T, test func(t *testing.T, version apiservertest.Version)) {
	for _, version := range apiservertest.Versions() {
		t.Run(string(version), func(t *testing.T) { test(t, version) })
	}
}

// onNewest runs a test on servers of the newest release, and in the long form on those of each.
func onNewest(t *testing.T, test func(t *testing.T, version apiservertest.Version)) {
	if isLong {
		onEachVersion(t, test)
		return
	}
	t.Run(string(apiservertest.Newest), func(t *testing.T) { test(t, apiservertest.Newest) })
}

// startServers starts an etcd without compaction and servers with Rangekeeper inside.
func startServers(t *testing.T, version apiservertest.Version, count int, flags ...string) (*clientv3.Client, []*apiservertest.Server) {
	t.Helper()
	return startCluster(t, version, true, count, flags...)
}

// startCluster starts an etcd without compaction and servers: with Rangekeeper inside, or stock kube-apiservers.
func startCluster(t *testing.T, version apiservertest.Version, rangekeeper bool, count int, flags ...string) (*clientv3.Client, []*apiservertest.Server) {
	t.Helper()
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true}))
	t.Cleanup(etcd.Close)
	var servers []*apiservertest.Server
	for i := range count {
		config := serverConfig(etcd.Endpoints(), version, rangekeeper, i)
		config.Flags = append(config.Flags, flags...)
		servers = append(servers, startServer(t, config))
	}
	return etcd.Client(), servers
}

// startServer starts a server and waits until the Service kubernetes is stored: a server that is ready may still be
// creating it and its namespace, and an audit takes its address for a leak.
func startServer(t *testing.T, config apiservertest.Config) *apiservertest.Server {
	t.Helper()
	server := apiservertest.Start(t, config)
	services := newWorkload(0, server).servers[0].CoreV1().Services(metav1.NamespaceDefault)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, err := services.Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err == nil {
			return server
		}
		if time.Now().After(end) {
			t.Fatal("the Service kubernetes: ", err)
		}
	}
}

// serverConfig returns the configuration of server i of a cluster, with all loops and without compaction of etcd.
func serverConfig(endpoints []string, version apiservertest.Version, rangekeeper bool, i int) apiservertest.Config {
	return apiservertest.Config{
		Version: version, Rangekeeper: rangekeeper, OwnLoops: !rangekeeper, Etcd: endpoints,
		ServiceClusterIPRange: "10.96.0.0/16,fd00:10:96::/112", ServiceNodePortRange: "30000-34999",
		AdvertiseAddress: fmt.Sprintf("192.0.2.%d", i+1), Flags: []string{"--etcd-compaction-interval=0"},
	}
}
