package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestNodePortsOnAServer has a stock server do with node ports what the runbook says: it records a port once for all
// protocols, frees it with the first Service that goes, and lets a port outside of its range be changed in place.
func TestNodePortsOnAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true})
	client := clientOf(t, server)
	services, ctx := client.CoreV1().Services(metav1.NamespaceDefault), t.Context()
	create := func(name string, protocol corev1.Protocol, port int32) error {
		_, err := services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port, Protocol: protocol}},
		}}, metav1.CreateOptions{})
		return err
	}
	found := func(value string) (all []string) {
		for _, f := range runJSON[audit.Report](t, exitFound, "audit", "--endpoints", etcd.Endpoints()[0]).Findings {
			if f.Value == value {
				all = append(all, f.Reason)
			}
		}
		return all
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error { return create("tcp", corev1.ProtocolTCP, 30001) }) // the server's repair has initialised the range
	if err := create("udp", corev1.ProtocolUDP, 30001); err == nil || !strings.Contains(err.Error(), "provided port is already allocated") {
		t.Error("another protocol:", err)
	}
	must(toggle(ctx, etcd.Client(), nodePortsKey, 30001))
	must(create("udp", corev1.ProtocolUDP, 30001))
	if got := found("30001"); !slices.Equal(got, []string{"PortAlreadyAllocated"}) {
		t.Errorf("%q", got)
	}
	_, shown, _ := run(t, "audit", "--endpoints", etcd.Endpoints()[0])
	if words := strings.Join(strings.Fields(shown), " "); !strings.Contains(words, "explain PortAlreadyAllocated. Services whose protocols differ break no traffic") {
		t.Errorf("%s", shown)
	}
	must(services.Delete(ctx, "tcp", metav1.DeleteOptions{}))
	if got := found("30001"); !slices.Equal(got, []string{"PortNotAllocated"}) {
		t.Errorf("%q", got)
	}
	must(create("third", corev1.ProtocolUDP, 30001))

	// A Service with a port outside of the range, as after a change of --service-node-port-range.
	outside, err := json.Marshal(&corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "outside", UID: "outside", CreationTimestamp: metav1.Now()},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.77", ClusterIPs: []string{"10.96.0.77"},
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 29999, Protocol: corev1.ProtocolTCP}},
		},
	})
	must(err)
	_, err = etcd.Client().Put(ctx, "/registry/services/specs/default/outside", string(outside))
	must(err)
	if got := found("29999"); !slices.Equal(got, []string{"PortOutOfRange"}) {
		t.Errorf("%q", got)
	}
	_, shown, _ = run(t, "explain", "default/outside", "--endpoints", etcd.Endpoints()[0])
	words := strings.Join(strings.Fields(shown), " ")
	_, words, _ = strings.Cut(words, "Value: 29999 ")
	for _, want := range []string{"must change it Services:", "; change it in the Service (a healthCheckNodePort needs a new Service) Risk:", "remove or change spec.ports[].nodePort (or spec.healthCheckNodePort, which needs a new Service)"} {
		if !strings.Contains(words, want) || strings.Contains(words, "recreate") {
			t.Errorf("%q is missing, or the Service must be recreated:\n%s", want, shown)
		}
	}
	service, err := services.Get(ctx, "outside", metav1.GetOptions{})
	must(err)
	service.Spec.Ports[0].NodePort = 30003
	service, err = services.Update(ctx, service, metav1.UpdateOptions{})
	must(err)
	if got := service.Spec.Ports[0].NodePort; got != 30003 {
		t.Errorf("node port %d", got)
	}
}
