package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// namesOf returns the names of the checks of a level.
func namesOf(r preflight.Report, level preflight.Level) (names []string) {
	for _, c := range r.Of(level) {
		names = append(names, c.Name)
	}
	return names
}

// TestPreflight runs the upgrade of each fixture to the next release. Of the clean ones nothing must be done first; of
// the damaged ones all findings and leaks are in a check.
func TestPreflight(t *testing.T) {
	targets := preflight.Targets()
	for _, cluster := range etcdtest.FixtureClusters {
		t.Run(cluster.Name, func(t *testing.T) {
			release := strings.Join(strings.Split(cluster.Release, ".")[:2], ".")
			to := targets[min(slices.Index(targets, release)+1, len(targets)-1)]
			args := func(file string) []string {
				return []string{"preflight", "--to", to, "--service-cluster-ip-range", cluster.ClusterIPRange, "--etcd-snapshot", etcdtest.Fixture(cluster.Name, file)}
			}
			clean := runJSON[preflight.Report](t, exitOK, args("clean.db.gz")...)
			if unknown := namesOf(clean, preflight.Unknown); clean.To != to || !slices.Equal(unknown, []string{"Release"}) {
				t.Errorf("%+v", clean)
			}
			var surprises []string
			switch to {
			case "1.33":
				surprises = []string{"FirstRepair"}
			case "1.34":
				surprises = []string{"MixedServers"}
			case "1.37":
				surprises = []string{"BetaAPI"}
			}
			if names := namesOf(clean, preflight.Surprise); !slices.Equal(names, surprises) {
				t.Errorf("%q may surprise, want %q", names, surprises)
			}

			drift := runJSON[preflight.Report](t, exitFound, args("drift.db.gz")...)
			report := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", etcdtest.Fixture(cluster.Name, "drift.db.gz"))
			named := map[string]bool{}
			for _, c := range drift.Checks {
				for _, value := range c.Values {
					named[c.Name+" "+value] = true
				}
			}
			for _, f := range report.Findings {
				if !named[f.Reason+" "+f.Value] {
					t.Errorf("no check names %s %s", f.Reason, f.Value)
				}
			}
			for _, l := range report.Leaks {
				if !named["Leak "+l.Value] {
					t.Errorf("no check names leak %s", l.Value)
				}
			}
			for _, f := range report.Findings {
				if f.Severity == audit.BreaksTraffic && !slices.Contains(namesOf(drift, preflight.Must), f.Reason) {
					t.Errorf("%s is not to be done first", f.Reason)
				}
			}
			code, stdout, stderr := run(t, args("drift.db.gz")...)
			if code != exitFound || stderr != "" || !strings.Contains(stdout, "\nUpgrade of kube-apiserver from an unknown release to "+to+": ") ||
				!strings.Contains(stdout, "\nMust be done first (") || strings.Contains(stdout, "Values: ") {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
			words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
			if want := fmt.Sprintf("to %s: %d things must be done first Must be done first (%[2]d)", to, len(drift.Of(preflight.Must))); !strings.Contains(words(stdout), want) {
				t.Errorf("not %q:\n%s", want, stdout)
			}
			if _, stdout, _ := run(t, args("clean.db.gz")...); !strings.Contains(words(stdout), "to "+to+": nothing known must be done first; 1 thing is unknown ") {
				t.Errorf("clean:\n%s", stdout)
			}
			if n := strings.Count(stdout, "--to-file"); n != 1 || !strings.Contains(words(stdout), "https://github.com/rangekeeper/rangekeeper/blob/main/docs/runbook.md#restore-a-repaired-snapshot") {
				t.Errorf("%d commands of one repair:\n%s", n, stdout)
			}
			if _, stdout, _ := run(t, append(args("drift.db.gz"), "-o", "wide")...); !strings.Contains(stdout, "Values: ") {
				t.Errorf("wide:\n%s", stdout)
			}
		})
	}
}

// TestPreflightRemedies runs the commands that the checks name, with the flags of the source that these have.
func TestPreflightRemedies(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	for _, source := range [][]string{
		{"--etcd-snapshot", etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")},
		{"--endpoints", strings.Join(etcd.Endpoints(), ",")},
	} {
		report := runJSON[preflight.Report](t, exitFound, append([]string{"preflight", "--to", "1.33", "--service-cluster-ip-range", "10.96.0.0/12,fd00:10:96::/108"}, source...)...)
		count := 0
		for _, c := range report.Checks {
			command, ours := strings.CutPrefix(c.Command, "rangekeeper ")
			if !ours || strings.HasPrefix(command, "repair") {
				continue
			}
			count++
			code, stdout, stderr := run(t, strings.Fields(command)...)
			if code != exitOK && code != exitFound || stdout == "" {
				t.Errorf("%s: exit code %d, %s", c.Command, code, stderr)
			}
		}
		repairs := namesOf(report, preflight.Must)[report.Summary.MustBeDoneFirst-2:]
		if count == 0 || !slices.Equal(repairs, []string{"ClusterIPNotAllocated", "Leak"}) {
			t.Errorf("%d commands, %q", count, repairs)
		}
		for _, c := range report.Of(preflight.Must)[report.Summary.MustBeDoneFirst-2:] {
			if want := "rangekeeper repair "; !strings.HasPrefix(c.Command, want) || strings.Contains(c.Command, "service-cluster-ip-range") {
				t.Error(c.Command)
			}
		}
	}
}

// TestPreflightWebhooks has webhook configurations and admission policies in etcd.
func TestPreflightWebhooks(t *testing.T) {
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
	}}
	validating := admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policies"}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "check.example.com", Rules: rules}},
	}
	mutating := admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "default.example.com", Rules: rules}},
	}
	stored := func(kind string, o interface{ Marshal() ([]byte, error) }) []byte {
		raw, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return inEnvelopeOf(t, "admissionregistration.k8s.io/v1", kind, raw)
	}
	named := []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rules[0]}}
	policy := admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionv1.MatchResources{ResourceRules: named}},
	}
	bound := admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "limits", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	changing := admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "labels"}, Spec: admissionv1.MutatingAdmissionPolicySpec{MatchConstraints: &admissionv1.MatchResources{ResourceRules: named}},
	}
	changes := admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everywhere"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "labels"},
	}
	file := changed(t, etcdtest.DualStack, "clean.db.gz", map[string][]byte{
		"/registry/validatingadmissionpolicies/limits":           stored("ValidatingAdmissionPolicy", &policy),
		"/registry/validatingadmissionpolicybindings/everywhere": stored("ValidatingAdmissionPolicyBinding", &bound),
		"/registry/mutatingadmissionpolicies/labels":             stored("MutatingAdmissionPolicy", &changing),
		"/registry/mutatingadmissionpolicybindings/everywhere":   stored("MutatingAdmissionPolicyBinding", &changes),
		"/registry/validatingwebhookconfigurations/policies":     stored("ValidatingWebhookConfiguration", &validating),
		"/registry/mutatingwebhookconfigurations/defaults":       stored("MutatingWebhookConfiguration", &mutating),
	})
	etcd := etcdtest.Start(t, file)
	for _, source := range [][]string{{"--etcd-snapshot", file}, {"--endpoints", strings.Join(etcd.Endpoints(), ",")}} {
		r := runJSON[preflight.Report](t, exitFound, append([]string{"preflight", "--to", "1.33"}, source...)...)
		var commands []string
		for _, c := range r.Of(preflight.Must) {
			commands = append(commands, c.Command)
		}
		want := []string{
			"kubectl edit validatingwebhookconfiguration policies", "kubectl edit mutatingwebhookconfiguration defaults",
			"kubectl edit validatingadmissionpolicy limits", "kubectl edit mutatingadmissionpolicy labels",
		}
		if !slices.Equal(commands, want) {
			t.Errorf("%v: %q", source, commands)
		}
	}
	broken := changed(t, etcdtest.DualStack, "clean.db.gz", map[string][]byte{"/registry/validatingwebhookconfigurations/broken": []byte("nonsense")})
	r := runJSON[preflight.Report](t, exitFound, "preflight", "--to", "1.33", "--etcd-snapshot", broken)
	if must := r.Of(preflight.Must); len(must) != 1 || must[0].Name != "Unreadable" || !slices.Equal(must[0].Values, []string{"/registry/validatingwebhookconfigurations/broken"}) {
		t.Errorf("%+v", must)
	}
	if code, _, stderr := run(t, "audit", "--etcd-snapshot", broken); code != exitOK {
		t.Errorf("an audit reads webhooks: %d, %s", code, stderr)
	}
}

// TestReadyRefused has a stock server whose condition Ready of the default ServiceCIDR a webhook refuses: without it
// new Services get ClusterIPs, so nothing has to be done before an upgrade.
func TestReadyRefused(t *testing.T) {
	const cidr = "10.96.0.0/24"
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceClusterIPRange: cidr})
	client := kubernetes.NewForConfigOrDie(server.RESTConfig(apiservertest.Admin))
	awaitLoops(t, client)
	url, second, none := "https://127.0.0.1:1/", int32(1), admissionv1.SideEffectClassNone
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "refuses"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "status.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, TimeoutSeconds: &second, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"networking.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"servicecidrs/status"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := (&networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: clusterstate.DefaultServiceCIDR, UID: "default"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}},
	}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Client().Put(t.Context(), "/registry/servicecidrs/kubernetes", string(inEnvelopeOf(t, "networking.k8s.io/v1", "ServiceCIDR", raw))); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	eventually(t, func() error {
		events, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == "KubernetesDefaultServiceCIDRError" }) {
			err = errors.New("the condition is not refused")
		}
		return err
	})
	eventually(t, func() error { // it may not have read its ServiceCIDR before
		service, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err == nil && !strings.HasPrefix(service.Spec.ClusterIP, "10.96.0.") {
			t.Errorf("the ClusterIP is %q", service.Spec.ClusterIP)
		}
		return err
	})
	stored, err := client.NetworkingV1().ServiceCIDRs().Get(t.Context(), clusterstate.DefaultServiceCIDR, metav1.GetOptions{})
	if err != nil || len(stored.Status.Conditions) > 0 {
		t.Errorf("%+v, %v", stored.Status, err)
	}
	targets := preflight.Targets()
	_, stdout, stderr := run(t, "preflight", "--to", targets[len(targets)-1], "--endpoints", etcd.Endpoints()[0], "--service-cluster-ip-range", cidr, "-o", "json")
	var report preflight.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || !slices.Contains(namesOf(report, preflight.Surprise), "Webhooks") {
		t.Errorf("%v, %s%s", err, stdout, stderr)
	}
}

// TestPreflightOverAPI asks a server, as users with and without the right to list webhooks.
func TestPreflightOverAPI(t *testing.T) {
	const auditor, upgrader = "auditor", "upgrader"
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, Users: []apiservertest.User{{Name: auditor}, {Name: upgrader}},
	})
	admin := clientOf(t, server)
	awaitLoops(t, admin)
	bindAuditRole(t, admin, auditor)
	bindRole(t, admin, upgrader, "preflight.yaml")
	newest := preflight.Targets()[len(preflight.Targets())-1]
	at := func(user string, flags ...string) []string {
		return append([]string{"preflight", "--to", newest, "--kubeconfig", server.Kubeconfig(user), "--service-cluster-ip-range", apiservertest.DefaultServiceClusterIPRange}, flags...)
	}
	r := runJSON[preflight.Report](t, exitOK, at(apiservertest.Admin)...)
	if r.From != string(apiservertest.Newest) || !slices.Contains(namesOf(r, preflight.OK), "Webhooks") || !slices.Contains(namesOf(r, preflight.OK), "Policies") || !slices.Contains(namesOf(r, preflight.OK), "ServiceCIDR") {
		t.Errorf("%+v", r)
	}
	r = runJSON[preflight.Report](t, exitOK, at(auditor)...)
	if r.From != string(apiservertest.Newest) || !slices.Contains(namesOf(r, preflight.Unknown), "Webhooks") || !slices.Contains(namesOf(r, preflight.Unknown), "Policies") {
		t.Errorf("without the right: %+v", r)
	}
	// The second role needs the first one.
	if code, _, stderr := run(t, at(upgrader)...); code != exitNone || !strings.Contains(stderr, `"upgrader" cannot list`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	sideEffects := admissionv1.SideEffectClassNone
	url := "https://127.0.0.1:1"
	_, err := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policies"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "check.example.com", SideEffects: &sideEffects, AdmissionReviewVersions: []string{"v1"}, ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"networking.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"ipaddresses"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			Validations: []admissionv1.Validation{{Expression: "true"}},
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"networking.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"ipaddresses"}},
			}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "limits", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r = runJSON[preflight.Report](t, exitOK, at(apiservertest.Admin)...)
	if !slices.Contains(namesOf(r, preflight.Surprise), "Webhooks") || !slices.Contains(namesOf(r, preflight.Surprise), "Policies") {
		t.Errorf("with a webhook: %+v", r)
	}
	for _, c := range r.Of(preflight.Surprise) {
		if want := "kubectl --kubeconfig " + server.Kubeconfig(apiservertest.Admin) + " edit validatingwebhookconfiguration policies"; c.Name == "Webhooks" && c.Command != want {
			t.Errorf("%q, want %q", c.Command, want)
		}
	}
	if _, stdout, _ := run(t, at(apiservertest.Admin)...); !strings.Contains(strings.Join(strings.Fields(stdout), " "), "nothing known must be done first; ") {
		t.Error(stdout)
	}
	if code, _, stderr := run(t, "preflight", "--to", newest, "--kubeconfig", server.Kubeconfig(apiservertest.Admin), "--server", "https://127.0.0.1:1"); code != exitUnreachable {
		t.Errorf("not reachable: exit code %d, %s", code, stderr)
	}
}

// TestPreflightOnServers upgrades a damaged cluster from a stock 1.32 to a stock 1.33. Preflight names the damage;
// after the remedies that it names, the first repair pass of 1.33 makes the writes that it has announced, and reports
// nothing else.
func TestPreflightOnServers(t *testing.T) {
	shortenLeakAge(t)
	older, newer := etcdtest.FixtureClusters[0], etcdtest.FixtureClusters[1]
	etcd := etcdtest.Start(t, etcdtest.Fixture(older.Name, "drift.db.gz"))
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Version(older.Release), Etcd: etcd.Endpoints(), ServiceClusterIPRange: older.ClusterIPRange,
	})
	client := clientOf(t, server)
	source := []string{"--endpoints", strings.Join(etcd.Endpoints(), ",")}
	upgrade := append([]string{"preflight", "--to", "1.33", "--service-cluster-ip-range", older.ClusterIPRange}, source...)
	before := runJSON[preflight.Report](t, exitFound, upgrade...)
	must := []string{"ClusterIPAlreadyAllocated", "PortAlreadyAllocated", "ClusterIPOutOfRange", "ClusterIPNotAllocated", "Leak"}
	if names := namesOf(before, preflight.Must); !slices.Equal(names, must) {
		t.Errorf("%q must be done first, want %q", names, must)
	}

	// The owners recreate their Services, but for the oldest of those that share a value.
	for again := true; again; {
		report := reportOf(t, source...)
		again = false
		for _, f := range report.Findings {
			remove := []audit.Claimant{{Namespace: f.Namespace, Name: f.Name}}
			if len(f.Claimants) > 0 {
				remove = slices.DeleteFunc(slices.Clone(f.Claimants), func(c audit.Claimant) bool { return c.Keeps })
			}
			if f.Severity != audit.BreaksTraffic || len(remove) == 0 {
				continue
			}
			if err := client.CoreV1().Services(remove[0].Namespace).Delete(t.Context(), remove[0].Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			again = true
			break
		}
	}
	code, _, stderr := run(t, append([]string{"repair", "--apply", "--clean-leaks", "--interval", "1ms"}, source...)...)
	if code != exitOK {
		t.Fatalf("repair: exit code %d, %s", code, stderr)
	}
	after := runJSON[preflight.Report](t, exitOK, upgrade...)
	if names := namesOf(after, preflight.Surprise); !slices.Equal(names, []string{"FirstRepair"}) || after.FirstRepair.Created == 0 {
		t.Errorf("%q may surprise: %+v", names, after.FirstRepair)
	}
	overAPI := runJSON[preflight.Report](t, exitOK, "preflight", "--to", "1.33", "--service-cluster-ip-range", older.ClusterIPRange, "--kubeconfig", server.Kubeconfig(apiservertest.Admin))
	wanted := after.FirstRepair
	wanted.Bitmaps.Unseen = true
	if overAPI.From != older.Release || overAPI.FirstRepair != wanted {
		t.Errorf("over the API from %s: %+v, from etcd %+v", overAPI.From, overAPI.FirstRepair, wanted)
	}
	server.Stop()

	revisions := revisionsOf(t, etcd.Client())
	server = apiservertest.Start(t, apiservertest.Config{ // it is ready only after its first passes
		Version: apiservertest.Version(newer.Release), Etcd: etcd.Endpoints(), ServiceClusterIPRange: older.ClusterIPRange, OwnLoops: true,
	})
	eventually(t, func() error { // its ServiceCIDR may come a little later
		got, err := etcd.Client().Get(t.Context(), "/registry/servicecidrs/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && got.Count == 0 {
			err = errors.New("there is no ServiceCIDR")
		}
		return err
	})
	var writes preflight.Writes
	for key, revision := range revisionsOf(t, etcd.Client()) {
		_, existed := revisions[key]
		switch {
		case strings.HasPrefix(key, "/registry/ipaddresses/") && !existed:
			writes.Created++
		case strings.HasPrefix(key, "/registry/servicecidrs/") && !existed:
			writes.ServiceCIDRs++
		case revisions[key] != revision:
			t.Errorf("%s was changed at %d, before %d", key, revision, revisions[key])
		}
		delete(revisions, key)
	}
	if writes != after.FirstRepair || len(revisions) > 0 {
		t.Errorf("wrote %+v, announced %+v; removed %v", writes, after.FirstRepair, revisions)
	}
	client = clientOf(t, server)
	// The Events are written after the pass, one for each Service with a ClusterIP.
	want := map[string]bool{}
	for _, s := range readEtcd(t, etcd.Client()).Services.All() {
		if s.ClusterIP != "" && s.ClusterIP != corev1.ClusterIPNone {
			want[s.Namespace+"/"+s.Name] = true
		}
	}
	for end := time.Now().Add(2 * time.Minute); len(want) > 0; time.Sleep(time.Second) {
		events, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason != "ClusterIPNotAllocated" {
				t.Fatalf("Event %s of %s/%s: %s", e.Reason, e.Regarding.Namespace, e.Regarding.Name, e.Note)
			}
			delete(want, e.Regarding.Namespace+"/"+e.Regarding.Name)
		}
		if time.Now().After(end) {
			t.Fatalf("no Event of %v", want)
		}
	}
	awaitLoops(t, client)
	if code, stdout, _ := run(t, append([]string{"audit"}, source...)...); code != exitOK {
		t.Errorf("after the upgrade: %s", stdout)
	}
	runJSON[preflight.Report](t, exitOK, append([]string{"preflight", "--to", "1.34", "--service-cluster-ip-range", older.ClusterIPRange}, source...)...)
}
