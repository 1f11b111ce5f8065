package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// testCreateDisconnect creates Services with clients that disconnect before the answer. If the Service is written
// nevertheless, its values must stay allocated. A stock kube-apiserver releases them.
func testCreateDisconnect(t *testing.T, etcd *clientv3.Client, servers []*apiservertest.Server) {
	const callers, floor = 8, 50
	services := newWorkload(0, servers...).servers[0].CoreV1().Services(metav1.NamespaceDefault)
	create := func(timeout time.Duration, name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports("TCP")},
		}, metav1.CreateOptions{})
		return err
	}
	var disconnected, written atomic.Int64
	end := time.Now().Add(5 * time.Minute)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := 0; written.Load() < floor && time.Now().Before(end); i++ {
				name := fmt.Sprintf("s-%d-%d", caller, i)
				start := time.Now()
				if err := create(time.Minute, name); err != nil {
					t.Error(err)
				}
				// Some disconnect while addresses are allocated, some while the Service is written.
				name += "-disconnected"
				if create(rand.N(time.Since(start)), name) == nil {
					continue
				}
				disconnected.Add(1)
				time.Sleep(time.Since(start))
				if _, err := services.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
					written.Add(1)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d clients disconnected, %d of their Services were written", disconnected.Load(), written.Load())
	if written.Load() < floor {
		t.Errorf("%d Services were written after their client had disconnected, want at least %d", written.Load(), floor)
	}
	checkReport(t, auditEtcd(t, etcd))
}
