package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestValuesThatServicesLack has Services in etcd without values that they need. Audits over etcd and the API find
// them, and a stock server does to each of them what the runbook says.
func TestValuesThatServicesLack(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceClusterIPRange: "10.96.0.0/16,fd00:96::/112",
	})
	client := clientOf(t, server)
	awaitLoops(t, client)
	const one = `"clusterIP":"10.96.5.%d","clusterIPs":["10.96.5.%[1]d"],`
	const port, reached = `"ports":[{"port":80,"protocol":"TCP"}]`, `"ports":[{"port":80,"protocol":"TCP","nodePort":3077%d}]`
	address := func(n int) string { return fmt.Sprintf(one, n) }
	services := map[string]string{
		"none":     `"type":"ClusterIP",` + port,
		"headless": `"type":"ClusterIP","clusterIP":"None","clusterIPs":["None"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"RequireDualStack",` + port,
		"name":     `"type":"ExternalName","externalName":"a.example.com"`,
		"dual":     address(1) + `"type":"ClusterIP","ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack",` + port,
		"family":   address(2) + `"type":"ClusterIP","ipFamilies":["IPv4"],"ipFamilyPolicy":"RequireDualStack",` + port,
		"node":     address(3) + `"type":"NodePort","externalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",` + port,
		"balancer": address(4) + `"type":"LoadBalancer","externalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",` + port,
		"without": address(5) + `"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"externalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],
			"ipFamilyPolicy":"SingleStack",` + port,
		"local":  address(6) + `"type":"LoadBalancer","externalTrafficPolicy":"Local","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",` + fmt.Sprintf(reached, 1),
		"local2": address(7) + `"type":"NodePort","externalTrafficPolicy":"Local","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",` + fmt.Sprintf(reached, 2),
	}
	for name, spec := range services {
		value := `{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"default","name":"` + name + `","uid":"` + name + `","creationTimestamp":"2026-01-02T03:04:05Z"},` +
			`"spec":{"sessionAffinity":"None",` + spec + `}}`
		if _, err := etcd.Client().Put(t.Context(), "/registry/services/specs/default/"+name, value); err != nil {
			t.Fatal(err)
		}
	}
	lacking := func(from ...string) (all []string) {
		t.Helper()
		_, stdout, stderr := run(t, append([]string{"audit", "-o", "json"}, from...)...)
		var r audit.Report
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Findings {
			if strings.HasSuffix(f.Reason, "Missing") && f.Kind == audit.KindService && f.Name != "kubernetes" {
				if f.Severity != audit.BreaksTraffic || stderr != "" {
					t.Errorf("%+v %s", f, stderr)
				}
				all = append(all, f.Name+" "+f.Reason+" "+f.Value)
			}
		}
		slices.Sort(all)
		return all
	}
	from := []string{"--endpoints", etcd.Endpoints()[0]}
	want := []string{
		"balancer NodePortMissing spec.ports[].nodePort", "dual ClusterIPMissing spec.clusterIPs", "family ClusterIPMissing spec.clusterIPs",
		"local HealthCheckNodePortMissing spec.healthCheckNodePort", "node NodePortMissing spec.ports[].nodePort", "none ClusterIPMissing spec.clusterIP",
	}
	if all := lacking(from...); !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
	if all := lacking("--kubeconfig", server.Kubeconfig(apiservertest.Admin)); !slices.Equal(all, want) {
		t.Errorf("over the API: %q", all)
	}
	if code, stdout, _ := run(t, append([]string{"explain", "default/none"}, from...)...); code != exitFound || !strings.Contains(stdout, "ClusterIPMissing") {
		t.Errorf("explain: exit code %d, %s", code, stdout)
	}
	patch := func(name, body string) error {
		_, err := client.CoreV1().Services(metav1.NamespaceDefault).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	// Any update gives node ports, and the second address where the families do not name it.
	for name := range services {
		if err := patch(name, `{"metadata":{"labels":{"a":"b"}}}`); (err != nil) != (name == "local") {
			t.Errorf("an update of %s: %v", name, err)
		}
	}
	left := []string{"dual ClusterIPMissing spec.clusterIPs", "local HealthCheckNodePortMissing spec.healthCheckNodePort", "none ClusterIPMissing spec.clusterIP"}
	if all := lacking(from...); !slices.Equal(all, left) {
		t.Errorf("after an update: %q", all)
	}
	for _, one := range []struct{ name, body string }{
		{"none", `{"spec":{"clusterIP":"10.96.7.7","clusterIPs":["10.96.7.7"]}}`}, {"dual", `{"spec":{"clusterIPs":["10.96.5.1","fd00:96::77"]}}`},
		{"local", `{"spec":{"externalTrafficPolicy":"Cluster"}}`}, {"local", `{"spec":{"externalTrafficPolicy":"Local"}}`},
	} {
		if err := patch(one.name, one.body); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
	}
	if all := lacking(from...); len(all) > 0 {
		t.Errorf("after the remedies: %q", all)
	}
	if s, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "without", metav1.GetOptions{}); err != nil || s.Spec.Ports[0].NodePort != 0 || s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Errorf("%+v, %v", s, err)
	}
}
