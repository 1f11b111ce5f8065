package source

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// TestOtherClusterIPRange names a range that is not that of the default ServiceCIDR.
func TestOtherClusterIPRange(t *testing.T) {
	state := &clusterstate.State{ServiceCIDRs: []networkingv1.ServiceCIDR{
		{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16", "fd00::/112"}}},
	}}
	for ranges, want := range map[string]string{
		"": "", "10.96.0.0/16,fd00:0::/112": "", "10.0.0.0/8": "--service-cluster-ip-range is 10.0.0.0/8, and ServiceCIDR kubernetes has 10.96.0.0/16,fd00::/112",
	} {
		s := Source{clusterIPRange: ranges}
		if err := s.checkClusterIPRange(state); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q: %v, want %q", ranges, err, want)
		}
		if err := s.checkClusterIPRange(&clusterstate.State{}); err != nil {
			t.Errorf("%q without ServiceCIDRs: %v", ranges, err)
		}
	}
}

// TestAddServiceCIDRStep names the cluster in the command that adds a ServiceCIDR.
func TestAddServiceCIDRStep(t *testing.T) {
	s := &Source{Program: "rangekeeper", kube: &kubeconfig{names: []string{"context", "kubeconfig"}}, given: []string{"--context prod", "--service-node-port-range 1-2"}}
	full := audit.Finding{Reason: "RangeFull", Severity: audit.Exhausted, Kind: audit.KindServiceCIDR, Name: "kubernetes", Value: "10.0.0.0/30"}
	want := []string{"echo '" + runbook.ServiceCIDR + "'", "|", "kubectl", "--context prod", "create -f -"}
	if steps := s.ReportSteps(&audit.Report{Findings: []audit.Finding{full}}); !slices.ContainsFunc(steps, func(one screen.Step) bool { return slices.Equal(one.Words, want) }) {
		t.Errorf("no %q in %q", want, steps)
	}
}

// TestProgress says nothing of quick work.
func TestProgress(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b)
	report := p.start("reading")
	report(1, 4)
	if p.end(); b.Len() > 0 {
		t.Errorf("said at once: %q", b.String())
	}
	report = p.start("reading")
	p.tell() // nothing was reported yet, as by a server that does not answer
	report(1, 4)
	p.tell()
	report(2, 4)
	p.end()
	p.end()
	if want := "rangekeeper: reading\nrangekeeper: reading: 25%\nrangekeeper: reading: done\n"; b.String() != want {
		t.Errorf("got %q", b.String())
	}
}

// TestProgressOfSilentWork speaks while the work reports nothing.
func TestProgressOfSilentWork(t *testing.T) {
	r, w := io.Pipe()
	p := newProgress(w)
	p.quiet = time.Millisecond
	p.start("auditing")
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || line != "rangekeeper: auditing\n" {
		t.Errorf("%q, %v", line, err)
	}
	r.Close() // what follows is not read
	p.end()
}

// TestStepsOfAnotherPrefix: the repaired snapshot is checked below the prefix of the one that was read.
func TestStepsOfAnotherPrefix(t *testing.T) {
	s := &Source{Program: "rangekeeper", prefix: "/other", given: []string{"--etcd-snapshot backup.db", "--prefix /other", "--skip-hash-check=true"}}
	steps, _ := s.PlanSteps(&audit.Plan{Applied: true}, "", "repaired.db")
	want := []string{"rangekeeper", "audit", "--etcd-snapshot repaired.db", "--prefix /other"}
	if len(steps) != 1 || !slices.Equal(steps[0].Words, want) {
		t.Errorf("%q", steps)
	}
}
