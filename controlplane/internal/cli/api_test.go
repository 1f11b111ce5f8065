package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// reportOf returns the JSON report of an audit that finds something.
func reportOf(t *testing.T, source ...string) *audit.Report {
	t.Helper()
	code, stdout, stderr := run(t, append([]string{"audit", "-o", "json"}, source...)...)
	if code != exitFound {
		t.Fatalf("%v: exit code %d, %s", source, code, stderr)
	}
	report := new(audit.Report)
	if err := json.Unmarshal([]byte(stdout), report); err != nil {
		t.Fatal(err)
	}
	return report
}

// undecided returns findings without what only etcd knows: which of the Services that were created in one second keeps
// their value.
func undecided(findings []audit.Finding) []audit.Finding {
	all := slices.Clone(findings)
	for i := range all {
		f := &all[i]
		if len(f.Claimants) == 0 {
			continue
		}
		f.Namespace, f.Name, f.Claimants = "", "", slices.Clone(f.Claimants)
		for j := range f.Claimants {
			f.Claimants[j].Keeps, f.Claimants[j].Tied = false, false
		}
		slices.SortFunc(f.Claimants, func(a, b audit.Claimant) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	return all
}

// TestAuditOverAPI compares an audit over the Kubernetes API with one of the same etcd: of the damaged cluster of each
// release, whose server does not repair it.
func TestAuditOverAPI(t *testing.T) {
	for _, cluster := range etcdtest.FixtureClusters {
		t.Run(cluster.Name, func(t *testing.T) {
			etcd := etcdtest.Start(t, etcdtest.Fixture(cluster.Name, "drift.db.gz"))
			server := apiservertest.Start(t, apiservertest.Config{
				Version: apiservertest.Version(cluster.Release), Etcd: etcd.Endpoints(), ServiceClusterIPRange: cluster.ClusterIPRange,
			})
			kubeconfig := server.Kubeconfig(apiservertest.Admin)
			want := reportOf(t, "--endpoints", strings.Join(etcd.Endpoints(), ","))
			source := []string{"--kubeconfig", kubeconfig, "--service-node-port-range", apiservertest.DefaultServiceNodePortRange}
			inBitmaps := []string{clusterstate.ServiceNodePorts}
			if cluster.Name == etcdtest.DualStack {
				source = append(source, "--service-cluster-ip-range", cluster.ClusterIPRange)
				inBitmaps = append(inBitmaps, clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs)
			}
			// Only etcd knows what the bitmaps record.
			recorded := len(want.Findings)
			want.Findings = slices.DeleteFunc(want.Findings, func(f audit.Finding) bool {
				return f.Reason == "BitmapDisagrees" || slices.Contains(inBitmaps, f.Range) && (f.Reason == "PortNotAllocated" || f.Reason == "ClusterIPNotAllocated")
			})
			want.Leaks = slices.DeleteFunc(want.Leaks, func(l audit.Leak) bool { return slices.Contains(inBitmaps, l.Range) })
			if recorded == len(want.Findings) {
				t.Error("the fixture has no value that is not recorded")
			}
			got := reportOf(t, source...)
			if !equalJSON(t, undecided(got.Findings), undecided(want.Findings)) || !equalJSON(t, got.Leaks, want.Leaks) {
				t.Errorf("over the API %v and %v, from etcd %v and %v", got.Findings, got.Leaks, want.Findings, want.Leaks)
			}
			if got.Summary.Services != want.Summary.Services || len(got.Unknown) == 0 {
				t.Errorf("%+v, unknown %q", got.Summary, got.Unknown)
			}
			// A server of 1.33 writes bitmaps, too, and they are not served.
			isUnseen := func(u audit.Unknown) bool {
				return u.Range == "kubernetes" && strings.Contains(u.Message, "BitmapDisagrees")
			}
			if dual := cluster.Name == etcdtest.DualWrite; slices.ContainsFunc(got.Unknown, isUnseen) != dual {
				t.Errorf("unknown: %q", got.Unknown)
			} else if dual {
				explained := runJSON[audit.Explanations](t, exitOK, append([]string{"explain", "10.96.77.77"}, source...)...)
				free := runJSON[audit.FreeList](t, exitOK, append([]string{"free", "kubernetes"}, source...)...)
				if !slices.ContainsFunc(explained.Values[0].Unknown, isUnseen) || !slices.ContainsFunc(free.Unknown, isUnseen) {
					t.Errorf("explain: %+v, free: %q", explained.Values[0], free.Unknown)
				}
			}
			// Without the ranges all is found that can be known without them.
			outside := func(f audit.Finding) bool { return strings.HasSuffix(f.Reason, "OutOfRange") }
			if cluster.Name != etcdtest.DualStack {
				outside = func(f audit.Finding) bool { return f.Reason == "PortOutOfRange" }
			}
			var values []string
			for _, f := range undecided(slices.DeleteFunc(want.Findings, outside)) {
				values = append(values, f.Reason+" "+f.Value+" "+f.Name)
			}
			bare := reportOf(t, "--kubeconfig", kubeconfig)
			if code, _, stderr := run(t, "free", "servicenodeports", "--kubeconfig", kubeconfig); code != exitInput || !strings.Contains(stderr, "the range of node ports is not known") {
				t.Errorf("free without ranges: exit code %d, %s", code, stderr)
			}
			if cluster.Name == etcdtest.DualStack {
				if code, stdout, stderr := run(t, "explain", "10.96.0.1", "--kubeconfig", kubeconfig); code != exitOK || strings.Contains(stdout, "recreate") ||
					!strings.Contains(stdout, "--service-cluster-ip-range") {
					t.Errorf("explain without ranges: exit code %d, %s%s", code, stdout, stderr)
				}
			}
			var found []string
			for _, f := range undecided(bare.Findings) {
				found = append(found, f.Reason+" "+f.Value+" "+f.Name)
			}
			slices.Sort(values)
			slices.Sort(found)
			if !slices.Equal(found, values) {
				t.Errorf("without ranges %q, want %q", found, values)
			}
		})
	}
}

// TestBetaObjects audits a server that serves ServiceCIDR and IPAddress objects in v1beta1 only.
func TestBetaObjects(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.V1_32, Etcd: etcd.Endpoints(), OwnLoops: true,
		Flags: []string{"--feature-gates=MultiCIDRServiceAllocator=true", "--runtime-config=networking.k8s.io/v1beta1=true"},
	})
	config := server.Kubeconfig(apiservertest.Admin)
	eventually(t, func() error { // its loops create the Service kubernetes
		code, stdout, stderr := run(t, "show", "kubernetes", "--kubeconfig", config)
		if code != exitOK || !strings.Contains(stdout, "10.96.0.1 ") || !strings.Contains(stdout, "ipaddress") {
			return fmt.Errorf("exit code %d, %q, %s", code, stdout, stderr)
		}
		return nil
	})
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	var texts []string
	for _, v := range []any{a, b} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts[0] == texts[1]
}

// bindAuditRole grants the rights of deploy/audit to a user.
func bindAuditRole(t *testing.T, admin kubernetes.Interface, user string) {
	t.Helper()
	bindRole(t, admin, user, "clusterrole.yaml")
}

// bindRole grants the rights of a file of deploy/audit to a user.
func bindRole(t *testing.T, admin kubernetes.Interface, user, file string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "release", "deploy", "audit", file))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(content, &role); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The server's authorizer learns of both by a watch.
	first := role.Rules[0]
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: first.Verbs[0], Group: first.APIGroups[0], Resource: first.Resources[0]},
	}}
	eventually(t, func() error {
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = fmt.Errorf("%s is not granted to %s", role.Name, user)
		}
		return err
	})
}

// TestAuditRole runs all commands as a user who has the rights of deploy/audit and no others.
func TestAuditRole(t *testing.T) {
	const auditor, stranger = "auditor", "stranger"
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true,
		Users: []apiservertest.User{{Name: auditor}, {Name: stranger}},
	})
	admin := clientOf(t, server)
	bindAuditRole(t, admin, auditor)
	awaitLoops(t, admin)
	kubeconfig := server.Kubeconfig(auditor)
	for _, command := range [][]string{
		{"audit"}, {"audit", "-A"}, {"audit", "-n", "default", "-o", "wide"}, {"show", "kubernetes"}, {"show", "servicenodeports"},
		{"explain", "10.96.0.1"}, {"explain", "30000"}, {"free", "kubernetes"}, {"free", "servicenodeports", "-o", "name", "--service-node-port-range", apiservertest.DefaultServiceNodePortRange},
	} {
		if code, stdout, stderr := run(t, append(command, "--kubeconfig", kubeconfig)...); code != exitOK || stdout == "" {
			t.Errorf("%v: exit code %d, %q, %s", command, code, stdout, stderr)
		}
	}
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	code, stdout, stderr := run(t, "audit", "--kubeconfig", kubeconfig, "--bundle", bundle)
	if about := unpack(t, bundle)["rangekeeper-bundle/about.json"]; code != exitOK || !strings.Contains(about, ` "kube-apiserver v`+string(apiservertest.Newest)+`"`) {
		t.Errorf("exit code %d, %s%s", code, stderr, about)
	}
	if !strings.HasPrefix(stdout, "Kubernetes API https://127.0.0.1:") || !strings.Contains(strings.ReplaceAll(stdout, "\n", " "), " (context test), revision ") {
		t.Errorf("the source is %.200s", stdout)
	}
	code, _, stderr = run(t, "audit", "--kubeconfig", server.Kubeconfig(stranger))
	if code != exitNone || !strings.Contains(stderr, `cannot list resource "services"`) || !strings.Contains(stderr, "deploy/audit") {
		t.Errorf("without the role: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := run(t, "audit", "--kubeconfig", server.Kubeconfig(apiservertest.Admin), "--as", stranger); code != exitNone ||
		!strings.Contains(stderr, `"stranger" cannot list`) {
		t.Errorf("--as: exit code %d, %s", code, stderr)
	}

	for _, flag := range []string{"--as", "--as-group"} { // the latter needs the former
		args := append([]string{"audit", "--kubeconfig", kubeconfig, flag, stranger}, map[bool][]string{true: {"--as", auditor}}[flag == "--as-group"]...)
		if code, _, stderr := run(t, args...); code != exitNone || !strings.Contains(stderr, "need the right to impersonate, which deploy/audit does not grant") ||
			strings.Contains(stderr, "ClusterRole with the rights") {
			t.Errorf("%s without the right: exit code %d, %s", flag, code, stderr)
		}
	}

	client, err := kubernetes.NewForConfig(server.RESTConfig(auditor))
	if err != nil {
		t.Fatal(err)
	}
	may := func(verb, group, resource string) bool {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
		}}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status.Allowed
	}
	resources := map[string]string{
		"services": "", "ipaddresses": "networking.k8s.io", "servicecidrs": "networking.k8s.io",
		"secrets": "", "pods": "", "configmaps": "", "namespaces": "", "*": "*",
	}
	for resource, group := range resources {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"} {
			read := verb == "get" || verb == "list"
			allowed := read && slices.Contains([]string{"services", "ipaddresses", "servicecidrs"}, resource)
			if may(verb, group, resource) != allowed {
				t.Errorf("%s %s: allowed is %t", verb, resource, !allowed)
			}
		}
	}
	err = client.CoreV1().Services("default").Delete(t.Context(), "kubernetes", metav1.DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("delete: %v", err)
	}
}

// TestNoAPI names clusters that cannot be reached.
func TestNoAPI(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"no kubeconfig at --kubeconfig, $KUBECONFIG or ~/.kube/config", exitInput, nil},
		{"no such file", exitInput, []string{"--kubeconfig", filepath.Join(dir, "none")}},
		{"the API server is not reachable", exitUnreachable, []string{"--server", "https://127.0.0.1:1"}},
	} {
		if code, _, stderr := run(t, append([]string{"audit"}, c.args...)...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, code, stderr)
		}
	}
}

// lookAgainSoon shortens the time between two looks at a port, as nobody creates Services meanwhile.
func lookAgainSoon(t *testing.T) {
	before, beforeStock := source.ProbeWait, source.StockProbeWait
	source.ProbeWait, source.StockProbeWait = time.Second, time.Second
	t.Cleanup(func() { source.ProbeWait, source.StockProbeWait = before, beforeStock })
}

// TestProbe finds the node port that is leaked, and not the one that is recorded behind the back of a stock server,
// before that server's next write.
func TestProbe(t *testing.T) {
	lookAgainSoon(t)
	etcd := etcdtest.Start(t, "")
	const ports = "30100-30399"
	const auditor = "auditor"
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceNodePortRange: ports,
		Users: []apiservertest.User{{Name: auditor}},
	})
	client := clientOf(t, server)
	bindAuditRole(t, client, auditor)
	awaitLoops(t, client)
	leak := func(port string) {
		t.Helper()
		if code, _, stderr := run(t, "allocate", "servicenodeports", port, "--endpoints", strings.Join(etcd.Endpoints(), ",")); code != exitOK {
			t.Fatal(stderr)
		}
	}
	create := func(name string, port int32) {
		t.Helper()
		eventually(t, func() error { // a server that has just started cannot allocate yet
			_, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
			}, metav1.CreateOptions{})
			return err
		})
	}
	probe := func() (values []string, report *audit.Report) {
		t.Helper()
		_, stdout, stderr := run(t, "audit", "--probe", "-o", "json", "--service-node-port-range", ports, "--kubeconfig", server.Kubeconfig(apiservertest.Admin))
		report = new(audit.Report)
		if err := json.Unmarshal([]byte(stdout), report); err != nil {
			t.Fatal(err, stderr)
		}
		for _, l := range report.Leaks {
			values = append(values, l.Value)
		}
		return values, report
	}
	if _, report := probe(); !strings.Contains(report.Unknown[1].Message, "no Service has a node port") {
		t.Errorf("without node ports: %q", report.Unknown)
	}
	create("one", 30150)
	if leaks, report := probe(); len(leaks) > 0 || report.Ranges[1].Range != ports || report.Ranges[1].InUse != 1 {
		t.Errorf("without a leak: %v, %+v", leaks, report.Ranges)
	}
	leak("30151")
	leak("30399")
	create("two", 30200)
	leak("30201")
	leaks, report := probe()
	if !slices.Equal(leaks, []string{"30151", "30399"}) || len(report.Findings) > 0 {
		t.Errorf("leaks %v, %v", leaks, report.Findings)
	}
	metrics := "counted 4 as allocated at its last allocation or release, 2 more than Services use; a repair or another server may have changed the range since"
	if slices.ContainsFunc(report.Unknown, func(u audit.Unknown) bool { return strings.Contains(u.Message, "the metrics of the API server") }) {
		t.Errorf("the probe has named what the metrics count: %q", report.Unknown)
	}
	// The same without a probe, which comes next. The server's range has another size than the default.
	kubeconfig := server.Kubeconfig(apiservertest.Admin)
	for _, c := range []struct{ flags, next, words string }{
		{"--service-node-port-range=" + ports, " audit --probe ", ""},
		{"--service-node-port-range=30000-32767", " audit --probe ", "the metrics of the API server count 300 node ports, and 30000-32767 has 2768"},
		{"--output=table", " audit --probe --service-node-port-range LOW-HIGH ", "the metrics of the API server count 300 node ports, and 30000-32767, kube-apiserver's default, has 2768"},
	} {
		code, stdout, stderr := run(t, "audit", "--kubeconfig", kubeconfig, c.flags)
		text := strings.Join(strings.Fields(strings.ReplaceAll(stdout, "\\", "")), " ")
		if code != exitOK || !strings.Contains(text, metrics) || !strings.Contains(text, c.words) || !strings.Contains(text, c.next) {
			t.Errorf("%s: exit code %d, %s%s", c.flags, code, stdout, stderr)
		}
		if c.words != "" {
			runFails(t, exitInput, []string{c.words, "name the range of the API servers with --service-node-port-range"}, "audit", "--probe", "--kubeconfig", kubeconfig, c.flags)
		}
	}
	create("three", 30300)
	if leaks, _ := probe(); !slices.Equal(leaks, []string{"30151", "30201", "30399"}) {
		t.Errorf("after the server's next write: %v", leaks)
	}
	unseen := func(part string) bool {
		return slices.ContainsFunc(report.Unknown, func(u audit.Unknown) bool { return strings.Contains(u.Message, part) })
	}
	if _, report = probe(); !unseen("other API servers have allocated") {
		t.Errorf("%q", report.Unknown)
	}
	// What another server allocates is not seen.
	other := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceNodePortRange: ports, AdvertiseAddress: "192.0.2.2",
	})
	client = clientOf(t, other)
	time.Sleep(time.Second) // Services are created within the same second otherwise
	create("four", 30310)
	if leaks, report = probe(); len(leaks) != 3 || !unseen("as it accepts port 30310, which a Service uses") {
		t.Errorf("after an allocation by another server: %v, %q", leaks, report.Unknown)
	}
	services, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(services.Items) != 5 {
		t.Errorf("the probe has written: %v, %v", services, err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "ports"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"services.nodeports": resource.MustParse("5")}}}
	quotas := client.CoreV1().ResourceQuotas("default")
	if quota, err = quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{"services.nodeports": resource.MustParse("4")}}
	if _, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { // the admission has a cache
		code, _, stderr := run(t, "audit", "--probe", "--service-node-port-range", ports, "--kubeconfig", kubeconfig)
		if code != exitNone || !strings.Contains(stderr, "exceeded quota: ports") || !strings.Contains(stderr, "name a namespace without such a limit with -n") || strings.Contains(stderr, "right to create") {
			return fmt.Errorf("with a quota: exit code %d, %s", code, stderr)
		}
		return nil
	})
	// The metrics count fewer ports than the default range has: no command takes the range to be that one.
	for _, args := range [][]string{{"free", "servicenodeports"}, {"show", "servicenodeports"}, {"explain", "30003"}, {"explain", "8080"}, {"audit"}} {
		code, stdout, stderr := run(t, append(args, "--kubeconfig", kubeconfig)...)
		if args[0] == "free" && code != exitInput || strings.Contains(stdout, "30000-32767 ") || strings.Contains(stdout, "1-65535") || !strings.Contains(stdout+stderr, "known") {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	if code, stdout, stderr := run(t, "audit", "--strict", "--fail-on", "breaksTraffic", "--kubeconfig", kubeconfig); code != exitUnseen || !strings.Contains(stdout, "\nok for all that the Kubernetes API shows: nothing found") || !strings.Contains(stdout, "     0  break traffic now\n        not shown: the range of node ports") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	code, _, stderr := run(t, "audit", "--probe", "--service-node-port-range", ports, "--kubeconfig", server.Kubeconfig(auditor))
	if code != exitNone || !strings.Contains(stderr, "a probe needs the right to create Services in namespace default") {
		t.Errorf("without the right: exit code %d, %s", code, stderr)
	}
}

// TestProbeRangekeeper asks a server with Rangekeeper inside, which sees a port that is recorded behind its back.
func TestProbeRangekeeper(t *testing.T) {
	lookAgainSoon(t)
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), Rangekeeper: true})
	awaitLoops(t, clientOf(t, server))
	code, _, stderr := run(t, "allocate", "servicenodeports", "30151", "--endpoints", strings.Join(etcd.Endpoints(), ","))
	if code != exitOK {
		t.Fatal(stderr)
	}
	runFails(t, exitInput, []string{"The range of valid ports is 30000-32767", "name the range of the API servers with --service-node-port-range"},
		"audit", "--probe", "--service-node-port-range", "29990-30009", "--kubeconfig", server.Kubeconfig(apiservertest.Admin))
	report := runJSON[audit.Report](t, exitFound, "audit", "--probe", "--kubeconfig", server.Kubeconfig(apiservertest.Admin))
	if len(report.Leaks) != 1 || report.Leaks[0].Value != "30151" || report.Summary.Findings.Found > 0 {
		t.Errorf("%+v, %+v", report.Leaks, report.Findings)
	}
	if slices.ContainsFunc(report.Unknown, func(u audit.Unknown) bool { return strings.Contains(u.Message, "leaked node ports") }) {
		t.Errorf("the server sees all: %q", report.Unknown)
	}
}
