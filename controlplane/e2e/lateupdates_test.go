package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

const (
	// lateEach is the number of late requests of each kind.
	lateEach = 4
	// updatesCIDR has 61 free addresses: those of the Services that are changed and deleted, of the updates from
	// ExternalName, and of the others.
	updatesCIDR, updatesAddresses = "10.96.0.0/26", 61
)

// TestLateUpdates holds back updates that give Services a node port and an address, and deletions, until a repair has
// freed the values and other Services have them. Some of the Services that are to be deleted are replaced meanwhile:
// each new one has the name and the values of the old one. Then the requests arrive. The updates must not be carried
// out, and nor must the deletions of Services that were replaced; nobody may release the values of these.
func TestLateUpdates(t *testing.T) {
	t.Parallel() // it waits most of the time
	onNewest(t, func(t *testing.T, version apiservertest.Version) { testLateUpdates(t, version, true) })
}

// TestStockLateUpdates logs the same for stock kube-apiservers.
func TestStockLateUpdates(t *testing.T) {
	if os.Getenv(stockVariable) == "" {
		t.Skipf("%s is not set: stock kube-apiservers are only counted for a comparison", stockVariable)
	}
	onEachVersion(t, func(t *testing.T, version apiservertest.Version) { testLateUpdates(t, version, false) })
}

func testLateUpdates(t *testing.T, version apiservertest.Version, isRangekeeper bool) {
	etcd, proxy, clients := startBehindProxy(t, version, isRangekeeper, updatesCIDR, shortTimeout)
	services, behind := clients[0].CoreV1().Services(metav1.NamespaceDefault), clients[1].CoreV1().Services(metav1.NamespaceDefault)
	create := func(name string, spec corev1.ServiceSpec) *corev1.Service {
		t.Helper()
		service, err := services.Create(t.Context(), slow(name, spec), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return service
	}
	var changed, deleted []*corev1.Service
	for i := range lateEach {
		changed = append(changed, create(fmt.Sprintf("cluster-ip-%d", i), clusterIP),
			create(fmt.Sprintf("external-name-%d", i), corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}))
		deleted = append(deleted, create(fmt.Sprintf("deleted-%d", i), nodePort))
	}
	gate := newGate()
	defer gate.open()
	startWebhook(t, clients, gate.wait)

	var answers sync.WaitGroup
	for _, service := range changed {
		answers.Go(func() {
			service = service.DeepCopy()
			service.Spec.Type, service.Spec.ExternalName, service.Spec.Ports = corev1.ServiceTypeNodePort, "", ports("TCP")
			behind.Update(t.Context(), service, metav1.UpdateOptions{}) // fails as in TestLateWrites
		})
	}
	for _, service := range deleted {
		answers.Go(func() { behind.Delete(t.Context(), service.Name, metav1.DeleteOptions{}) })
	}
	gate.await(t, 3*lateEach)
	proxy.Hold()
	gate.open()
	replacing := make(map[string]types.UID)
	for _, service := range deleted[:lateEach/2] {
		if err := services.Delete(t.Context(), service.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		spec := *nodePort.DeepCopy()
		spec.ClusterIP, spec.Ports[0].NodePort = service.Spec.ClusterIP, service.Spec.Ports[0].NodePort
		replacing[service.Name] = create(service.Name, spec).UID
	}

	ctx, cancel := context.WithTimeout(t.Context(), handOutTimeout)
	defer cancel()
	var repairs sync.WaitGroup
	repairs.Go(func() { repairOften(ctx, t, etcd.Client(), version, updatesCIDR, latePorts, shortTimeout) })
	const otherPorts, otherAddresses = lateValues - lateEach, updatesAddresses - 2*lateEach - (lateValues - lateEach)
	created := createOthers(ctx, t, services, "other", nodePort, otherPorts)
	created += createOthers(ctx, t, services, "another", clusterIP, otherAddresses)
	cancel()
	repairs.Wait()
	held := proxy.Held()
	proxy.Deliver(deliveryGap)
	answers.Wait()
	time.Sleep(settleTime)

	written := 0
	for _, service := range changed {
		if now := must(services.Get(t.Context(), service.Name, metav1.GetOptions{})); now.Spec.Type != service.Spec.Type {
			written++
		}
	}
	for name, uid := range replacing {
		if now, err := services.Get(t.Context(), name, metav1.GetOptions{}); isRangekeeper && (err != nil || now.UID != uid) {
			t.Errorf("%s was created again before its late deletion arrived, and is now %v: %v", name, now, err)
		}
	}
	t.Logf("%d bytes held back; %d of %d others have values; %d of %d late updates were written; %v",
		held, created, otherPorts+otherAddresses, written, len(changed), readHistory(t, etcd.Client(), 1))
	if created < otherPorts+otherAddresses {
		t.Errorf("only %d of %d values were handed out", created, otherPorts+otherAddresses)
	}
	if isRangekeeper {
		checkHistory(t, etcd.Client())
	}
}
