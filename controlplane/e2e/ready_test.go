package e2e

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// TestCreateWhenReady creates Services as soon as the first server of a cluster is ready. It may not have the default
// ServiceCIDR yet, and must not answer that the range is full.
func TestCreateWhenReady(t *testing.T) {
	starts := 2
	if isLong {
		starts = 16
	}
	for range starts {
		etcd, servers := startServers(t, apiservertest.Newest, 1)
		services := newWorkload(0, servers...).servers[0].CoreV1().Services(metav1.NamespaceDefault)
		var group sync.WaitGroup
		for i := range clients {
			group.Go(func() {
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("first-%d", i)}, Spec: corev1.ServiceSpec{Ports: ports("TCP")}}
				if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		checkAudit(t, etcd)
		servers[0].Kill()
	}
}
