package clusterstate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestFixtures compares what is read from the snapshots with what else the
// fixtures say: the range values, and the objects that the reference's verdict
// names. The file, plain and compressed, and the etcd restored from it must give
// the same state.
func TestFixtures(t *testing.T) {
	for _, fixture := range etcdtest.FixtureClusters {
		cluster := fixture.Name
		for _, name := range []string{"clean", "drift"} {
			t.Run(cluster+"/"+name, func(t *testing.T) {
				path := etcdtest.Fixture(cluster, name+".db.gz")
				s, err := clusterstate.ReadSnapshotFile(t.Context(), path, clusterstate.Options{})
				if err != nil {
					t.Fatal(err)
				}
				bins, err := filepath.Glob(etcdtest.Fixture(cluster, name+"-*.bin.gz"))
				if err != nil || len(bins) == 0 || len(bins) != len(s.Ranges) {
					t.Errorf("%d ranges, %d expected (%v)", len(s.Ranges), len(bins), err)
				}
				for _, bin := range bins {
					r := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(bin), name+"-"), ".bin.gz")
					if !bytes.Equal(s.Ranges[r].Value, etcdtest.Gunzip(t, bin)) {
						t.Errorf("%s differs from %s", r, bin)
					}
					if s.Ranges[r].Key != "/registry/ranges/"+r {
						t.Errorf("%s has key %s", r, s.Ranges[r].Key)
					}
				}
				if name == "drift" {
					checkVerdict(t, cluster, s)
				}

				plain, err := clusterstate.ReadSnapshotFile(t.Context(), etcdtest.Write(t, etcdtest.Gunzip(t, path)), clusterstate.Options{})
				if err != nil || !reflect.DeepEqual(plain, s) {
					t.Errorf("the uncompressed file reads differently (%v)", err)
				}
				client := etcdtest.Start(t, path).Client()
				var done, total int64
				online, err := clusterstate.ReadEtcd(t.Context(), client, clusterstate.Options{Progress: func(d, n int64) { done, total = d, n }})
				if err != nil {
					t.Fatal(err)
				}
				if online.Identity.UID == "" {
					t.Error("the Namespace kube-system has no UID")
				}
				s.Identity.Etcd = online.Identity.Etcd // which no file has
				if !reflect.DeepEqual(online, s) {
					t.Error("the restored etcd reads differently")
				}
				var want int64
				upgraded := 0
				if s.UpgradedAt > 0 {
					upgraded = 1
				}
				for prefix, have := range map[string]int{
					"apiregistration.k8s.io/apiservices/v1.resource.k8s.io": upgraded, "namespaces/kube-system": 1,
					"services/specs": s.Services.Len(), "ranges": len(s.Ranges),
					"ipaddresses": s.IPAddresses.Len(), "servicecidrs": len(s.ServiceCIDRs),
				} {
					got, err := client.Get(t.Context(), "/registry/"+prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
					if err != nil {
						t.Fatal(err)
					}
					if int(got.Count) != have {
						t.Errorf("%d %s, etcd counts %d", have, prefix, got.Count)
					}
					want += got.Count
				}
				if older := cluster == etcdtest.DualStack || cluster == etcdtest.DualWrite; older == (s.UpgradedAt > 0) {
					t.Errorf("upgraded at %d", s.UpgradedAt)
				}
				if done != want || total != want {
					t.Errorf("progress ended at %d of %d, read %d", done, total, want)
				}
				if cluster == etcdtest.DualStack && s.Services.Len() <= 1000 {
					t.Errorf("%d Services do not need a third page", s.Services.Len())
				}
				if cluster != etcdtest.DualStack && (len(s.ServiceCIDRs) == 0 || s.IPAddresses.Len() == 0) {
					t.Errorf("%d ServiceCIDRs, %d IPAddresses", len(s.ServiceCIDRs), s.IPAddresses.Len())
				}
			})
		}
	}
}

// checkVerdict looks up what the reference's repair complained about.
func checkVerdict(t *testing.T, cluster string, s *clusterstate.State) {
	t.Helper()
	b, err := os.ReadFile(etcdtest.Fixture(cluster, "upstream-verdict.json"))
	if err != nil {
		t.Fatal(err)
	}
	var verdict struct {
		Events            []struct{ Controller, Reason, Namespace, Name, Value string }
		LeakedIPAddresses []string `json:"leaked_ip_addresses"`
	}
	if err := json.Unmarshal(b, &verdict); err != nil {
		t.Fatal(err)
	}
	services := map[string]corev1.Service{}
	for _, svc := range etcdtest.Objects(&s.Services) {
		services[svc.Namespace+"/"+svc.Name] = svc
	}
	for _, e := range verdict.Events {
		if e.Namespace == "" || strings.HasPrefix(e.Reason, "IPAddress") {
			continue
		}
		svc, ok := services[e.Namespace+"/"+e.Name]
		var values []string
		values = append(values, svc.Spec.ClusterIPs...)
		for _, p := range svc.Spec.Ports {
			values = append(values, fmt.Sprint(p.NodePort))
		}
		values = append(values, fmt.Sprint(svc.Spec.HealthCheckNodePort))
		if !ok || !slices.Contains(values, e.Value) {
			t.Errorf("%s %s/%s %s: not in what was read (%v)", e.Reason, e.Namespace, e.Name, e.Value, values)
		}
	}
	for _, leaked := range verdict.LeakedIPAddresses {
		if !slices.ContainsFunc(slices.Collect(s.IPAddresses.All()), func(a rangekeeper.IPAddress) bool { return a.Name == leaked }) {
			t.Errorf("leaked IPAddress %s was not read", leaked)
		}
	}
}

// protobuf encodes as kube-apiserver stores it.
func protobuf(t *testing.T, apiVersion, kind string, o interface{ Marshal() ([]byte, error) }) string {
	t.Helper()
	raw, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(b)
}

func jsonOf(t *testing.T, o any) string {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// both reads the store over the network and from a snapshot of it.
func both(t *testing.T, client *clientv3.Client, o clusterstate.Options) [2]*clusterstate.State {
	t.Helper()
	online, err := clusterstate.ReadEtcd(t.Context(), client, o)
	if err != nil {
		t.Fatal(err)
	}
	offline, err := clusterstate.ReadSnapshotFile(t.Context(), etcdtest.Save(t, client), o)
	if err != nil {
		t.Fatal(err)
	}
	offline.Identity.Etcd = online.Identity.Etcd // which no file has
	if online.Identity.Etcd == 0 || !reflect.DeepEqual(online, offline) {
		t.Errorf("network and file differ:\n%+v\n%+v", online, offline)
	}
	return [2]*clusterstate.State{online, offline}
}

func TestStoredForms(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	svc := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.7", ClusterIPs: []string{"10.0.0.7"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	}
	parent := networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "web"}
	ip := networkingv1.IPAddress{ObjectMeta: meta("10.0.0.7"), Spec: networkingv1.IPAddressSpec{ParentRef: &parent}}
	cidr := networkingv1.ServiceCIDR{
		ObjectMeta: meta("kubernetes"),
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24"}},
		Status:     networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "x"}}},
	}
	betaParent := networkingv1beta1.ParentReference(parent)
	betaIP := networkingv1beta1.IPAddress{ObjectMeta: ip.ObjectMeta, Spec: networkingv1beta1.IPAddressSpec{ParentRef: &betaParent}}
	betaCIDR := networkingv1beta1.ServiceCIDR{ObjectMeta: cidr.ObjectMeta, Spec: networkingv1beta1.ServiceCIDRSpec(cidr.Spec), Status: networkingv1beta1.ServiceCIDRStatus(cidr.Status)}

	typed := func(apiVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	}
	svcJSON, ipJSON, cidrJSON, betaIPJSON, betaCIDRJSON := svc, ip, cidr, betaIP, betaCIDR
	svcJSON.TypeMeta = typed("v1", "Service")
	ipJSON.TypeMeta = typed("networking.k8s.io/v1", "IPAddress")
	cidrJSON.TypeMeta = typed("networking.k8s.io/v1", "ServiceCIDR")
	betaIPJSON.TypeMeta = typed("networking.k8s.io/v1beta1", "IPAddress")
	betaCIDRJSON.TypeMeta = typed("networking.k8s.io/v1beta1", "ServiceCIDR")

	for name, values := range map[string][3]string{
		"protobuf":         {protobuf(t, "v1", "Service", &svc), protobuf(t, "networking.k8s.io/v1", "IPAddress", &ip), protobuf(t, "networking.k8s.io/v1", "ServiceCIDR", &cidr)},
		"json":             {jsonOf(t, svcJSON), jsonOf(t, ipJSON), jsonOf(t, cidrJSON) + "\n"},
		"v1beta1 protobuf": {protobuf(t, "v1", "Service", &svc), protobuf(t, "networking.k8s.io/v1beta1", "IPAddress", &betaIP), protobuf(t, "networking.k8s.io/v1beta1", "ServiceCIDR", &betaCIDR)},
		"v1beta1 json":     {jsonOf(t, svcJSON), jsonOf(t, betaIPJSON), jsonOf(t, betaCIDRJSON)},
	} {
		t.Run(name, func(t *testing.T) {
			client := etcdtest.Start(t, "").Client()
			for key, value := range map[string]string{
				"/cluster/services/specs/default/web":      values[0],
				"/cluster/ipaddresses/10.0.0.7":            values[1],
				"/cluster/servicecidrs/kubernetes":         values[2],
				"/cluster/ranges/serviceips":               "\x00raw",
				"/cluster/ranges/other":                    "",
				"/cluster/services/endpoints/default/web":  "not read",
				"/cluster/rangesish":                       "not read",
				"/registry/services/specs/default/ignored": "not read",
			} {
				if _, err := client.Put(t.Context(), key, value); err != nil {
					t.Fatal(err)
				}
			}
			for _, prefix := range []string{"/cluster", "cluster/"} {
				for _, s := range both(t, client, clusterstate.Options{Prefix: prefix}) {
					web, err := client.Get(t.Context(), "/cluster/services/specs/default/web")
					if err != nil {
						t.Fatal(err)
					}
					svc.ResourceVersion = strconv.FormatInt(web.Kvs[0].CreateRevision, 10) // see etcdtest.List
					if s.Services.Len() != 1 || !reflect.DeepEqual(s.Services, etcdtest.List(svc)) {
						t.Errorf("Services %+v", s.Services)
					}
					stored, err := client.Get(t.Context(), "/cluster/ipaddresses/10.0.0.7")
					if err != nil {
						t.Fatal(err)
					}
					ip.ResourceVersion = strconv.FormatInt(stored.Kvs[0].ModRevision, 10)
					if s.IPAddresses.Len() != 1 || !reflect.DeepEqual(s.IPAddresses, etcdtest.AddressList(ip)) {
						t.Errorf("IPAddresses %+v", s.IPAddresses)
					}
					if len(s.ServiceCIDRs) != 1 || !reflect.DeepEqual(s.ServiceCIDRs[0], cidr) {
						t.Errorf("ServiceCIDRs %+v", s.ServiceCIDRs)
					}
					if len(s.Ranges) != 2 || string(s.Ranges["serviceips"].Value) != "\x00raw" || len(s.Ranges["other"].Value) != 0 {
						t.Errorf("Ranges %+v", s.Ranges)
					}
				}
			}
		})
	}
}

// withCIDR returns a stored ServiceCIDR with this CIDR.
func withCIDR(text string) string {
	return `{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"x"},"spec":{"cidrs":["` + text + `"]}}`
}

func TestBadValues(t *testing.T) {
	client := etcdtest.Start(t, "").Client()
	good := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	stored := protobuf(t, "v1", "Service", &good)
	for _, c := range []struct{ name, key, value, want string }{
		{"encrypted Service", "/registry/services/specs/ns/web", "k8s:enc:aescbc:v1:key1:\x8f\x00", `"k8s:enc:aescbc:v1:key1:"`},
		{"encrypted by KMS", "/registry/ipaddresses/10.0.0.1", "k8s:enc:kms:v2:vault:\n\x01", `"k8s:enc:kms:v2:vault:"`},
		{"encrypted ServiceCIDR", "/registry/servicecidrs/x", "k8s:enc:secretbox:v1:k:x", `"k8s:enc:secretbox:v1:k:"`},
		{"encrypted, cut off", "/registry/services/specs/ns/web", "k8s:enc:aes", `"k8s:enc:`},
		{"empty", "/registry/services/specs/ns/web", "", "neither"},
		{"text", "/registry/services/specs/ns/web", "hello", "neither"},
		{"protobuf magic only", "/registry/services/specs/ns/web", "k8s\x00", "expected Service"},
		{"envelope cut off", "/registry/services/specs/ns/web", stored[:len(stored)/2], "damaged protobuf"},
		{"object garbage", "/registry/services/specs/ns/web", protobuf(t, "v1", "Service", garbage("\xff\xff\xff")), "damaged Service"},
		{"other kind", "/registry/services/specs/ns/web", protobuf(t, "v1", "Pod", &good), `is "Pod" of "v1"`},
		{"other version", "/registry/ipaddresses/10.0.0.1", protobuf(t, "networking.k8s.io/v2", "IPAddress", &networkingv1.IPAddress{}), "networking.k8s.io/v2"},
		{"no name", "/registry/services/specs/ns/web", protobuf(t, "v1", "Service", &corev1.Service{}), "without a name"},
		{"no namespace", "/registry/services/specs/ns/web", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}}`, "without a namespace"},
		{"CIDR without name", "/registry/servicecidrs/x", `{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR"}`, "without a name"},
		{"Service of another key", "/registry/services/specs/ns/copy", stored, `its name "ns/web" is not that of its key`},
		{"IPAddress of another key", "/registry/ipaddresses/0.0.0.0",
			`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"10.0.0.1"}}`, `its name "10.0.0.1" is not that of its key`},
		{"CIDR of another key", "/registry/servicecidrs/x",
			`{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"y"}}`, `its name "y" is not that of its key`},
		// A kube-apiserver does not validate what it reads from etcd.
		{"CIDR without length", "/registry/servicecidrs/x", withCIDR("10.1.0.0"), `spec.cidrs: CIDR "10.1.0.0" has no prefix length`},
		{"CIDR with a wrong length", "/registry/servicecidrs/x", withCIDR("10.1.0.0/33"), `spec.cidrs: `},
		{"CIDR without text", "/registry/servicecidrs/x", withCIDR(""), `spec.cidrs: `},
		{"CIDR beside another one", "/registry/servicecidrs/x", withCIDR(`10.2.0.0/24","10.1.0.0`), `spec.cidrs: CIDR "10.1.0.0" has no prefix length`},
		{"JSON cut off", "/registry/services/specs/ns/web", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"we`, "damaged JSON"},
		{"JSON of wrong type", "/registry/services/specs/ns/web", `{"apiVersion":"v1","kind":"Service","metadata":{"name":7}}`, "damaged Service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := client.Put(t.Context(), c.key, c.value); err != nil {
				t.Fatal(err)
			}
			path := etcdtest.Save(t, client)
			states := [2]*clusterstate.State{}
			var online, offline error
			states[0], online = clusterstate.ReadEtcd(t.Context(), client, clusterstate.Options{})
			states[1], offline = clusterstate.ReadSnapshotFile(t.Context(), path, clusterstate.Options{})
			if _, err := client.Delete(t.Context(), c.key); err != nil {
				t.Fatal(err)
			}
			for i, err := range []error{online, offline} {
				if err == nil {
					err = states[i].CheckReadable()
					if all := states[i].Unreadable; len(all) != 1 || all[0].Key != c.key || states[i].Services.Len()+states[i].IPAddresses.Len()+len(states[i].ServiceCIDRs) != 0 ||
						(all[0].Encrypted != nil) != strings.HasPrefix(c.name, "encrypted") {
						t.Errorf("%+v", all)
					}
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.key) {
					t.Errorf("got %v, want %q and %q", err, c.key, c.want)
				}
			}
		})
	}
	for _, s := range both(t, client, clusterstate.Options{}) {
		if s.Revision < 2 || s.Services.Len()+len(s.Ranges)+s.IPAddresses.Len()+len(s.ServiceCIDRs) != 0 {
			t.Errorf("empty store: %+v", s)
		}
	}
}

type garbage string

func (g garbage) Marshal() ([]byte, error) { return []byte(g), nil }

// TestOneRevision changes the store and compacts it between two pages.
func TestOneRevision(t *testing.T) {
	for _, compactions := range []int{0, 1, 100} {
		t.Run(fmt.Sprint(compactions), func(t *testing.T) {
			client := etcdtest.Start(t, "").Client()
			const n = 1100
			put := func(i, round int) int64 {
				svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("svc-%04d", i)}, Spec: corev1.ServiceSpec{HealthCheckNodePort: int32(round)}}
				r, err := client.Put(t.Context(), "/registry/services/specs/ns/"+svc.Name, protobuf(t, "v1", "Service", &svc))
				if err != nil {
					t.Fatal(err)
				}
				return r.Header.Revision
			}
			var rev int64
			for i := range n {
				rev = put(i, 0)
			}
			round, compacted := 0, 0
			s, err := clusterstate.ReadEtcd(t.Context(), client, clusterstate.Options{Progress: func(done, _ int64) {
				if done%500 != 0 || done == 0 {
					return
				}
				round++
				latest := put(n-1, round)
				if compacted < compactions {
					compacted++
					if _, err := client.Compact(t.Context(), latest); err != nil {
						t.Error(err)
					}
					rev = latest
				}
			}})
			if compactions == 100 {
				if err == nil || !strings.Contains(err.Error(), "compacted") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// Later writes are not seen, though they hit a later page.
			if s.Revision != rev || s.Services.Len() != n || s.Services.At(n-1).HealthCheckNodePort != int32(compactions) {
				t.Errorf("revision %d, want %d; %d Services; last changed in round %d", s.Revision, rev, s.Services.Len(), s.Services.At(n-1).HealthCheckNodePort)
			}
			if !slices.IsSortedFunc(etcdtest.Objects(&s.Services), func(a, b corev1.Service) int { return strings.Compare(a.Name, b.Name) }) {
				t.Error("not sorted")
			}
		})
	}
}
