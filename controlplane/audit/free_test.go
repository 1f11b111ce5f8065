package audit_test

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// freeOf returns the free values of a range among its values in ascending order, the first of which form the static
// band: those that are neither recorded nor used.
func freeOf(values []string, staticBand int, taken map[string]bool) (static, dynamic []string) {
	for i, value := range values {
		switch {
		case taken[value]:
		case i < staticBand:
			static = append(static, value)
		default:
			dynamic = append(dynamic, value)
		}
	}
	return static, dynamic
}

func compareFree(t *testing.T, a *audit.Audit, name string, row int, static, dynamic []string) {
	t.Helper()
	const n = 100
	free, err := a.Free(name, n)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{static, dynamic} {
		got := free.Bands[2*row+i]
		if got.Free != (audit.Amount{N: uint64(len(want))}) || !slices.Equal(got.Next, want[:min(n, len(want))]) {
			t.Errorf("%s %s: %d free, want %d; %q, want %q", got.Range, got.Band, got.Free.N, len(want), got.Next, want[:min(n, len(want))])
		}
	}
}

// TestFree compares the free values of damaged clusters with those of a naive count.
func TestFree(t *testing.T) {
	for _, cluster := range etcdtest.FixtureClusters {
		a, state := newAudit(t, cluster.Name, "drift.db.gz", audit.Options{})
		taken := map[string]bool{}
		for _, spec := range state.Services.All() {
			taken[strconv.Itoa(int(spec.HealthCheckNodePort))] = true
			for _, port := range spec.Ports {
				taken[strconv.Itoa(int(port.NodePort))] = true
			}
		}
		object, err := rangekeeper.DecodeRangeAllocation(state.Ranges[clusterstate.ServiceNodePorts].Value)
		if err != nil {
			t.Fatal(err)
		}
		data, err := object.Data(nil)
		if err != nil {
			t.Fatal(err)
		}
		bits := new(big.Int).SetBytes(data)
		var ports []string
		for port := 30000; port <= 32767; port++ {
			if bits.Bit(port-30000) == 1 {
				taken[strconv.Itoa(port)] = true
			}
			ports = append(ports, strconv.Itoa(port))
		}
		static, dynamic := freeOf(ports, 86, taken) // 2768 / 32
		compareFree(t, a, clusterstate.ServiceNodePorts, 0, static, dynamic)
		if cluster.Name != etcdtest.SingleStack {
			continue
		}
		taken = map[string]bool{}
		for _, s := range state.Services.All() {
			for _, ip := range s.ClusterIPs {
				taken[ip] = true
			}
		}
		for o := range state.IPAddresses.All() {
			taken[o.Name] = true
		}
		var addresses []string
		for ip := netip.MustParseAddr("10.0.0.1"); ip != netip.MustParseAddr("10.0.255.255"); ip = ip.Next() {
			addresses = append(addresses, ip.String())
		}
		static, dynamic = freeOf(addresses, 256, taken)
		compareFree(t, a, "kubernetes", 0, static, dynamic)
		if _, err := a.Free("other", 1); err == nil {
			t.Error("a range that does not exist has free values")
		}
	}
}

// TestUnknownRanges audits a state of a source that knows no range.
func TestUnknownRanges(t *testing.T) {
	service := func(name, ip string, port int32) (s corev1.Service) {
		s.Namespace, s.Name, s.Spec.ClusterIP, s.Spec.Ports = "ns", name, ip, []corev1.ServicePort{{Protocol: "TCP", NodePort: port}}
		return s
	}
	services := []corev1.Service{service("a", "10.0.0.1", 30001), service("b", "10.0.0.1", 30001), service("c", "None", 0)}
	state := &clusterstate.State{Revision: 1, Unseen: &clusterstate.Unseen{WhyNoMetrics: "no metrics"}, Services: etcdtest.List(services...)}
	audited := func() *audit.Audit {
		a, err := audit.New(state, audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := audited()
	var found []string
	for _, f := range a.Report().Findings {
		found = append(found, f.Reason+" "+f.Value)
	}
	if want := []string{"ClusterIPAlreadyAllocated 10.0.0.1", "PortAlreadyAllocated 30001"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
	if r := a.Report().Ranges; len(r) != 1 || r[0].Range != audit.DefaultNodePortRange || r[0].Used != (audit.Amount{N: 1, Unseen: true}) || r[0].Size != (audit.Amount{N: 2768}) || r[0].Mode != audit.ModeUnseen {
		t.Errorf("%+v", r)
	}
	taken := func(u audit.Unknown) bool {
		return u.What == "the range of node ports" && strings.Contains(u.Message, "taken to be kube-apiserver's default, 30000-32767: no metrics; ")
	}
	if !slices.ContainsFunc(a.Report().Unknown, taken) {
		t.Errorf("%q", a.Report().Unknown)
	}
	if free, err := a.Free(clusterstate.ServiceNodePorts, 1); err != nil || free.Bands[0].Next[0] != "30000" || !slices.ContainsFunc(free.Unknown, taken) {
		t.Errorf("free ports of the default: %+v, %v", free, err)
	}
	services[2] = service("c", "None", 29999)
	state.Services = etcdtest.List(services...)
	a = audited()
	if r := a.Report().Ranges; r[0].Range != "" || !r[0].Size.Unseen || !r[0].Free.Unseen || len(a.Report().Findings) != 2 {
		t.Errorf("with a port outside the default: %+v, %+v", r, a.Report().Findings)
	}
	if _, err := a.Free(clusterstate.ServiceNodePorts, 1); err == nil {
		t.Error("free ports of an unknown range")
	}
	state.Unseen.NodePortRange = audit.DefaultNodePortRange
	if f := audited().Report().Findings; len(f) != 3 {
		t.Errorf("with the range: %+v", f)
	}
	allocated := func(port uint16) *bool {
		e, err := audited().Explain(rangekeeper.PortValue(port))
		if err != nil || len(e.Places) != 1 {
			t.Fatal(e, err)
		}
		return e.Places[0].Allocated
	}
	if used, unused := allocated(30001), allocated(30002); used != nil || unused != nil {
		t.Errorf("ports of a bitmap that cannot be read: %v, %v", used, unused)
	}
	state.Unseen.RecordedNodePorts, state.Unseen.Probed = []uint16{30001, 30007}, true
	if used, unused := allocated(30001), allocated(30002); used == nil || !*used || unused != nil {
		t.Errorf("with ports that a server refuses: %v, %v", used, unused)
	}
	if l := audited().Report().Leaks; len(l) != 1 || l[0].Value != "30007" {
		t.Errorf("with ports that a server refuses: %+v", l)
	}
}

// TestNodePortCounts has the metrics of an API server, which say how large its range is, and how many ports it counted
// once.
func TestNodePortCounts(t *testing.T) {
	const doubt = "the metrics of the API server count 300 node ports, and 30000-32767"
	for name, c := range map[string]struct {
		metrics       clusterstate.NodePortCounts
		named         string
		port, health  int32
		probed        bool
		want          []string
		wide, suspect bool
		size          uint64 // of a wide range
		full          string // the finding
		refused       string
	}{
		"more": {
			metrics: clusterstate.NodePortCounts{Allocated: 4, Available: 2764}, port: 30001, suspect: true,
			want: []string{"counted 4 as allocated at its last allocation or release, 2 more than Services use; a repair or another server may have changed the range since"},
		},
		"more, probed": {
			metrics: clusterstate.NodePortCounts{Allocated: 4, Available: 2764}, port: 30001, probed: true,
			want: []string{"2 more than Services use"},
		},
		"as many": {
			metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 2766}, port: 30001,
			want: []string{"counted 2 as allocated at its last allocation or release, as many as Services use; a repair"},
		},
		"fewer": {
			metrics: clusterstate.NodePortCounts{Allocated: 0, Available: 2768}, port: 30001,
			want: []string{"counted 0 as allocated at its last allocation or release, 2 fewer than Services use; a repair"},
		},
		"another range": {
			metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 298}, port: 30001, wide: true, size: 300,
			want:    []string{"it is not known, and " + doubt + ", kube-apiserver's default, has 2768; name it with --service-node-port-range"},
			refused: doubt + ", kube-apiserver's default, has 2768; name the range of the API servers with --service-node-port-range",
		},
		"a port outside the default": {
			metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 2766}, port: 30001, health: 29999, wide: true, size: 2768,
			want:    []string{"it is not known, and Services have node ports (1) that are not in 30000-32767, kube-apiserver's default; name it"},
			refused: "Services have node ports (1) that are not in 30000-32767, kube-apiserver's default; name the range of the API servers with --service-node-port-range",
		},
		"few and full": {
			metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 0}, port: 30001, wide: true, size: 2, full: "RangeFull 2 node ports",
			refused: "count 2 node ports",
		},
		"few, one free": { // it is 40000 or 40003
			metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 1}, port: 40001, health: 40002, wide: true, size: 3,
			full: "RangeNearlyFull 3 node ports", refused: "that are not in 30000-32767",
		},
		"few, wide apart": { // another server has counted
			metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 0}, port: 30001, health: 30003, wide: true,
			refused: "count 2 node ports",
		},
		"the last ports": {
			metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 3}, port: 65535, health: 65534, wide: true, size: 5,
			refused: "that are not in 30000-32767",
		},
		"named": {metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 298}, port: 30001, named: "30000-30299"},
		"named wrongly": {
			metrics: clusterstate.NodePortCounts{Allocated: 2, Available: 298}, port: 30001, named: "30000-32767",
			want:    []string{doubt + " has 2768; is --service-node-port-range that of the API server?"},
			refused: doubt + " has 2768; name the range",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var one, other corev1.Service
			one.Spec.Ports = []corev1.ServicePort{{Protocol: "TCP", NodePort: c.port}, {Protocol: "UDP"}}
			other.Spec.HealthCheckNodePort = cmp.Or(c.health, 30002)
			state := &clusterstate.State{Revision: 1, Services: etcdtest.List(one, other), Unseen: &clusterstate.Unseen{
				Metrics: &c.metrics, NodePortRange: c.named, Probed: c.probed,
			}}
			a, err := audit.New(state, audit.Options{FindsFullRanges: true, WarnFree: 34})
			if err != nil {
				t.Fatal(err)
			}
			report := a.Report()
			if size := report.Ranges[0].Size; c.wide && size.Unseen != (c.size == 0) || c.size > 0 && size.N != c.size {
				t.Errorf("size: %+v", size)
			}
			full := ""
			for _, f := range report.Findings {
				if f.Range == clusterstate.ServiceNodePorts {
					full += f.Reason + " " + f.Value
				}
			}
			if full != c.full {
				t.Errorf("findings: %q", full)
			}
			for _, want := range c.want {
				if !slices.ContainsFunc(report.Unknown, func(u audit.Unknown) bool { return strings.Contains(u.Message, want) }) {
					t.Errorf("%q is not in %q", want, report.Unknown)
				}
			}
			if wide := report.Ranges[0].Range == ""; wide != c.wide || report.SuspectsLeaks != c.suspect {
				t.Errorf("all ports: %v, suspects leaks: %v", wide, report.SuspectsLeaks)
			}
			if _, err := audit.NodePortRange(state); (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("a probe: %v", err)
			}
		})
	}
}

// TestRangeOutside has an address that no ServiceCIDR has: the first one by name has nothing to do with it.
func TestRangeOutside(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{{[]string{"aa", "kubernetes", "zz"}, "kubernetes"}, {[]string{"aa", "zz"}, ""}, {[]string{"aa"}, "aa"}} {
		state := &clusterstate.State{Revision: 1, Unseen: &clusterstate.Unseen{NodePortRange: audit.DefaultNodePortRange},
			Services: etcdtest.List(corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.ServiceSpec{ClusterIP: "192.0.2.1"}})}
		for i, name := range c.names {
			var s networkingv1.ServiceCIDR
			s.Name, s.Spec.CIDRs = name, []string{fmt.Sprintf("10.%d.0.0/16", i)}
			state.ServiceCIDRs = append(state.ServiceCIDRs, s)
		}
		a, err := audit.New(state, audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f := a.Report().Findings; len(f) != 1 || f[0].Reason != "ClusterIPOutOfRange" || f[0].Range != c.want {
			t.Errorf("%v: %+v, want %q", c.names, f, c.want)
		}
	}
}
