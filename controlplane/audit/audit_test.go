package audit_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// verdict is what the reference said of a fixture.
type verdict struct {
	Events      []event `json:"events"`
	LeakFlagged struct {
		ClusterIP, NodePort []string
	} `json:"leak_flagged"`
	LeakedIPAddresses []string `json:"leaked_ip_addresses"`
}

type event struct{ Reason, Namespace, Name, Value string }

func readVerdict(t *testing.T, cluster string) verdict {
	t.Helper()
	b, err := os.ReadFile(etcdtest.Fixture(cluster, "upstream-verdict.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v verdict
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func newAudit(t *testing.T, cluster, file string, o audit.Options) (*audit.Audit, *clusterstate.State) {
	t.Helper()
	state, err := clusterstate.ReadSnapshotFile(t.Context(), etcdtest.Fixture(cluster, file), clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := audit.New(state, o)
	if err != nil {
		t.Fatal(err)
	}
	return a, state
}

// claimants returns the Services that use each address and port.
func claimants(state *clusterstate.State) map[string][]string {
	claims := map[string][]string{}
	for _, s := range state.Services.All() {
		values := map[string]bool{}
		for _, ip := range s.ClusterIPs {
			values[ip] = true
		}
		for _, p := range s.Ports {
			values[strconv.Itoa(int(p.NodePort))] = true
		}
		values[strconv.Itoa(int(s.HealthCheckNodePort))] = true
		delete(values, "0")
		delete(values, "None")
		for v := range values {
			claims[v] = append(claims[v], s.Namespace+"/"+s.Name)
		}
	}
	return claims
}

// TestDriftGivesTheVerdictOfTheReference compares with the reference's Events. Of
// several with one reason about one object its recorder keeps a single Event,
// which names one of the values.
func TestDriftGivesTheVerdictOfTheReference(t *testing.T) {
	for _, fixture := range etcdtest.FixtureClusters {
		cluster := fixture.Name
		t.Run(cluster, func(t *testing.T) {
			want := readVerdict(t, cluster)
			a, state := newAudit(t, cluster, "drift.db.gz", audit.Options{})
			r := a.Report()
			claims := claimants(state)
			// Which of two duplicates is named depends on the order of the list, so
			// those stand for all that use the value.
			subject := func(e event) string {
				who := e.Namespace + "/" + e.Name
				if e.Namespace == "" {
					return e.Reason + " " + who
				}
				names := claims[e.Value]
				if !slices.Contains(names, who) {
					t.Errorf("%+v: used by %v", e, names)
				}
				if strings.HasSuffix(e.Reason, "AlreadyAllocated") {
					if len(names) < 2 {
						t.Errorf("%+v: used by %v", e, names)
					}
					who = strings.Join(names, ",")
				}
				return e.Reason + " " + who
			}
			got := map[string][]string{}
			for _, f := range r.Findings {
				if f.Message == "" {
					t.Errorf("%+v has no message", f)
				}
				if f.Reason == rangekeeper.ReasonBitmapDisagrees.String() {
					continue // the reference never compares them; see TestBitmapDisagrees
				}
				key := subject(event{f.Reason, f.Namespace, f.Name, f.Value})
				got[key] = append(got[key], f.Value)
			}
			events := map[string]bool{}
			for _, e := range want.Events {
				key := subject(e)
				events[key] = true
				if !slices.Contains(got[key], e.Value) {
					t.Errorf("%+v is missing, found %v", e, got[key])
				}
				explained := explain(t, a, e.Value)
				if !slices.ContainsFunc(explained.Findings, func(f audit.Finding) bool { return f.Reason == e.Reason }) {
					t.Errorf("%+v is explained by %+v", e, explained.Findings)
				}
			}
			for key, values := range got {
				if !events[key] {
					t.Errorf("%s %v is not in the verdict", key, values)
				}
			}

			wantLeaks := slices.Sorted(slices.Values(slices.Concat(want.LeakFlagged.ClusterIP, want.LeakFlagged.NodePort, want.LeakedIPAddresses)))
			var leaks []string
			for _, l := range r.Leaks {
				leaks = append(leaks, l.Value)
			}
			slices.Sort(leaks)
			for _, value := range wantLeaks {
				if !explain(t, a, value).IsLeaked() {
					t.Errorf("%s is not explained as a leak", value)
				}
			}
			if !slices.Equal(leaks, wantLeaks) {
				t.Errorf("leaks\ngot  %v\nwant %v", leaks, wantLeaks)
			}
			summary := r.Summary
			summary.BySeverity, summary.Found = audit.BySeverity{}, audit.Found{}
			if want := (audit.Summary{Findings: audit.Count{Found: len(r.Findings)}, Leaks: audit.Count{Found: len(leaks)}, Services: uint64(state.Services.Len())}); summary != want {
				t.Errorf("got %+v, want %+v", summary, want)
			}
		})
	}
}

func explain(t *testing.T, a *audit.Audit, text string) *audit.Explanation {
	t.Helper()
	value, err := rangekeeper.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	explanation, err := a.Explain(value)
	if err != nil {
		t.Fatal(err)
	}
	return explanation
}

// audits are the fixtures and how each can be audited: 1.33 keeps ClusterIPs in bitmaps and in objects.
func audits() (all []auditOf) {
	for _, fixture := range etcdtest.FixtureClusters {
		all = append(all, auditOf{fixture.Name, fixture.Bitmaps, audit.Options{}})
		if fixture.Name == etcdtest.DualWrite {
			all = append(all, auditOf{fixture.Name, []string{"serviceips", "secondaryserviceips", "servicenodeports"}, audit.Options{Bitmap: true}})
		}
	}
	return all
}

type auditOf struct {
	cluster string
	bitmaps []string
	options audit.Options
}

// TestNotAllocatedIsAllThatIsUsedAndNotStored compares with big integers, and with the references of objects.
func TestNotAllocatedIsAllThatIsUsedAndNotStored(t *testing.T) {
	for _, of := range audits() {
		a, state := newAudit(t, of.cluster, "drift.db.gz", of.options)
		claims := claimants(state)
		want := map[string]bool{}
		for name, first := range map[string]string{"serviceips": "10.96.0.1", "secondaryserviceips": "fd00:10:96::1", "servicenodeports": "30000"} {
			stored, ok := state.Ranges[name]
			if !ok || !slices.Contains(of.bitmaps, name) {
				continue
			}
			bits := storedBits(t, stored.Value)
			low := number(first)
			for value := range claims {
				if strings.Contains(value, ".") != strings.Contains(first, ".") || strings.Contains(value, ":") != strings.Contains(first, ":") {
					continue
				}
				offset := new(big.Int).Sub(number(value), low)
				if offset.Sign() >= 0 && offset.Cmp(big.NewInt(1<<20-2)) < 0 && bits.Bit(int(offset.Int64())) == 0 {
					want[value] = true
				}
			}
		}
		owners := map[string]string{}
		for o := range state.IPAddresses.All() {
			owners[o.Name] = o.ParentNamespace + "/" + o.ParentName
			if o.ParentResource != "services" {
				owners[o.Name] = ""
			}
		}
		for _, s := range state.ServiceCIDRs {
			if of.options.Bitmap {
				break
			}
			for _, text := range s.Spec.CIDRs {
				cidr := netip.MustParsePrefix(text)
				for value, services := range claims {
					addr, err := netip.ParseAddr(value)
					if err == nil && cidr.Contains(addr) && !slices.Contains(services, owners[value]) {
						want[value] = true
					}
				}
			}
		}
		got := map[string]bool{}
		for _, f := range a.Report().Findings {
			if f.Namespace != "" && strings.HasSuffix(f.Reason, "NotAllocated") {
				got[f.Value] = true
			}
		}
		if !maps.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s %+v\ngot  %v\nwant %v", of.cluster, of.options, got, want)
		}
	}
}

// TestBitmapDisagrees compares the bitmaps that 1.33 has written, as big integers, with its IPAddress objects.
func TestBitmapDisagrees(t *testing.T) {
	a, state := newAudit(t, etcdtest.DualWrite, "drift.db.gz", audit.Options{})
	services := claimants(state)
	want, unset := map[string]string{}, 0
	objects := map[string]rangekeeper.IPAddress{}
	for o := range state.IPAddresses.All() {
		objects[o.Name] = o
	}
	for name, first := range map[string]string{"serviceips": "10.96.0.1", "secondaryserviceips": "fd00:10:96::1"} {
		bits, address := storedBits(t, state.Ranges[name].Value), netip.MustParseAddr(first)
		for offset := range 1<<16 - 2 {
			value := address.String()
			o, isObject := objects[value]
			kept := isObject && o.ManagedBy == "ipallocator.k8s.io" && slices.Contains(services[value], o.ParentNamespace+"/"+o.ParentName)
			switch set := bits.Bit(offset) == 1; {
			case set && !isObject && len(services[value]) == 0:
				want[value] = audit.KindServiceCIDR + " kubernetes"
			case !set && kept:
				want[value] = audit.KindIPAddress + " " + value
				unset++
			case !set && len(services[value]) > 0:
				want[value] = audit.KindService + " " + services[value][0]
				unset++
			}
			address = address.Next()
		}
	}
	got := map[string]string{}
	for _, f := range a.Report().Findings {
		if f.Reason == rangekeeper.ReasonBitmapDisagrees.String() {
			if got[f.Value] = f.Kind + " " + f.Name; f.Namespace != "" {
				got[f.Value] = f.Kind + " " + f.Namespace + "/" + f.Name
			}
		}
	}
	if !maps.Equal(got, want) || unset == 0 {
		t.Errorf("%d unset\ngot  %v\nwant %v", unset, got, want)
	}
}

// TestClaimants compares with the Services of the fixtures, whose duplicates are copies: of two of one age the one that
// the IPAddress object refers to keeps the address and the ports, or else the one that was written to etcd first.
func TestClaimants(t *testing.T) {
	for _, of := range audits() {
		_, state := newAudit(t, of.cluster, "drift.db.gz", of.options)
		// Let some copies be the older ones.
		all := etcdtest.Objects(&state.Services)
		for i := range all {
			if s := &all[i]; strings.HasPrefix(s.Name, "dup-") && s.Name < "dup-3" {
				s.CreationTimestamp.Time = s.CreationTimestamp.Add(-time.Hour)
			}
		}
		state.Services = etcdtest.List(all...)
		a, err := audit.New(state, of.options)
		if err != nil {
			t.Fatal(err)
		}
		created, revisions := map[string]string{}, map[string]int64{}
		for _, s := range state.Services.All() {
			created[s.Namespace+"/"+s.Name] = time.Unix(s.Created, 0).UTC().Format(time.RFC3339)
			revisions[s.Namespace+"/"+s.Name] = s.CreateRevision
		}
		referred := map[string]string{}
		for o := range state.IPAddresses.All() {
			if !o.WithoutParent && !of.options.Bitmap {
				referred[o.Name] = o.ParentNamespace + "/" + o.ParentName
			}
		}
		services, older := claimants(state), 0
		for _, f := range a.Report().Findings {
			if !strings.HasSuffix(f.Reason, "AlreadyAllocated") {
				if f.Claimants != nil {
					t.Errorf("%+v", f)
				}
				continue
			}
			want := slices.Clone(services[f.Value])
			slices.SortFunc(want, func(a, b string) int {
				ofObject := func(name string) int {
					for address, users := range services {
						if name == referred[address] && len(users) > 1 && slices.Contains(users, name) {
							return 0
						}
					}
					return 1
				}
				// The object of one of its addresses refers to another Service that claims it.
				isRefuted := func(name string) int {
					for address, users := range services {
						if slices.Contains(users, name) && referred[address] != name && slices.Contains(users, referred[address]) && referred[f.Value] != name {
							return 1
						}
					}
					return 0
				}
				return cmp.Or(cmp.Compare(isRefuted(a), isRefuted(b)), cmp.Compare(created[a], created[b]), cmp.Compare(ofObject(a), ofObject(b)), cmp.Compare(revisions[a], revisions[b]))
			})
			var got []string
			for i, c := range f.Claimants {
				name := c.Namespace + "/" + c.Name
				if got = append(got, name); c.Kind != audit.KindService || c.CreationTimestamp != created[name] || c.Keeps != (i == 0) || c.Tied {
					t.Errorf("%+v", c)
				}
			}
			if !slices.Equal(got, want) || len(got) < 2 || f.Namespace+"/"+f.Name == got[0] {
				t.Errorf("%+v, want %v", f, want)
			}
			// A copy is the older one, and keeps the value unless an object refers to the other Service.
			if strings.Contains(got[0], "/dup-") || created[got[1]] < created[got[0]] {
				older++
			}
		}
		if older == 0 {
			t.Errorf("%s: no copy is the older one", of.cluster)
		}
	}
}

func storedBits(t *testing.T, value []byte) *big.Int {
	t.Helper()
	var envelope runtime.Unknown
	var object corev1.RangeAllocation
	if err := envelope.Unmarshal(value[4:]); err != nil {
		t.Fatal(err)
	}
	if err := object.Unmarshal(envelope.Raw); err != nil {
		t.Fatal(err)
	}
	return new(big.Int).SetBytes(object.Data)
}

func number(value string) *big.Int {
	if addr, err := netip.ParseAddr(value); err == nil {
		return new(big.Int).SetBytes(addr.AsSlice())
	}
	n, _ := new(big.Int).SetString(value, 10)
	return n
}

func TestCleanGivesNothing(t *testing.T) {
	for _, of := range audits() {
		a, _ := newAudit(t, of.cluster, "clean.db.gz", of.options)
		if r := a.Report(); r.Has(audit.Wasted) {
			t.Errorf("%s %+v: %v, %v", of.cluster, of.options, r.Findings, r.Leaks)
		}
	}
}

func TestRanges(t *testing.T) {
	for cluster, want := range map[string][]audit.Range{
		etcdtest.DualStack: {
			{Name: "secondaryserviceips", Range: "fd00:10:96::/108", Size: audit.Amount{N: 65535}, Mode: audit.ModeBitmap},
			{Name: "serviceips", Range: "10.96.0.0/12", Size: audit.Amount{N: 1<<20 - 2}, Mode: audit.ModeBitmap},
			{Name: "servicenodeports", Range: "30000-32767", Size: audit.Amount{N: 2768}, Mode: audit.ModeBitmap},
		},
		etcdtest.SingleStack: {
			{Name: "kubernetes", Range: "10.0.0.0/16", Size: audit.Amount{N: 1<<16 - 2}, Mode: audit.ModeIPAddress},
			{Name: "servicenodeports", Range: "30000-32767", Size: audit.Amount{N: 2768}, Mode: audit.ModeBitmap},
		},
	} {
		a, state := newAudit(t, cluster, "clean.db.gz", audit.Options{})
		got := slices.Clone(a.Report().Ranges)
		for i, r := range got {
			if r.Used.N == 0 || r.Used.N+r.Free.N != r.Size.N || r.InUse != r.Used.N {
				t.Errorf("%+v", r)
			}
			if r.Mode == audit.ModeIPAddress && r.Used.N != uint64(state.IPAddresses.Len()) {
				t.Errorf("%+v: %d IPAddress objects", r, state.IPAddresses.Len())
			}
			got[i].Used, got[i].Free, got[i].InUse = audit.Amount{}, audit.Amount{}, 0
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", cluster, got, want)
		}
	}
}

// TestNotReadyServiceCIDR has a range that is being deleted, from which no server allocates.
func TestNotReadyServiceCIDR(t *testing.T) {
	_, state := newAudit(t, "kube-1.37-dual-stack", "clean.db.gz", audit.Options{})
	full := *state.ServiceCIDRs[0].DeepCopy()
	full.Name, full.Spec.CIDRs = "full", []string{"10.0.0.0/31"} // it has no address
	state.ServiceCIDRs = []networkingv1.ServiceCIDR{full, state.ServiceCIDRs[0]}
	look := func() *audit.Audit {
		t.Helper()
		a, err := audit.New(state, audit.Options{FindsFullRanges: true})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	isFull := func(f audit.Finding) bool { return f.Reason == "RangeFull" }
	if a := look(); slices.ContainsFunc(a.Report().Findings, isFull) {
		t.Errorf("%+v", a.Report().Findings)
	}
	deleted := metav1.Now()
	of := &state.ServiceCIDRs[1]
	of.DeletionTimestamp = &deleted
	a := look()
	if !slices.ContainsFunc(a.Report().Findings, isFull) {
		t.Errorf("%+v", a.Report().Findings)
	}
	if _, err := a.Free(of.Name, 1); err == nil || !strings.Contains(err.Error(), "is being deleted") {
		t.Error(err)
	}
	for _, r := range a.Report().Ranges {
		if r.Name == of.Name && (!r.NotReady || r.Free != audit.Amount{}) {
			t.Errorf("%+v", r)
		}
	}
	address := state.Services.At(0).ClusterIP
	if e := explain(t, a, address); len(e.Places) != 1 || !e.Places[0].NotReady {
		t.Errorf("%+v", e)
	}
}

// TestDuplicateOfTwoNamespaces is about both, whichever Service the finding names, and neither is known to keep the
// value if only the names could decide that.
func TestDuplicateOfTwoNamespaces(t *testing.T) {
	_, state := newAudit(t, etcdtest.DualStack, "clean.db.gz", audit.Options{})
	all := etcdtest.Objects(&state.Services)
	port := slices.IndexFunc(all, func(s corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeNodePort })
	twin := *all[port].DeepCopy()
	twin.Namespace, twin.Name = "zzz", "twin"
	state.Services = etcdtest.List(append(all, twin)...)
	a, err := audit.New(state, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, namespace := range []string{"zzz", all[port].Namespace, "nobody"} {
		for _, f := range a.Report().InNamespace(namespace).Findings {
			of[namespace]++
			for _, c := range f.Claimants {
				if f.Reason == "PortAlreadyAllocated" && (c.Keeps || !c.Tied) {
					t.Errorf("%+v", c)
				}
			}
		}
	}
	if of["zzz"] == 0 || of["zzz"] != of[all[port].Namespace] || of["nobody"] != 0 {
		t.Errorf("%v of %+v", of, a.Report().Findings)
	}
}
