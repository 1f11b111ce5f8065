package cli

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
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
		if code, stdout, stderr := run(t, args...); code != exitInput || !strings.Contains(stderr, "keep Services in another etcd") || !strings.Contains(stderr, "--endpoints of that etcd") {
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
	checkServicesAlone(t, ofServices.Endpoints()[0])
	checkOverAPI(t, server, etcd, ofServices)
	checkBothEtcds(t, etcd, ofServices, address)
}

// checkOverAPI reads the cluster over the Kubernetes API, while the revisions of one etcd are behind those of the other
// one, and while they are ahead.
func checkOverAPI(t *testing.T, server *apiservertest.Server, etcd, ofServices *embedded.Etcd) {
	t.Helper()
	for _, ahead := range []*embedded.Etcd{etcd, ofServices} {
		etcdtest.Fill(t, ahead.Client(), etcdtest.Revision(t, etcd.Client())+etcdtest.Revision(t, ofServices.Client())+1000)
		r := runJSON[audit.Report](t, exitOK, "audit", "--kubeconfig", server.Kubeconfig(apiservertest.Admin))
		if len(r.Findings)+len(r.Leaks) > 0 || r.Summary.Services != 2 || r.Ranges[0].Used.N != 2 {
			t.Errorf("%+v", r)
		}
	}
}

// checkServicesAlone reads the etcd of the Services alone: node ports are judged, and the rest is unknown.
func checkServicesAlone(t *testing.T, endpoint string) {
	t.Helper()
	r := runJSON[audit.Report](t, exitOK, "audit", "--endpoints", endpoint)
	isThere := func(u audit.Unknown) bool { return strings.HasSuffix(u.Message, audit.ServicesAlone) }
	if len(r.Findings)+len(r.Leaks) > 0 || !slices.ContainsFunc(r.Unknown, isThere) || !slices.ContainsFunc(r.Ranges, func(one audit.Range) bool { return one.Name == "servicenodeports" && one.Mode == audit.ModeBitmap }) {
		t.Errorf("Services alone: %+v", r)
	}
	if code, stdout, stderr := run(t, "repair", "--apply", "--endpoints", endpoint); code != exitOK {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// checkBothEtcds reads both parts of the cluster, as the server wrote it and with faults that no server made.
func checkBothEtcds(t *testing.T, etcd, ofServices *embedded.Etcd, address string) {
	t.Helper()
	both := func(args ...string) []string {
		return append(args, "--endpoints", etcd.Endpoints()[0], "--services-endpoints", ofServices.Endpoints()[0])
	}
	if code, stdout, stderr := run(t, both("audit", "--strict")...); code != exitOK || !strings.Contains(stdout, ofServices.Endpoints()[0]) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	r := runJSON[audit.Report](t, exitOK, both("audit")...)
	if r.Summary.Services != 2 || len(r.Unknown) > 0 || len(r.Ranges) != 2 || r.Source.Services == nil || r.Source.Services.Name != ofServices.Endpoints()[0] ||
		r.Source.Services.Revision != etcdtest.Revision(t, ofServices.Client()) {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"explain", address}, {"explain", "default/web"}, {"free", "kubernetes"}, {"show", "kubernetes"}, {"preflight", "--to", "1.37"}} {
		code, stdout, stderr := run(t, both(args...)...)
		if code != exitOK || strings.Contains(stdout, "leak") && args[0] == "explain" || args[0] == "explain" && !strings.Contains(stdout, "default/web") {
			t.Errorf("%q: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
	// A node port that nobody uses, and an address that nothing records.
	if code, _, stderr := run(t, "allocate", "servicenodeports", "31999", "--endpoints", ofServices.Endpoints()[0]); code != exitOK {
		t.Error(stderr)
	}
	key := "/registry/ipaddresses/" + address
	object, err := etcd.Client().Get(t.Context(), key)
	if err != nil || len(object.Kvs) != 1 {
		t.Fatal(object, err)
	}
	if _, err := etcd.Client().Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	r = runJSON[audit.Report](t, exitFound, both("audit")...)
	if len(r.Findings) != 1 || r.Findings[0].Reason != "ClusterIPNotAllocated" || r.Findings[0].Value != address || len(r.Leaks) != 1 || r.Leaks[0].Value != "31999" {
		t.Errorf("%+v, %+v", r.Findings, r.Leaks)
	}
	// The step that follows is one for the etcd with the ranges.
	_, shown, _ := run(t, both("audit")...)
	if words := strings.Join(strings.Fields(strings.ReplaceAll(shown, "\\\n", " ")), " "); !strings.Contains(words, "rangekeeper repair --endpoints "+ofServices.Endpoints()[0]) || strings.Contains(words, "repair --services-endpoints") {
		t.Error(shown)
	}
	p := runJSON[preflight.Report](t, exitOK, both("preflight", "--to", "1.37")...)
	want := "rangekeeper repair --apply --clean-leaks --endpoints " + ofServices.Endpoints()[0]
	if !slices.ContainsFunc(p.Checks, func(c preflight.Check) bool { return c.Name == runbook.Leak && c.Command == want }) {
		t.Errorf("no check has the command %s: %+v", want, p.Checks)
	}
	if _, err := etcd.Client().Put(t.Context(), key, string(object.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "release", "servicenodeports", "31999", "--endpoints", ofServices.Endpoints()[0]); code != exitOK {
		t.Error(stderr)
	}
	if code, stdout, stderr := run(t, both("audit", "--strict")...); code != exitOK {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	// Wrong pairs.
	other := etcdtest.Start(t, etcdtest.Fixture("kube-1.37-dual-stack", "clean.db.gz"))
	for endpoint, want := range map[string]string{etcd.Endpoints()[0]: "is the same one", other.Endpoints()[0]: "that of another cluster"} {
		if code, stdout, stderr := run(t, "audit", "--endpoints", etcd.Endpoints()[0], "--services-endpoints", endpoint); code != exitInput || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
	}
}
