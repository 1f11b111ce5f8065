package cli

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestFaultyObjectsOnAServer has a stock server meet objects that its API refuses. It does to them what the findings
// say: the object of a ClusterIP in another text is removed, and one with another name is not found.
func TestFaultyObjectsOnAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true})
	client := clientOf(t, server)
	wait := func(what string, condition func() bool) {
		t.Helper()
		eventually(t, func() error {
			if !condition() {
				return errors.New(what)
			}
			return nil
		})
	}
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := etcd.Client().Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	object := func(name, managedBy string) {
		t.Helper()
		raw, err := (&networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: long, Labels: map[string]string{
				networkingv1.LabelManagedBy: managedBy, networkingv1.LabelIPAddressFamily: "IPv4",
			}},
			Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "gone"}},
		}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		put("/registry/ipaddresses/"+name, inEnvelopeOf(t, "networking.k8s.io/v1", "IPAddress", raw))
	}
	found := func() (all []string) {
		for _, f := range runJSON[audit.Report](t, exitFound, "audit", "--endpoints", etcd.Endpoints()[0]).Findings {
			all = append(all, f.Reason+" "+f.Value)
		}
		return all
	}
	exists := func(name string) bool {
		got, err := etcd.Client().Get(t.Context(), "/registry/ipaddresses/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return got.Count > 0
	}
	awaitLoops(t, client)
	odd, err := (&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "odd", UID: "odd", CreationTimestamp: long},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "010.96.0.50", ClusterIPs: []string{"010.96.0.50"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	put("/registry/services/specs/default/odd", inEnvelopeOf(t, "v1", "Service", odd))
	wait("odd gets no object", func() bool { return exists("10.96.0.50") })
	object("010.96.0.60", "ipallocator.k8s.io")
	object("010.96.0.61", "someone")
	wait("the object of odd stays", func() bool { return !exists("10.96.0.50") })
	wait("the allocator's object stays", func() bool { return !exists("010.96.0.60") })
	want := []string{"ClusterIPNotAllocated 10.96.0.50", "ClusterIPNotCanonical 010.96.0.50", "IPAddressNotCanonical 010.96.0.61"}
	if all := found(); !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
	// Until the next look at the Service, three minutes later, the address is free for others.
	_, err = client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.50", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Error("the address is not handed out a second time:", err)
	}
}
