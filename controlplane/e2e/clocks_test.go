package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// clockOffset is how far the clock of one server is ahead, and that of another one behind.
const clockOffset = 5 * time.Minute

// TestClocks runs servers whose wall clocks differ by ten minutes. Creations wait in a webhook with their values
// allocated, long enough for each server to see an IPAddress object without its Service, which is minutes old by the
// clock of another server.
func TestClocks(t *testing.T) {
	onNewest(t, func(t *testing.T, version apiservertest.Version) {
		checkHistory(t, createBySkewedServers(t, version, true))
	})
}

// TestStockClocks logs the same for stock kube-apiservers.
func TestStockClocks(t *testing.T) {
	if os.Getenv(stockVariable) == "" {
		t.Skipf("%s is not set: stock kube-apiservers are only counted for a comparison", stockVariable)
	}
	onEachVersion(t, func(t *testing.T, version apiservertest.Version) {
		createBySkewedServers(t, version, false)
	})
}

func createBySkewedServers(t *testing.T, version apiservertest.Version, rangekeeper bool) *clientv3.Client {
	// The first server is exact, and its clients ask first.
	offsets := []time.Duration{0, clockOffset, -clockOffset}
	creators, lives, inWebhook := 20, 3, 3*time.Second
	if isLong {
		lives, inWebhook = 5, 20*time.Second
	}
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true}))
	t.Cleanup(etcd.Close)
	var servers []*apiservertest.Server
	for i, offset := range offsets {
		config := serverConfig(etcd.Endpoints(), version, rangekeeper, i)
		config.ServiceClusterIPRange, config.ServiceNodePortRange, config.ClockOffset = "10.96.0.0/25", "30000-30127", offset
		servers = append(servers, startServer(t, config))
	}
	clients := newWorkload(0, servers...).servers
	startWebhook(t, clients, func() { time.Sleep(inWebhook) })
	var group sync.WaitGroup
	for i := range len(clients) * creators {
		group.Go(func() {
			at := i % len(clients)
			services := clients[at].CoreV1().Services(metav1.NamespaceDefault)
			for life := range lives {
				service := slow(fmt.Sprintf("slow-%d-%d", i, life), nodePort)
				if i%2 == 1 {
					service.Labels = nil // it takes the values that others lose
				}
				before := time.Now()
				created, err := services.Create(t.Context(), service, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("create %s: %v", service.Name, err)
					return
				}
				checkClock(t, created, before, offsets[at])
				if life+1 == lives {
					return
				}
				if err := services.Delete(t.Context(), service.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					t.Errorf("delete %s: %v", service.Name, err)
				}
			}
		})
	}
	group.Wait()
	t.Log(readHistory(t, etcd.Client(), 1))
	return etcd.Client()
}

// checkClock fails the test unless the server that created a Service just now has a clock with the offset.
func checkClock(t *testing.T, service *corev1.Service, before time.Time, offset time.Duration) {
	t.Helper()
	// Its timestamp has whole seconds.
	at := service.CreationTimestamp.Time
	if at.Before(before.Add(offset).Truncate(time.Second)) || at.After(time.Now().Add(offset)) {
		t.Errorf("%s was created at %v by a server whose clock has the offset %v, and the creation began at %v", service.Name, at, offset, before)
	}
}
