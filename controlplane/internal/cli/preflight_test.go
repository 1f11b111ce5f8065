package cli

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
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

// TestPreflight runs the upgrade of each fixture to the next release. Of the clean ones nothing must be done first; of the
// damaged ones all findings and leaks are in a check.
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
			if code != exitFound || stderr != "" || !strings.HasPrefix(stdout, "Upgrade of kube-apiserver from an unknown release to "+to+": ") ||
				!strings.Contains(stdout, "\nMust be done first (") || strings.Contains(stdout, "Values: ") {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
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

// TestPreflightWebhooks has webhook configurations in etcd.
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
	file := changed(t, etcdtest.DualStack, "clean.db.gz", map[string][]byte{
		"/registry/validatingwebhookconfigurations/policies": stored("ValidatingWebhookConfiguration", &validating),
		"/registry/mutatingwebhookconfigurations/defaults":   stored("MutatingWebhookConfiguration", &mutating),
	})
	etcd := etcdtest.Start(t, file)
	for _, source := range [][]string{{"--etcd-snapshot", file}, {"--endpoints", strings.Join(etcd.Endpoints(), ",")}} {
		r := runJSON[preflight.Report](t, exitFound, append([]string{"preflight", "--to", "1.33"}, source...)...)
		var commands []string
		for _, c := range r.Of(preflight.Must) {
			commands = append(commands, c.Command)
		}
		want := []string{"kubectl edit validatingwebhookconfiguration policies", "kubectl edit mutatingwebhookconfiguration defaults"}
		if !slices.Equal(commands, want) {
			t.Errorf("%v: %q", source, commands)
		}
	}
	if code, _, stderr := run(t, "audit", "--etcd-snapshot", file); code != exitOK {
		t.Errorf("an audit reads webhooks: %d, %s", code, stderr)
	}
}

// TestPreflightOverAPI asks a server, as users with and without the right to list webhooks.
func TestPreflightOverAPI(t *testing.T) {
	const auditor, upgrader = "auditor", "upgrader"
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, Users: []apiservertest.User{{Name: auditor}, {Name: upgrader}},
	})
	admin, err := kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin))
	if err != nil {
		t.Fatal(err)
	}
	bindAuditRole(t, admin, auditor)
	bindRole(t, admin, upgrader, "preflight.yaml")
	newest := preflight.Targets()[len(preflight.Targets())-1]
	at := func(user string, flags ...string) []string {
		return append([]string{"preflight", "--to", newest, "--kubeconfig", server.Kubeconfig(user), "--service-cluster-ip-range", apiservertest.DefaultServiceClusterIPRange}, flags...)
	}
	r := runJSON[preflight.Report](t, exitOK, at(apiservertest.Admin)...)
	if r.From != string(apiservertest.Newest) || !slices.Contains(namesOf(r, preflight.OK), "Webhooks") || !slices.Contains(namesOf(r, preflight.OK), "ServiceCIDR") {
		t.Errorf("%+v", r)
	}
	r = runJSON[preflight.Report](t, exitOK, at(auditor)...)
	if r.From != string(apiservertest.Newest) || !slices.Contains(namesOf(r, preflight.Unknown), "Webhooks") {
		t.Errorf("without the right: %+v", r)
	}
	// The second role needs the first one.
	if code, _, stderr := run(t, at(upgrader)...); code != exitInput || !strings.Contains(stderr, `"upgrader" cannot list`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	sideEffects := admissionv1.SideEffectClassNone
	url := "https://127.0.0.1:1"
	_, err = admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
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
	r = runJSON[preflight.Report](t, exitOK, at(apiservertest.Admin)...)
	if !slices.Contains(namesOf(r, preflight.Surprise), "Webhooks") {
		t.Errorf("with a webhook: %+v", r)
	}
	if code, _, stderr := run(t, "preflight", "--to", newest, "--kubeconfig", server.Kubeconfig(apiservertest.Admin), "--server", "https://127.0.0.1:1"); code != exitUnreachable {
		t.Errorf("not reachable: exit code %d, %s", code, stderr)
	}
}
