package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/tcpproxy"
)

// TestCutClients creates Services by clients that disconnect at a random time, most of them while a request to etcd is
// under way. What the server has allocated for Services that do not exist must be free after the requests, or leaked
// for at most one of them.
func TestCutClients(t *testing.T) { onEachVersion(t, testCutClients) }

func testCutClients(t *testing.T, version apiservertest.Version) {
	creations := int64(300)
	if isLong {
		creations = 3900
	}
	const callers = 8
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true}))
	t.Cleanup(etcd.Close)
	proxy := tcpproxy.Start(t, must(url.Parse(etcd.Endpoints()[0])).Host)
	server := startServer(t, serverConfig([]string{"http://" + proxy.Address()}, version, true, 0))
	services := newWorkload(0, server).servers[0].CoreV1().Services(metav1.NamespaceDefault)
	create := func(ctx context.Context, name string) error {
		_, err := services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: nodePort}, metav1.CreateOptions{})
		return err
	}
	// Requests to etcd arrive in bursts, so that the cancellation of one often arrives together with it.
	loaded, stop := context.WithCancel(t.Context())
	var bursts sync.WaitGroup
	bursts.Go(func() {
		for loaded.Err() == nil {
			proxy.Hold()
			time.Sleep(10 * time.Millisecond)
			proxy.Deliver(0)
		}
	})
	var next, disconnected atomic.Int64
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			var whole time.Duration
			for n := 0; ; n++ {
				i := next.Add(1)
				if i > creations {
					return
				}
				if n%10 == 0 { // measure how long a creation takes now
					start := time.Now()
					name := fmt.Sprintf("whole-%d-%d", caller, n)
					if err := create(t.Context(), name); err != nil {
						t.Error(err)
					} else if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
					whole = time.Since(start)
				}
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(whole))
				if create(ctx, fmt.Sprintf("cut-%d", i)) != nil {
					disconnected.Add(1)
				}
				cancel()
			}
		})
	}
	group.Wait()
	stop()
	bursts.Wait()
	// The grace of leaks is longer.
	ports, addresses := leaks(t, etcd.Client())
	for end := time.Now().Add(falls); len(ports)+len(addresses) > 0 && time.Now().Before(end); time.Sleep(time.Second) {
		ports, addresses = leaks(t, etcd.Client())
	}
	t.Logf("%d of %d clients disconnected; leaked are ports %v and addresses %v", disconnected.Load(), creations, ports, addresses)
	if disconnected.Load() < creations/4 {
		t.Errorf("only %d of %d clients disconnected", disconnected.Load(), creations)
	}
	if len(ports)+len(addresses) > 1 {
		t.Errorf("%d values are leaked", len(ports)+len(addresses))
	}
	checkHistory(t, etcd.Client())
}
