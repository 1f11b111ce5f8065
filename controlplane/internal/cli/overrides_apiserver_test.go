package cli

import (
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

// TestServicesInAnotherEtcd reads the etcd in which a stock server with --etcd-servers-overrides has IPAddress objects
// and ServiceCIDRs, and not the Services. What these use is unknown: nothing is found, and nothing is repaired.
func TestServicesInAnotherEtcd(t *testing.T) {
	etcd, ofServices := etcdtest.Start(t, ""), etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true,
		Flags: []string{"--etcd-servers-overrides=/services#" + ofServices.Endpoints()[0], "--endpoint-reconciler-type=lease"},
	})
	client := clientOf(t, server)
	awaitLoops(t, client)
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := service.Spec.ClusterIP
	before := etcdtest.Revision(t, etcd.Client())

	// At rest no object can wait for its Service any more.
	running, snapshot := []string{"--endpoints", etcd.Endpoints()[0]}, []string{"--etcd-snapshot", etcdtest.Save(t, etcd.Client())}
	for _, source := range [][]string{running, snapshot} {
		at := func(args ...string) []string { return append(args, source...) }
		r := runJSON[audit.Report](t, exitOK, at("audit")...)
		if len(r.Findings)+len(r.Leaks) > 0 {
			t.Errorf("findings %+v, leaks %+v", r.Findings, r.Leaks)
		}
		for _, name := range []string{"kubernetes", "servicenodeports"} {
			if !slices.ContainsFunc(r.Unknown, func(u audit.Unknown) bool {
				return u.Range == name && strings.Contains(u.Message, audit.ServicesElsewhere)
			}) {
				t.Errorf("%s: %+v", name, r.Unknown)
			}
		}
		if code, stdout, stderr := run(t, at("audit", "--strict")...); code != exitUnseen || !strings.Contains(stdout, "--etcd-servers-overrides") {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		_, shown, _ := run(t, at("explain", address)...)
		if strings.Contains(shown, "removes") || strings.Contains(shown, "leak") || !strings.Contains(strings.Join(strings.Fields(shown), " "), "keeps them in another etcd") {
			t.Error(shown)
		}
		// An address that is recorded is not free.
		if len(r.Ranges) != 1 || r.Ranges[0].Used.N != 2 || r.Ranges[0].Free.N != r.Ranges[0].Size.N-2 {
			t.Errorf("%+v", r.Ranges)
		}
		p := runJSON[preflight.Report](t, exitOK, at("preflight", "--to", "1.37")...)
		for _, name := range []string{"Findings", "Leaks", "FirstRepair", "kubernetes", "servicenodeports", "API servers"} {
			if !slices.ContainsFunc(p.Checks, func(c preflight.Check) bool {
				return c.Name == name && c.Level == preflight.Unknown && strings.Contains(c.Remedy, "over the Kubernetes API")
			}) {
				t.Errorf("%s: %+v", name, p.Checks)
			}
		}
	}
	for _, args := range [][]string{
		append([]string{"repair"}, running...), append([]string{"repair", "--apply"}, running...), append([]string{"repair", "--apply", "--clean-leaks"}, running...),
		append([]string{"repair", "--plan-to", t.TempDir() + "/plan.json"}, running...), append([]string{"repair", "--to-file", t.TempDir() + "/repaired.db"}, snapshot...),
	} {
		if code, stdout, stderr := run(t, args...); code != exitInput || !strings.Contains(stderr, "keep Services in another etcd") {
			t.Errorf("%v: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
	if _, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	answer, err := etcd.Client().Get(t.Context(), "/registry/ipaddresses/"+address)
	if err != nil || len(answer.Kvs) != 1 || answer.Kvs[0].ModRevision > before {
		t.Errorf("%v, %v", answer, err)
	}
}
