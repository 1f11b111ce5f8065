package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// TestWrongServiceCIDROnAServer gives a cluster a ServiceCIDR kubernetes in which no Service is. Audit and preflight do
// not take it for the truth, and their remedy ends the findings on a stock server without a change of a Service.
func TestWrongServiceCIDROnAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	const flag = "172.30.0.0/16"
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceClusterIPRange: flag})
	client := clientOf(t, server)
	awaitLoops(t, client)
	for i := range 20 {
		_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i)}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	const key = "/registry/servicecidrs/kubernetes"
	wrong := `{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{"name":"kubernetes","uid":"00000000-0000-4000-8000-000000000002"},"spec":{"cidrs":["10.0.0.0/24"]}}`
	if _, err := etcd.Client().Put(t.Context(), key, wrong); err != nil {
		t.Fatal(err)
	}
	from := []string{"--endpoints", etcd.Endpoints()[0]}
	r := runJSON[audit.Report](t, exitFound, append([]string{"audit"}, from...)...)
	outside := 0
	for _, f := range r.Findings {
		if f.Reason == "ClusterIPOutOfRange" && strings.Contains(f.Message, "neither are 21 of all 21 in the cluster") && !strings.Contains(f.Message, "recreate") {
			outside++
		}
		if f.Reason == "KubernetesServiceNotFirst" {
			t.Errorf("%s", f.Message)
		}
	}
	if outside != 21 {
		t.Errorf("%d addresses outside: %+v", outside, r.Findings)
	}
	p := runJSON[preflight.Report](t, exitFound, append([]string{"preflight", "--to", "1.37", "--service-cluster-ip-range", flag}, from...)...)
	at := slices.IndexFunc(p.Checks, func(c preflight.Check) bool { return c.Name == "ServiceCIDR" })
	if c := p.Checks[at]; c.Command != "kubectl delete servicecidr kubernetes" || !strings.Contains(c.Message, "Of 21 ClusterIPs of Services 21 are in the former and 0 in the latter") {
		t.Errorf("%+v", c)
	}
	for _, c := range p.Checks {
		if text := c.Message + c.Remedy; strings.Contains(text, "=10.0.0.0/24") || strings.Contains(text, "Delete and recreate") || strings.Contains(text, "delete service ") {
			t.Errorf("%+v", c)
		}
	}
	if err := client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		object, err := client.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err == nil && !slices.Equal(object.Spec.CIDRs, []string{flag}) {
			err = errors.New("the server has not created the ServiceCIDR again")
		}
		return err
	})
	server.Restart() // it repairs IPAddress objects at its start, and every three minutes
	eventually(t, func() error {
		if code, stdout, stderr := run(t, append([]string{"audit"}, from...)...); code != exitOK {
			return errors.New(stdout + stderr)
		}
		return nil
	})
}
