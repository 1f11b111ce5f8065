package e2e

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestReadHistory writes what a faulty server would write, and expects each fault once.
func TestReadHistory(t *testing.T) {
	const (
		services = "/registry/services/specs/default/"
		objects  = "/registry/ipaddresses/"
		nodePort = 30001
	)
	etcd := etcdtest.Start(t, "").Client()
	put := func(key string, object runtime.Object) {
		t.Helper()
		if _, err := etcd.Put(t.Context(), key, string(must(json.Marshal(object)))); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(key string) {
		t.Helper()
		if _, err := etcd.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	putRange := func(bits ...byte) {
		put("/registry/ranges/servicenodeports", &corev1.RangeAllocation{
			TypeMeta: metav1.TypeMeta{Kind: "RangeAllocation", APIVersion: "v1"}, Range: "30000-30015", Data: bits,
		})
	}
	putObject := func(address, service string) {
		put(objects+address, &networkingv1.IPAddress{
			TypeMeta: metav1.TypeMeta{Kind: "IPAddress", APIVersion: "networking.k8s.io/v1"},
			Spec:     networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: service}},
		})
	}
	putService := func(name, address string, ports ...corev1.ServicePort) {
		put(services+name, &corev1.Service{
			TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, Spec: corev1.ServiceSpec{ClusterIP: address, Ports: ports},
		})
	}
	port := corev1.ServicePort{NodePort: nodePort}
	expect := func(when string, duplicates, noBit, noObject, shared, unrecorded int) {
		t.Helper()
		h := readHistory(t, etcd, 1)
		if len(h.duplicates) != duplicates || len(h.noBit) != noBit || len(h.noObject) != noObject || len(h.shared) != shared || len(h.unrecorded) != unrecorded {
			t.Errorf("%s: %v\n%q\n%q\n%q", when, h, h.duplicates, h.noBit, h.noObject)
		}
	}

	putRange(0b10)
	putObject("10.96.0.1", "kubernetes")
	putObject("10.96.0.2", "a")
	putService("kubernetes", "10.96.0.1")
	putService("a", "10.96.0.2", port)
	expect("sound", 0, 0, 0, 0, 0)

	putService("b", "10.96.0.2", port)
	expect("two owners", 2, 0, 0, 2, 0)
	putService("b", "10.96.0.2", port) // is the same fault
	remove(services + "a")
	expect("the first owner is deleted", 2, 0, 1, 0, 1)
	put(objects+"10.96.0.2", &networkingv1beta1.IPAddress{ // as 1.33 stores it
		TypeMeta: metav1.TypeMeta{Kind: "IPAddress", APIVersion: "networking.k8s.io/v1beta1"},
		Spec:     networkingv1beta1.IPAddressSpec{ParentRef: &networkingv1beta1.ParentReference{Resource: "services", Namespace: "default", Name: "b"}},
	})
	expect("the object refers to the second one", 2, 0, 1, 0, 0)
	remove(objects + "10.96.0.2")
	expect("the object is deleted", 2, 0, 2, 0, 1)
	putObject("10.96.0.2", "b")

	putRange(0b01)
	expect("the bit is cleared", 2, 1, 2, 0, 1)
	putRange(0b11)
	expect("the bit is set again", 2, 1, 2, 0, 0)
	remove("/registry/ranges/servicenodeports")
	expect("the range is deleted", 2, 2, 2, 0, 1)
	remove(services + "b")
	expect("the owner is deleted", 2, 2, 2, 0, 0)
}
