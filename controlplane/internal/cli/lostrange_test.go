package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// foundIn returns reason, range and value of the findings that are about no stored object of a range, which it counts.
func foundIn(r audit.Report) (all, stored []string) {
	for _, f := range r.Findings {
		if f.IsLost() {
			stored = append(stored, f.Reason+" "+f.Kind+" "+f.Name)
		} else {
			all = append(all, f.Reason+" "+f.Range+" "+f.Value)
		}
	}
	return all, stored
}

// TestLostRanges damages or deletes the stored object of a range in a snapshot. That is a finding where servers read
// it, and what does not need it is judged as before.
func TestLostRanges(t *testing.T) {
	t.Parallel() // beside those that wait
	const ports, addresses, cidr = "/registry/ranges/servicenodeports", "/registry/ranges/serviceips", "/registry/servicecidrs/kubernetes"
	junk := []byte("k8s\x00junk")
	for _, c := range []struct {
		name, cluster string
		change        map[string][]byte
		want          []string
		// lost are the reasons that need the range.
		lost []string
		// rebuilt is what the repair does with the range.
		rebuilt string
	}{
		{"ports", "kube-1.37-dual-stack", map[string][]byte{ports: junk}, []string{"RangeNotReadable RangeAllocation servicenodeports"},
			[]string{"PortNotAllocated", "PortOutOfRange"}, audit.ActionDelete}, // a Service has a port outside of the default range
		{"bits past the ports", "kube-1.37-dual-stack", map[string][]byte{ports: stored(t, "30000-32767", append([]byte{1}, make([]byte, 346)...))},
			[]string{"RangeNotReadable RangeAllocation servicenodeports"}, []string{"PortNotAllocated"}, audit.ActionWrite},
		{"no ports", "kube-1.37-dual-stack", map[string][]byte{ports: nil}, []string{"RangeMissing RangeAllocation servicenodeports"},
			[]string{"PortNotAllocated", "PortOutOfRange"}, ""},
		{"a bitmap that no server reads", "kube-1.37-dual-stack", map[string][]byte{addresses: junk}, nil, nil, ""},
		{"a bitmap that servers write beside objects", etcdtest.DualWrite, map[string][]byte{addresses: junk},
			[]string{"RangeNotReadable RangeAllocation serviceips"}, []string{"BitmapDisagrees"}, audit.ActionDelete},
		{"a bitmap", etcdtest.DualStack, map[string][]byte{addresses: junk}, []string{"RangeNotReadable RangeAllocation serviceips"},
			[]string{"ClusterIPNotAllocated", "ClusterIPOutOfRange"}, audit.ActionDelete},
		{"no bitmap", etcdtest.DualStack, map[string][]byte{addresses: nil}, []string{"RangeMissing RangeAllocation serviceips"},
			[]string{"ClusterIPNotAllocated", "ClusterIPOutOfRange"}, ""},
		{"no ServiceCIDR", "kube-1.37-dual-stack", map[string][]byte{cidr: nil}, []string{"RangeMissing ServiceCIDR kubernetes"},
			[]string{"ClusterIPNotAllocated", "ClusterIPOutOfRange"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := changed(t, c.cluster, "drift.db.gz", c.change)
			before := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", etcdtest.Fixture(c.cluster, "drift.db.gz"))
			r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
			got, found := foundIn(r)
			if !slices.Equal(found, c.want) {
				t.Errorf("%q", found)
			}
			all, _ := foundIn(before)
			for _, one := range all {
				reason, _, _ := strings.Cut(one, " ")
				// A range that is not known is named by no finding.
				isThere := slices.ContainsFunc(got, func(f string) bool {
					return f == one || strings.HasPrefix(f, reason+" ") && strings.HasSuffix(f, one[strings.LastIndexByte(one, ' '):])
				})
				if !isThere && !slices.Contains(c.lost, reason) {
					t.Errorf("%s is not found any more", one)
				}
			}
			if by := r.Summary.BySeverity; len(c.want) > 0 && (!by.Wasted.IsAtLeast || !by.DuplicateRisk.IsAtLeast && c.cluster != etcdtest.DualWrite) {
				t.Errorf("what the range hides is counted: %+v, %q", by, r.Unknown)
			}
			if code, stdout, _ := run(t, "audit", "-n", "kube-public", "--strict", "--etcd-snapshot", file); len(c.want) > 0 && c.cluster != etcdtest.DualWrite && code != exitUnseen {
				t.Errorf("a namespace: exit code %d, %s", code, stdout)
			}
			if len(c.want) > 0 {
				shown := r.Findings[slices.IndexFunc(r.Findings, func(f audit.Finding) bool { return f.IsLost() })]
				if shown.Severity != audit.BreaksTraffic || strings.HasPrefix(c.want[0], "RangeNotReadable") != strings.HasPrefix(shown.Message, "key /registry/ranges/") {
					t.Errorf("%+v", shown)
				}
			}
			for _, command := range [][]string{
				{"audit"}, {"audit", "-o", "wide"}, {"audit", "-o", "html"}, {"audit", "-o", "prometheus"}, {"explain", "30001"}, {"explain", "10.37.0.1"},
				{"explain", "default/kubernetes"}, {"preflight", "--to", "1.37"}, {"repair"},
			} {
				code, stdout, stderr := run(t, append(command, "--etcd-snapshot", file)...)
				if code > exitFound || stdout == "" || stderr != "" {
					t.Errorf("%q: exit code %d, %.300s%s", command, code, stdout, stderr)
				}
			}
			if code, stdout, stderr := run(t, "show", "servicenodeports", "--etcd-snapshot", file); code != exitOK {
				t.Errorf("show: exit code %d, %s%s", code, stdout, stderr)
			}
			p := runJSON[preflight.Report](t, exitFound, "preflight", "--to", "1.37", "--etcd-snapshot", file)
			for _, one := range c.want {
				reason, _, _ := strings.Cut(one, " ")
				if !slices.ContainsFunc(p.Checks, func(check preflight.Check) bool { return check.Name == reason }) {
					t.Errorf("preflight lacks %s", reason)
				}
			}
			output := filepath.Join(t.TempDir(), "repaired.db")
			plan := runJSON[audit.Plan](t, exitFound, "repair", "--to-file", output, "--etcd-snapshot", file)
			if isUnknown := slices.ContainsFunc(plan.Unknown, func(u audit.Unknown) bool { return u.What == "unrecorded and leaked values" }); isUnknown && c.rebuilt == audit.ActionWrite {
				t.Errorf("unknown after the repair: %q", plan.Unknown)
			}
			action := ""
			for _, r := range plan.Ranges {
				action += r.Action
			}
			if action != c.rebuilt {
				t.Errorf("the repair makes of the range: %q", action)
			}
			code, stdout, _ := run(t, "audit", "-o", "json", "--etcd-snapshot", output)
			if code > exitFound || c.rebuilt != "" && strings.Contains(stdout, "RangeNotReadable") || c.rebuilt == audit.ActionWrite && strings.Contains(stdout, "RangeMissing") ||
				strings.Contains(stdout, "PortNotAllocated") {
				t.Errorf("after the repair: exit code %d, %.2000s", code, stdout)
			}
		})
	}
}

// TestLostRangeIsSetUp repairs snapshots whose Services have no node port outside of the default range. What is written
// is right in the eyes of another audit.
func TestLostRangeIsSetUp(t *testing.T) {
	for name, value := range map[string][]byte{"damaged": []byte("k8s\x00junk"), "missing": nil, "of addresses": stored(t, "10.0.0.0/24", nil)} {
		file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{"/registry/ranges/servicenodeports": value})
		output := filepath.Join(t.TempDir(), "repaired.db")
		plan := runJSON[audit.Plan](t, exitOK, "repair", "--to-file", output, "--etcd-snapshot", file)
		if len(plan.Ranges) != 1 || plan.Ranges[0].Action != audit.ActionWrite || len(plan.Ranges[0].Set) == 0 || plan.Summary.Findings.Found != 0 {
			t.Errorf("%s: %+v", name, plan)
		}
		before := runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", etcdtest.Fixture("kube-1.37-dual-stack", "clean.db.gz"))
		after := runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", output)
		if !slices.Equal(after.Ranges, before.Ranges) {
			t.Errorf("%s: %+v, before %+v", name, after.Ranges, before.Ranges)
		}
	}
}

// TestLostRangeOfOtherPorts has no readable range, and a Service with a node port outside of the default range: nobody
// knows the range, so the repair of a snapshot deletes what no server can read, and says nothing about other ports.
func TestLostRangeOfOtherPorts(t *testing.T) {
	service := []byte(`{"kind":"Service","apiVersion":"v1","metadata":{"name":"low","namespace":"default"},"spec":{"type":"NodePort","clusterIP":"10.37.0.77",
		"ports":[{"port":80,"nodePort":20001}]}}`)
	file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{
		"/registry/ranges/servicenodeports": []byte("k8s\x00junk"), "/registry/services/specs/default/low": service,
	})
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	if _, found := foundIn(r); !slices.Equal(found, []string{"RangeNotReadable RangeAllocation servicenodeports"}) ||
		slices.ContainsFunc(r.Findings, func(f audit.Finding) bool { return f.Reason == "PortOutOfRange" }) {
		t.Errorf("%+v", r.Findings)
	}
	if code, _, stderr := run(t, "free", "servicenodeports", "--etcd-snapshot", file); code != exitInput || !strings.Contains(stderr, "is missing or cannot be read") {
		t.Errorf("free: exit code %d, %s", code, stderr)
	}
	output := filepath.Join(t.TempDir(), "repaired.db")
	run(t, "repair", "--to-file", output, "--etcd-snapshot", file)
	if _, found := foundIn(runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", output)); !slices.Equal(found, []string{"RangeMissing RangeAllocation servicenodeports"}) {
		t.Errorf("after the repair: %q", found)
	}
}

// TestRangeNotRead says when a range of node ports is known again that this program cannot read: one that servers read
// is written by them, and one that is lost is set up again. Neither is a matter of the source or of a probe.
func TestRangeNotRead(t *testing.T) {
	const byHand = "---\n# edited by hand\napiVersion: v1\nkind: RangeAllocation\nmetadata: {}\nrange: 30000-32767\ndata: \"\"\n"
	service := func(port string) []byte {
		return []byte(`{"kind":"Service","apiVersion":"v1","metadata":{"name":"low","namespace":"default"},"spec":{"type":"NodePort","clusterIP":"10.37.0.77",
		"ports":[{"port":80,"nodePort":` + port + `}]}}`)
	}
	for _, c := range []struct{ name, port, value, explained, remedy string }{
		{"by hand", "30001", byHand, "Repair: unknown until a server writes the range in its own form", "Look again after a server has next allocated"},
		{"by hand, other ports", "20001", byHand, "an API server reads it, and this version of rangekeeper does not", "Look again after a server has next allocated"},
		{"damaged", "30001", "k8s\x00junk", "Repair: none before the range is set up again", "Set the range up again first: see RangeNotReadable."},
		{"missing", "30001", "", "Repair: none before the range is set up again", "Set the range up again first: see RangeMissing."},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := map[string][]byte{nodePortsKey: nil, "/registry/services/specs/default/low": service(c.port)}
			if c.value != "" {
				values[nodePortsKey] = []byte(c.value)
			}
			file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", values)
			_, explained, _ := run(t, "explain", c.port, "--etcd-snapshot", file)
			text := strings.Join(strings.Fields(explained), " ")
			if !strings.Contains(text, c.explained) || strings.Contains(text, "audit the etcd") || strings.Contains(text, "--service-node-port-range") {
				t.Error(explained)
			}
			_, checks, _ := run(t, "preflight", "--to", "1.37", "--etcd-snapshot", file)
			text = strings.Join(strings.Fields(checks), " ")
			if !strings.Contains(text, c.remedy) || strings.Contains(text, "Read etcd or an etcd snapshot") || strings.Contains(text, "--probe") {
				t.Error(checks)
			}
		})
	}
}
