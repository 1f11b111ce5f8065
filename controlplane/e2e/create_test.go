package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// TestCreationGivenUp has clients that go before a Service is created. If it is written all the same, what it has stays
// allocated. An unchanged server gives that back.
func TestCreationGivenUp(t *testing.T) { onEachVersion(t, testCreationGivenUp) }

func testCreationGivenUp(t *testing.T, version apiservertest.Version) {
	const callers, floor = 8, 50
	etcd, servers := startServers(t, version, 1)
	services := newWorkload(0, servers...).servers[0].CoreV1().Services(metav1.NamespaceDefault)
	create := func(patience time.Duration, name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports("TCP")},
		}, metav1.CreateOptions{})
		return err
	}
	var givenUp, written atomic.Int64
	end := time.Now().Add(time.Minute)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := 0; written.Load() < floor && time.Now().Before(end); i++ {
				name := fmt.Sprintf("s-%d-%d", caller, i)
				start := time.Now()
				if err := create(time.Minute, name); err != nil {
					t.Error(err)
				}
				// Some go while addresses are taken, some while the Service is written.
				name += "-given-up"
				if create(rand.N(time.Since(start)), name) == nil {
					continue
				}
				givenUp.Add(1)
				time.Sleep(time.Since(start))
				if _, err := services.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
					written.Add(1)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d creations given up, %d Services written all the same", givenUp.Load(), written.Load())
	if written.Load() < floor {
		t.Errorf("%d Services written though their client had gone, want at least %d", written.Load(), floor)
	}
	checkReport(t, auditEtcd(t, etcd))
}
