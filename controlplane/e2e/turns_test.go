package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// endpointInterval is the time between regular turns (k8s.io/kubernetes/pkg/controlplane/instance.go).
const endpointInterval = 10 * time.Second

// TestTurnsByEvent deletes what the bootstrap controller of a server keeps, through the API and in etcd: the Service
// kubernetes with its address still recorded, as after a partial restore. Then it kills a server, whose address goes
// with its lease.
func TestTurnsByEvent(t *testing.T) {
	t.Parallel() // it waits most of the time
	onEachVersion(t, func(t *testing.T, version apiservertest.Version) {
		etcd, servers := startServers(t, version, 1)
		client := must(kubernetes.NewForConfig(servers[0].RESTConfig(apiservertest.Admin)))
		const first, second = "192.0.2.1", "192.0.2.2"
		await := func(what string, addresses ...string) {
			t.Helper()
			began := time.Now()
			awaitAddresses(t, client, addresses...)
			t.Logf("%s: right after %v", what, time.Since(began).Round(time.Millisecond))
		}
		await("start", first)
		// Each turn writes the lease.
		written := func() int64 { return must(etcd.Get(t.Context(), leaseKey+first)).Kvs[0].Version }
		before, began := written(), time.Now()
		for _, one := range []struct {
			what    string
			deletes func(context.Context, string, metav1.DeleteOptions) error
		}{
			{"Endpoints", client.CoreV1().Endpoints("default").Delete},
			{"EndpointSlice", client.DiscoveryV1().EndpointSlices("default").Delete},
			{"Service", client.CoreV1().Services("default").Delete},
		} {
			if err := one.deletes(t.Context(), "kubernetes", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			await(one.what, first)
		}
		took := time.Since(began)
		if turns, regular := written()-before, int64(took/endpointInterval)+1; turns <= regular {
			t.Errorf("there were %d turns in %v, no more than regular ones: changes cause none", turns, took)
		}
		must(etcd.Delete(t.Context(), "/registry/services/specs/default/kubernetes"))
		await("Service lost in etcd", first)
		killed := apiservertest.Start(t, serverConfig(etcd.Endpoints(), version, true, 1))
		await("second server", first, second)
		awaitMetrics(t, client, 2)
		killed.Kill()
		awaitNoLease(t, etcd, second)
		await("killed server", first)
		awaitMetrics(t, client, 1)
		checkAudit(t, etcd)
	})
}

// checkEndpoints compares the addresses of the Service kubernetes, which must be there, with those of its servers.
func checkEndpoints(ctx context.Context, client kubernetes.Interface, want []string) error {
	if _, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{}); err != nil {
		return err
	}
	return apiservertest.CheckEndpoints(ctx, client, want...)
}

// awaitAddresses waits until the Service kubernetes has just these addresses of servers.
func awaitAddresses(t *testing.T, client kubernetes.Interface, addresses ...string) {
	t.Helper()
	began := time.Now()
	for err := checkEndpoints(t.Context(), client, addresses); err != nil; err = checkEndpoints(t.Context(), client, addresses) {
		if time.Since(began) > patience {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitMetrics waits until a server counts so many addresses of servers in its metrics, and finds them right.
func awaitMetrics(t *testing.T, client kubernetes.Interface, count int) {
	t.Helper()
	var lines []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		text := must(client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))
		lines = nil
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "rangekeeper_apiserver_") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		slices.Sort(lines)
		want := []string{"rangekeeper_apiserver_addresses_agree 1"}
		for _, object := range []string{"EndpointSlice", "Endpoints", "MasterLease"} {
			want = append(want, fmt.Sprintf("rangekeeper_apiserver_addresses{object=%q} %d", object, count))
		}
		if slices.Equal(lines, want) {
			return
		}
	}
	t.Errorf("%d servers: %q", count, lines)
}

// awaitNoLease waits until the lease of a server is gone.
func awaitNoLease(t *testing.T, etcd *clientv3.Client, address string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if must(etcd.Get(t.Context(), leaseKey+address)).Count == 0 {
			return
		}
	}
	t.Fatalf("the lease of %s stays", address)
}
