package audit_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// serverState has a lease of a dead server that never expires.
func serverState() *clusterstate.State {
	ranges := map[string]clusterstate.StoredRange{}
	for name, text := range map[string]string{"serviceips": "10.96.0.0/12", "servicenodeports": "30000-32767"} {
		value, err := clusterstate.EncodeRange(text, nil)
		if err != nil {
			panic(err)
		}
		ranges[name] = clusterstate.StoredRange{Key: "/registry/ranges/" + name, Value: value}
	}
	return &clusterstate.State{
		Revision: 100, Identity: clusterstate.Identity{Prefix: "/registry"}, Ranges: ranges,
		Services: etcdtest.List(corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}),
		Bootstrap: &clusterstate.Bootstrap{
			Leases:        []clusterstate.ServerLease{{Key: "/registry/masterleases/192.0.2.1", Value: []byte("k8s:enc:aescbc:v1:key1:"), ModRevision: 90, ID: 7, State: clusterstate.LeaseMissing}},
			ObjectsUnseen: "not allowed", Namespaces: []string{"default", "kube-node-lease", "kube-public", "kube-system"},
		},
	}
}

// TestServerLease judges one lease in data at rest, in a running cluster, and after a second look.
func TestServerLease(t *testing.T) {
	planned := func(o audit.Options) (*audit.Audit, *audit.Plan) {
		t.Helper()
		o.Judge = rangekeeper.BootstrapPlan
		a, err := audit.New(serverState(), o)
		if err != nil {
			t.Fatal(err)
		}
		if f := a.Report().Findings; len(f) != 1 || f[0].Reason != "LeaseNeverExpires" || f[0].Kind != audit.KindMasterLease || f[0].Name != "192.0.2.1" ||
			f[0].Severity != audit.BreaksTraffic || f[0].Subject() != "default/kubernetes" {
			t.Fatalf("%+v", f)
		}
		p, err := a.Plan()
		if err != nil {
			t.Fatal(err)
		}
		return a, p
	}
	if _, p := planned(audit.Options{}); len(p.ServerObjects) != 1 || p.ServerObjects[0].Action != audit.ActionDelete || !p.ChangesAny() || p.LookedAtAgain() != 0 {
		t.Errorf("at rest: %+v", p)
	}
	now := time.Now()
	a, p := planned(audit.Options{Now: now})
	if len(p.ServerObjects) != 0 || p.ChangesAny() || p.LookedAtAgain() != 1 || a.LookAgain() != 30*time.Second {
		t.Errorf("running: %s, %+v", a.LookAgain(), p)
	}
	for watched, want := range map[time.Duration]int{29 * time.Second: 0, 30 * time.Second: 1} {
		a, _ := planned(audit.Options{Now: now, Earlier: serverState().Bootstrap, Watched: watched})
		objects, err := a.ServerObjects(now)
		if err != nil || len(objects) != want {
			t.Errorf("after %s: %+v, %v", watched, objects, err)
		}
		if want == 1 && (objects[0].Key != "/registry/masterleases/192.0.2.1" || objects[0].ModRevision != 90 || objects[0].Value != nil) {
			t.Errorf("%+v", objects[0])
		}
	}
	written := serverState().Bootstrap
	written.Leases[0].ModRevision = 89
	if a, _ := planned(audit.Options{Now: now, Earlier: written, Watched: time.Minute}); a.LookAgain() == 0 {
		t.Error("a lease that was written meanwhile is deleted")
	}
}

// TestLongLease takes a lease that lasts for hours for one that never expires, and waits no longer for it.
func TestLongLease(t *testing.T) {
	state := serverState()
	lease := &state.Bootstrap.Leases[0]
	lease.State = clusterstate.LeaseGranted
	for ttl, want := range map[time.Duration]int{time.Minute: 0, time.Minute + time.Second: 1, 10 * time.Hour: 1} {
		lease.TTL = ttl
		a, err := audit.New(state, audit.Options{Judge: rangekeeper.BootstrapPlan, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if f := a.Report().Findings; len(f) != want || want > 0 && (f[0].Reason != "LeaseNeverExpires" || a.LookAgain() != 30*time.Second) {
			t.Errorf("%s: %+v, %s", ttl, f, a.LookAgain())
		}
	}
}

// TestLeaseNotUTF8 judges and deletes a lease whose key is no text, beside others.
func TestLeaseNotUTF8(t *testing.T) {
	const key = "/registry/masterleases/\xff\xfe"
	state := serverState()
	state.Bootstrap.Leases = append(state.Bootstrap.Leases, clusterstate.ServerLease{Key: key, Value: []byte("damaged"), ModRevision: 91, State: clusterstate.LeaseMissing})
	a, err := audit.New(state, audit.Options{Judge: rangekeeper.BootstrapPlan})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := a.ServerObjects(time.Now())
	if err != nil || len(objects) != 2 || objects[1].Key != key || objects[1].Name != `\xff\xfe` || objects[1].ModRevision != 91 {
		t.Errorf("%+v, %v", objects, err)
	}
	if f := a.Report().Findings; len(f) != 3 {
		t.Errorf("%+v", f)
	}
}

// TestServersUnseen says what is not known of API servers, but not of a namespace, which they do not belong to.
func TestServersUnseen(t *testing.T) {
	a, err := audit.New(serverState(), audit.Options{Judge: rangekeeper.BootstrapPlan})
	if err != nil {
		t.Fatal(err)
	}
	r := a.Report()
	var messages []string
	for _, u := range r.Unknown {
		messages = append(messages, u.Message)
	}
	want := []string{"endpoints of API servers that have ended: only leases show them, and values are encrypted at rest", "the endpoints of the Service kubernetes: not allowed"}
	if !slices.Equal(messages, want) || !r.Summary.BySeverity.BreaksTraffic.IsAtLeast || len(r.Servers) != 1 || r.Servers[0].InEndpoints != nil {
		t.Errorf("%q, %+v", messages, r)
	}
	if in := r.InNamespace("web"); len(in.Unknown)+len(in.Findings)+len(in.Servers) > 0 {
		t.Errorf("%+v", in)
	}
	refuses := func(_, _ []byte) ([]byte, error) { return nil, rangekeeper.ErrInvalidArgument }
	for text, judge := range map[string]audit.Judge{"the plugin of kubectl is built without their audit": nil, "the system namespaces: ": refuses} {
		a, err = audit.New(serverState(), audit.Options{Judge: judge})
		if err != nil {
			t.Fatal(err)
		}
		if u := a.Report().Unknown; len(u) != 1 || !strings.Contains(u[0].Message, text) {
			t.Errorf("%s: %+v", text, u)
		}
	}
}

// TestEndpointsRepair writes Endpoints that nobody repairs, and their slice, as an API server would store them.
func TestEndpointsRepair(t *testing.T) {
	state := serverState()
	lease, err := json.Marshal(corev1.Endpoints{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		Subsets:  []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := state.Bootstrap
	b.Leases[0].Value, b.Leases[0].State, b.ObjectsUnseen = lease, clusterstate.LeaseGranted, ""
	b.Endpoints = &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", UID: "uid", ResourceVersion: "80", Annotations: map[string]string{"kept": "yes"}},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "192.0.2.9"}}, Ports: []corev1.EndpointPort{{Name: "https", Port: 6443, Protocol: corev1.ProtocolTCP}},
		}},
	}
	a, err := audit.New(state, audit.Options{Judge: rangekeeper.BootstrapPlan, Now: time.Now(), Earlier: b, Watched: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := a.ServerObjects(time.Now())
	if err != nil || len(objects) != 2 {
		t.Fatalf("%+v, %v: %+v", objects, err, a.Report().Findings)
	}
	endpoints, slice := objects[0], objects[1]
	if endpoints.Key != "/registry/services/endpoints/default/kubernetes" || endpoints.ModRevision != 80 || endpoints.Action != audit.ActionWrite {
		t.Errorf("%+v", endpoints)
	}
	if slice.Key != "/registry/endpointslices/default/kubernetes" || slice.ModRevision != 0 || slice.Action != audit.ActionWrite {
		t.Errorf("%+v", slice)
	}
	if raw, ok := strings.CutPrefix(string(endpoints.Value), "k8s\x00"); !ok || !strings.Contains(raw, "192.0.2.1") || strings.Contains(raw, "192.0.2.9") || !strings.Contains(raw, "kept") {
		t.Errorf("%q", endpoints.Value)
	}

	// Without Endpoints, and with those of a wrong form, the port is that of the Service and the slice. That of the
	// Service alone may be wrong, and servers would keep it.
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(26443), Protocol: corev1.ProtocolTCP}},
	}}
	two := b.Endpoints.DeepCopy()
	two.Subsets = append(two.Subsets, two.Subsets...)
	for version, damaged := range map[int64]*corev1.Endpoints{0: nil, 80: two} {
		state := *state
		state.Services = etcdtest.List(append([]corev1.Service{service}, etcdtest.Objects(&state.Services)...)...)
		state.ServiceCIDRs = []networkingv1.ServiceCIDR{{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}}}
		bootstrap := *b
		bootstrap.Service, bootstrap.Endpoints = &service, damaged
		state.Bootstrap = &bootstrap
		undecided, err := audit.New(&state, audit.Options{Judge: rangekeeper.BootstrapPlan, Now: time.Now(), Earlier: &bootstrap, Watched: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		objects, err := undecided.ServerObjects(time.Now())
		if u := undecided.Report().Unknown; err != nil || len(objects) > 0 || len(u) != 1 || !strings.HasPrefix(u[0].Message, "on which port the API servers listen: ") {
			t.Errorf("%+v, %+v, %v", objects, u, err)
		}
		bootstrap.Slices = []discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", ResourceVersion: "70"}, AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(26443)), Protocol: new(corev1.ProtocolTCP)}},
		}}
		a, err := audit.New(&state, audit.Options{Judge: rangekeeper.BootstrapPlan, Now: time.Now(), Earlier: &bootstrap, Watched: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		objects, err = a.ServerObjects(time.Now())
		if err != nil || len(objects) != 2 || objects[1].ModRevision != 70 || objects[0].ModRevision != version || objects[0].Kind != audit.KindEndpoints {
			t.Fatalf("%+v, %v: %+v", objects, err, a.Report().Findings)
		}
		var written corev1.Endpoints
		raw := objects[0].Value[len("k8s\x00"):]
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(raw); err == nil {
			err = written.Unmarshal(unknown.Raw)
		}
		if err != nil || len(written.Subsets) != 1 || written.Subsets[0].Addresses[0].IP != "192.0.2.1" || written.Subsets[0].Ports[0].Port != 26443 {
			t.Errorf("%+v, %v", written, err)
		}
		if version == 0 && (written.UID == "" || written.CreationTimestamp.IsZero()) {
			t.Errorf("%+v", written.ObjectMeta)
		}
	}

	// A server whose lease has expired between the looks was alive.
	earlier := *b
	earlier.Leases = append(slices.Clone(b.Leases), clusterstate.ServerLease{
		Key: "/registry/masterleases/192.0.2.9", Value: []byte(strings.Replace(string(lease), "192.0.2.1", "192.0.2.9", 1)), ID: 9, State: clusterstate.LeaseGranted,
	})
	a, err = audit.New(state, audit.Options{Judge: rangekeeper.BootstrapPlan, Now: time.Now(), Earlier: &earlier, Watched: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	objects, err = a.ServerObjects(time.Now())
	if err != nil || len(objects) != 2 || !strings.Contains(string(objects[0].Value), "192.0.2.9") {
		t.Errorf("%+v, %v", objects, err)
	}

	// If no lease is left at the second look, the plan says what it does not know then.
	plan, err := a.Plan()
	if err != nil {
		t.Fatal(err)
	}
	gone := *b
	gone.Leases = nil
	later := *state
	later.Bootstrap = &gone
	a, err = audit.New(&later, audit.Options{Judge: rangekeeper.BootstrapPlan, Now: time.Now(), Earlier: b, Watched: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	before := len(plan.Unknown)
	plan.ServersRepaired(a, nil)
	if u := plan.Unknown; before != 0 || len(u) != 1 || !strings.Contains(u[0].Message, "no server holds a lease") {
		t.Errorf("%d, %+v", before, u)
	}

	// A server that wrote its lease between the looks was paused, and is not dead.
	slow := clusterstate.ServerLease{Key: "/registry/masterleases/192.0.2.9", Value: []byte(strings.Replace(string(lease), "192.0.2.1", "192.0.2.9", 1)), ModRevision: 95, ID: 8}
	a, err = audit.New(state, audit.Options{Judge: rangekeeper.BootstrapPlan, Now: time.Now(), Earlier: b, Watched: time.Minute, Renewed: []clusterstate.ServerLease{slow}})
	if err != nil {
		t.Fatal(err)
	}
	objects, err = a.ServerObjects(time.Now())
	if err != nil || len(objects) != 2 || !strings.Contains(string(objects[0].Value), "192.0.2.1") || !strings.Contains(string(objects[0].Value), "192.0.2.9") {
		t.Errorf("%+v, %v", objects, err)
	}
}
