package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// TestIPAddressRemoved deletes the IPAddress object of one Service, and replaces that of another by an object without
// the allocator's labels. The server must recreate both before its next repair pass: until then the addresses can be
// allocated again.
func TestIPAddressRemoved(t *testing.T) {
	// repairWithin is less than the interval of repair passes, 3 minutes.
	const repairWithin = time.Minute
	etcd, servers := startServers(t, apiservertest.Newest, 1)
	client := newWorkload(0, servers...).servers[0]
	ctx := t.Context()
	create := func(name string) *corev1.Service {
		spec := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
		return must(client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}))
	}
	removed, replaced := create("removed"), create("replaced")
	addresses := client.NetworkingV1().IPAddresses()
	remove := func(service *corev1.Service) {
		if err := addresses.Delete(ctx, service.Spec.ClusterIP, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	remove(removed)
	parent := networkingv1.ParentReference{Resource: "services", Namespace: removed.Namespace, Name: removed.Name}
	byHand := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: replaced.Spec.ClusterIP}, Spec: networkingv1.IPAddressSpec{ParentRef: &parent}}
	for {
		remove(replaced)
		_, err := addresses.Create(ctx, byHand, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsAlreadyExists(err) { // the server has recreated it
			t.Fatal(err)
		}
	}

	for _, service := range []*corev1.Service{removed, replaced} {
		isRepaired := func() bool {
			address, err := addresses.Get(ctx, service.Spec.ClusterIP, metav1.GetOptions{})
			return err == nil && address.Spec.ParentRef.Name == service.Name && address.Labels[networkingv1.LabelManagedBy] != ""
		}
		for end := time.Now().Add(repairWithin); !isRepaired(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("address %s of %s has no IPAddress object after %v", service.Spec.ClusterIP, service.Name, repairWithin)
			}
		}
	}
	checkAudit(t, etcd)
}
