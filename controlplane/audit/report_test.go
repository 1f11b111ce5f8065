package audit_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestPlanAfter joins the plans of two passes.
func TestPlanAfter(t *testing.T) {
	finding := func(value string, remedy rangekeeper.Remedy) audit.Finding {
		return audit.Finding{Severity: audit.DuplicateRisk, Range: "serviceips", Value: value, Remedy: remedy}
	}
	const repair, owner = rangekeeper.RemedyRepair, rangekeeper.RemedyOwner
	first := &audit.Plan{
		Ranges: []audit.RangePlan{
			{Name: "serviceips", Set: []string{"10.0.0.9"}, Clear: []string{"10.0.0.20"}},
			{Name: "gone", Set: []string{"1"}, Clear: []string{}},
		},
		Findings: []audit.Finding{finding("10.0.0.9", repair), finding("10.0.0.30", owner), finding("10.0.0.31", owner)},
	}
	second := &audit.Plan{
		Ranges:   []audit.RangePlan{{Name: "serviceips", Set: []string{"10.0.0.10", "10.0.0.1"}, Clear: []string{"10.0.0.3"}}},
		Findings: []audit.Finding{finding("10.0.0.10", repair), finding("10.0.0.30", owner)},
		Leaks:    []audit.Leak{{Severity: audit.Wasted, Range: "serviceips", Value: "10.0.0.3"}},
	}
	want := &audit.Plan{
		Ranges: []audit.RangePlan{
			{Name: "gone", Set: []string{"1"}, Clear: []string{}},
			{Name: "serviceips", Set: []string{"10.0.0.1", "10.0.0.9", "10.0.0.10"}, Clear: []string{"10.0.0.3", "10.0.0.20"}},
		},
		Findings: []audit.Finding{finding("10.0.0.9", repair), finding("10.0.0.10", repair), finding("10.0.0.30", owner)},
		Leaks:    second.Leaks,
		Summary: audit.PlanSummary{
			Set: 4, Clear: 2, LeftToOwners: 1, Findings: audit.Count{Found: 3}, Leaks: audit.Count{Found: 1},
			BySeverity: audit.BySeverity{DuplicateRisk: audit.Count{Found: 3}, Exhausted: audit.Count{IsAtLeast: true}, Wasted: audit.Count{Found: 1}},
		},
	}
	if second.After(first); !reflect.DeepEqual(second, want) {
		t.Errorf("got %+v\nwant %+v", second, want)
	}
}

// TestLeaksLeft has leaks that stay until a second pass has seen them.
func TestLeaksLeft(t *testing.T) {
	state, err := clusterstate.ReadSnapshotFile(t.Context(), etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"), clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	passes, err := rangekeeper.NewLeakTracker(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer passes.Close()
	// A pass whose repair has the outcome of done, or is not made at all.
	plan := func(done func(*rangekeeper.Report, int) rangekeeper.Repaired) *audit.Plan {
		pass, err := passes.Start()
		if err != nil {
			t.Fatal(err)
		}
		a, err := audit.New(state, audit.Options{Pass: pass})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if done == nil || a.Core().Range(i).Record != rangekeeper.RecordBitmap {
				continue
			}
			if err := a.Core().RecordRepair(i, done(a.Core(), i)); err != nil {
				t.Fatal(err)
			}
		}
		p, err := a.Plan()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := plan(nil)
	leaks := len(first.Leaks)
	// The second pass clears all, and the third finds all of it leaked again, as the state is the same.
	second := plan(func(report *rangekeeper.Report, i int) rangekeeper.Repaired {
		return rangekeeper.Repaired{
			Set: slices.Collect(report.Values(i, rangekeeper.ValuesSet)), Cleared: slices.Collect(report.Values(i, rangekeeper.ValuesClear)),
		}
	})
	third := plan(nil)
	third.After(second)
	nothing := func(*rangekeeper.Report, int) rangekeeper.Repaired { return rangekeeper.Repaired{} }
	fourth := plan(nothing)
	got := []int{first.LeaksLeft(), second.LeaksLeft(), third.LeaksLeft(), fourth.LeaksLeft()}
	if leaks == 0 || !slices.Equal(got, []int{leaks, 0, leaks, leaks}) {
		t.Errorf("%v of %d leaks left", got, leaks)
	}
	if len(fourth.LeftToOwners()) != len(fourth.Findings) || len(second.LeftToOwners()) == len(second.Findings) {
		t.Errorf("found %+v, then %+v", second.Findings, fourth.Findings)
	}
}

// TestOneFamilyMissing takes a range of a dual-stack cluster away. Without the
// secondary one it is a single-stack cluster whose Services have a family too much.
func TestOneFamilyMissing(t *testing.T) {
	state, err := clusterstate.ReadSnapshotFile(t.Context(), etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"), clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	primary := state.Ranges["serviceips"]
	delete(state.Ranges, "serviceips")
	without, err := audit.New(state, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if all := without.Report().Findings; len(all) != 1 || all[0].Reason != "RangeMissing" || all[0].Name != "serviceips" {
		t.Errorf("%+v", all)
	}
	state.Ranges["serviceips"] = primary
	delete(state.Ranges, "secondaryserviceips")
	a, err := audit.New(state, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ipv6 := 0
	for _, s := range state.Services.All() {
		for _, ip := range s.ClusterIPs {
			if strings.Contains(ip, ":") {
				ipv6++
			}
		}
	}
	findings := a.Report().Findings
	for _, f := range findings {
		if f.Reason != "ClusterIPNotValid" || !strings.Contains(f.Value, ":") || !strings.Contains(f.Message, "without a range") {
			t.Errorf("%+v", f)
		}
	}
	if len(findings) != ipv6 || ipv6 == 0 {
		t.Errorf("%d findings, %d IPv6 addresses", len(findings), ipv6)
	}
}

// TestRangeMissing takes ranges away that Services have values of: that is no
// cluster in order.
func TestRangeMissing(t *testing.T) {
	for _, c := range []struct {
		cluster string
		ranges  []string
		options audit.Options
		// isUnused takes all Services with node ports away, too.
		isUnused bool
		want     string
	}{
		{etcdtest.DualStack, []string{"serviceips", "secondaryserviceips"}, audit.Options{}, false, "RangeMissing serviceips"},
		{etcdtest.DualStack, []string{"servicenodeports"}, audit.Options{}, false, "RangeMissing servicenodeports"},
		{etcdtest.DualStack, []string{"servicenodeports"}, audit.Options{}, true, "RangeMissing servicenodeports"},
		{etcdtest.SingleStack, []string{"servicenodeports"}, audit.Options{}, false, "RangeMissing servicenodeports"},
		{etcdtest.SingleStack, []string{"servicenodeports"}, audit.Options{}, true, "RangeMissing servicenodeports"},
		{etcdtest.SingleStack, []string{"serviceips"}, audit.Options{Bitmap: true}, false, "RangeMissing serviceips"},
	} {
		state, err := clusterstate.ReadSnapshotFile(t.Context(), etcdtest.Fixture(c.cluster, "clean.db.gz"), clusterstate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range c.ranges {
			delete(state.Ranges, name)
		}
		if c.isUnused {
			var without []corev1.Service
			for _, s := range etcdtest.Objects(&state.Services) {
				if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 }) && s.Spec.HealthCheckNodePort == 0 {
					without = append(without, s)
				}
			}
			if len(without) == 0 || len(without) == state.Services.Len() {
				t.Fatalf("%d of %d Services have no node port", len(without), state.Services.Len())
			}
			state.Services = etcdtest.List(without...)
		}
		found := func() (all []string) {
			a, err := audit.New(state, c.options)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range a.Report().Findings {
				all = append(all, f.Reason+" "+f.Value)
			}
			return all
		}
		if all := found(); !slices.Equal(all, []string{c.want}) {
			t.Errorf("%s without %v: %q", c.cluster, c.ranges, all)
		}
		// Without Services nothing is amiss.
		state.Services = etcdtest.List()
		if all := found(); len(all) > 0 {
			t.Errorf("%s without %v and Services: %q", c.cluster, c.ranges, all)
		}
	}
}

// TestCompareValues sorts what sorts otherwise as text.
func TestCompareValues(t *testing.T) {
	want := []string{"-1", "80", "30009", "300000", "10.9.0.1", "10.96.0.2", "10.96.0.10", "10.100.0.1", "::9", "::33f", "::1b92", "fd00::1", "a text", "nonsense"}
	got := slices.Clone(want)
	slices.Sort(got)
	if slices.SortFunc(got, audit.CompareValues); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
