package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestNoAddress runs the next commands of an audit that finds Services with a text where an address belongs, and with
// none.
func TestNoAddress(t *testing.T) {
	for name, ips := range map[string][]string{"zone": {"fe80::1%eth0"}, "emptyin": {"10.96.0.77", ""}, "hostile": {"$(false)"}} {
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips}}
		raw, err := s.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		file := changed(t, etcdtest.SingleStack, "clean.db.gz", map[string][]byte{
			"/registry/services/specs/default/" + name: inEnvelope(t, "Service", raw),
		})
		source := []string{"--etcd-snapshot", file}
		report := runJSON[audit.Report](t, exitFound, append([]string{"audit"}, source...)...)
		at := 0
		for at < len(report.Findings)-1 && report.Findings[at].Reason != "ClusterIPNotValid" {
			at++
		}
		f := report.Findings[at]
		code, stdout, stderr := run(t, append([]string{"explain", "default/" + name}, source...)...)
		if code != exitFound || !strings.Contains(stdout, "ClusterIPNotValid") {
			t.Errorf("%s: exit code %d, %s%s", name, code, stdout, stderr)
		}
		if f.Reason != "ClusterIPNotValid" || f.Subject() != "default/"+name {
			t.Errorf("%+v has the subject %q", f, f.Subject())
		}
		_, stdout, _ = run(t, append([]string{"audit"}, source...)...)
		if !strings.Contains(stdout, "rangekeeper explain default/"+name) || name == "emptyin" && !strings.Contains(stdout, `""  default/emptyin`) {
			t.Error(stdout)
		}
		_, stdout, _ = run(t, append([]string{"preflight", "--to", "1.37"}, source...)...)
		if !strings.Contains(stdout, "rangekeeper explain default/"+name) || strings.Contains(stdout, ": . ") {
			t.Error(stdout)
		}
	}
}
