package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// testUpdateConflict lets two clients update each Service concurrently. The update that loses the race must release no
// value that the Service keeps, and leave no value allocated that the Service did not get. Stock kube-apiservers
// release the port of nearly every Service.
func testUpdateConflict(t *testing.T, etcd *clientv3.Client, servers []*apiservertest.Server) {
	const services, floor = 150, 5
	w := newWorkload(services, servers...)
	first, second := w.servers[0].CoreV1().Services(metav1.NamespaceDefault), w.servers[1].CoreV1().Services(metav1.NamespaceDefault)
	kinds := []struct {
		from   corev1.ServiceSpec
		change func(*corev1.ServiceSpec)
	}{
		{corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports("TCP")}, toType(corev1.ServiceTypeClusterIP)},
		{corev1.ServiceSpec{Ports: ports("TCP")}, toType(corev1.ServiceTypeNodePort)},
		{corev1.ServiceSpec{IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack), Ports: ports("TCP")}, single},
	}
	conflicts := make([]int, len(kinds))
	updates := 0
	// On a busy machine one of two updates may often have ended before the other one begins.
	for ; updates < services || slices.Min(conflicts) < floor && updates < 10*services; updates++ {
		i := updates
		kind := kinds[i%len(kinds)]
		created, err := first.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", i)}, Spec: kind.from}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		labelled, changed := created.DeepCopy(), created.DeepCopy()
		labelled.Labels = map[string]string{"changed": "too"}
		kind.change(&changed.Spec)
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := second.Update(t.Context(), labelled, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
				t.Error(err)
			}
		})
		group.Go(func() {
			_, err := first.Update(t.Context(), changed, metav1.UpdateOptions{})
			switch {
			case apierrors.IsConflict(err):
				conflicts[i%len(kinds)]++
			case err != nil:
				t.Error(err)
			}
		})
		group.Wait()
	}
	t.Logf("conflicts of each kind, of %d updates: %v", updates/len(kinds), conflicts)
	for i, n := range conflicts {
		if n < floor {
			t.Errorf("kind %d: %d conflicts, want at least %d", i, n, floor)
		}
	}
	checkAudit(t, etcd)
}
