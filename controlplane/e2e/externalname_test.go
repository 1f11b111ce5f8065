package e2e

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// testExternalNameWithNodePort creates ExternalName Services with the node port of another Service, which
// kube-apiserver accepts. They must neither allocate nor release the port.
func testExternalNameWithNodePort(t *testing.T, etcd *clientv3.Client, servers []*apiservertest.Server) {
	const port = 30010
	services := newWorkload(0, servers...).servers[0].CoreV1().Services(metav1.NamespaceDefault)
	create := func(name string, serviceType corev1.ServiceType) (*corev1.Service, error) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: serviceType, Ports: ports("TCP")}}
		s.Spec.Ports[0].NodePort = port
		if serviceType == corev1.ServiceTypeExternalName {
			s.Spec.ExternalName = "example.com"
		}
		return services.Create(t.Context(), s, metav1.CreateOptions{})
	}
	toNodePort := func(s *corev1.Service) error {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeNodePort, ""
		_, err := services.Update(t.Context(), s, metav1.UpdateOptions{})
		return err
	}
	mustRemove := func(name string) {
		t.Helper()
		if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	must(create("owner", corev1.ServiceTypeNodePort))

	must(create("deleted", corev1.ServiceTypeExternalName))
	mustRemove("deleted")
	if _, err := create("thief", corev1.ServiceTypeNodePort); !apierrors.IsInvalid(err) {
		t.Errorf("the deletion of an ExternalName Service released the port of another Service: %v", err)
	}

	changed := must(create("changed", corev1.ServiceTypeExternalName))
	if err := toNodePort(changed); !apierrors.IsInvalid(err) {
		t.Errorf("an ExternalName Service became a NodePort Service with the port of another Service: %v", err)
	}
	mustRemove("changed")

	// Once the port is free, such a Service can allocate it.
	mustRemove("owner")
	if err := toNodePort(must(create("next", corev1.ServiceTypeExternalName))); err != nil {
		t.Error(err)
	}
	if _, err := create("thief", corev1.ServiceTypeNodePort); !apierrors.IsInvalid(err) {
		t.Errorf("a NodePort Service that was an ExternalName Service did not allocate its port: %v", err)
	}
	mustRemove("next")
	checkAudit(t, etcd)
	if _, err := create("last", corev1.ServiceTypeNodePort); err != nil {
		t.Error(err)
	}
}
