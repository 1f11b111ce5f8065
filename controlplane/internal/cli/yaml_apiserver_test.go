package cli

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

const portsKey = "/registry/ranges/servicenodeports"

// TestYAMLOnAServer reads and repairs a cluster that a stock server stores as YAML. What is written is what the
// server's own serializer writes, and the server goes on with it.
func TestYAMLOnAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	start := func(endpoints []string) *apiservertest.Server {
		return apiservertest.Start(t, apiservertest.Config{
			Version: apiservertest.Newest, Etcd: endpoints, OwnLoops: true,
			Flags: []string{"--storage-media-type=application/yaml", "--endpoint-reconciler-type=lease"},
		})
	}
	server := start(etcd.Endpoints())
	client := clientOf(t, server)
	awaitLoops(t, client)
	create := func(name string) int {
		s, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return int(s.Spec.Ports[0].NodePort)
	}
	first := create("first")

	at := func(args ...string) []string { return append(args, "--endpoints", etcd.Endpoints()[0]) }
	eventually(t, func() error {
		if code, stdout, stderr := run(t, at("audit")...); code != exitOK {
			return fmt.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		return nil
	})
	for _, directory := range []string{"ranges", "masterleases", "services/specs", "ipaddresses", "servicecidrs", "services/endpoints"} {
		answer, err := etcd.Client().Get(t.Context(), "/registry/"+directory+"/", clientv3.WithPrefix())
		if err != nil || len(answer.Kvs) == 0 {
			t.Fatalf("%s: %v, %v", directory, answer, err)
		}
		for _, kv := range answer.Kvs {
			if !bytes.HasPrefix(kv.Value, []byte("apiVersion: ")) {
				t.Errorf("%s is not YAML: %q", kv.Key, kv.Value)
			}
		}
	}
	p := runJSON[preflight.Report](t, exitOK, at("preflight", "--to", "1.37")...)
	if slices.ContainsFunc(p.Checks, func(c preflight.Check) bool { return c.Name == "Unreadable" }) {
		t.Errorf("%+v", p.Checks)
	}

	// The port of a Service is not recorded, and one that nobody has is.
	damaged := storedRange(t, etcd.Client())
	flip := func(port int) { damaged.Data[len(damaged.Data)-1-(port-30000)/8] ^= 1 << ((port - 30000) % 8) }
	leaked := 30000
	if leaked == first {
		leaked++
	}
	flip(first)
	flip(leaked)
	if _, err := etcd.Client().Put(t.Context(), portsKey, string(serialized(t, damaged))); err != nil {
		t.Fatal(err)
	}
	snapshot := etcdtest.Save(t, etcd.Client())
	r := runJSON[audit.Report](t, exitFound, at("audit")...)
	if len(r.Findings) != 1 || r.Findings[0].Reason != "PortNotAllocated" || len(r.Leaks) != 1 || len(r.Unreadable) != 0 {
		t.Errorf("findings %+v, leaks %+v, unreadable %+v", r.Findings, r.Leaks, r.Unreadable)
	}
	explained := runJSON[audit.Explanations](t, exitFound, at("explain", strconv.Itoa(first))...)
	if len(explained.Values) != 1 || len(explained.Values[0].Findings) != 1 {
		t.Errorf("%+v", explained)
	}

	// On the running cluster.
	if code, stdout, stderr := run(t, at("repair", "--apply")...); code != exitFound || !strings.Contains(stderr, "1 leak left") {
		t.Errorf("repair: exit code %d: %s%s", code, stdout, stderr)
	}
	flip(first)
	checkRange(t, etcd.Client(), damaged)
	for _, command := range []string{"allocate", "release"} {
		if code, _, stderr := run(t, at(command, "servicenodeports", strconv.Itoa(leaked+1))...); code != exitOK {
			t.Errorf("%s: exit code %d: %s", command, code, stderr)
		}
	}
	checkRange(t, etcd.Client(), damaged)
	server.Restart()
	if second := create("second"); second == first || second == leaked {
		t.Errorf("port %d after %d and %d", second, first, leaked)
	}

	// Somebody has edited the range by hand, in a form that a server reads. Nothing is wrong with it.
	stored := string(storedPorts(t, etcd.Client()).Value)
	if _, err := etcd.Client().Put(t.Context(), portsKey, "---\n# edited by hand\n"+stored); err != nil {
		t.Fatal(err)
	}
	edited := etcdtest.Save(t, etcd.Client())
	for _, source := range [][]string{{"--endpoints", etcd.Endpoints()[0]}, {"--etcd-snapshot", edited}} {
		r := runJSON[audit.Report](t, exitOK, append([]string{"audit"}, source...)...)
		isPorts := func(u audit.Unknown) bool {
			return u.Range == "servicenodeports" && strings.Contains(u.Message, "an API server reads it")
		}
		if len(r.Findings)+len(r.Leaks) != 0 || !slices.ContainsFunc(r.Unknown, isPorts) {
			t.Errorf("%v: findings %+v, unknown %+v", source, r.Findings, r.Unknown)
		}
	}
	kept := filepath.Join(t.TempDir(), "kept.db")
	if code, _, stderr := run(t, "repair", "--etcd-snapshot", edited, "--to-file", kept); code != exitOK {
		t.Errorf("repair: exit code %d: %s", code, stderr)
	}
	if value := storedPorts(t, etcdtest.Start(t, kept).Client()).Value; string(value) != "---\n# edited by hand\n"+stored {
		t.Errorf("repair: the range is %q", value)
	}
	third := create("third")
	if data := storedRange(t, etcd.Client()).Data; data[len(data)-1-(third-30000)/8]>>((third-30000)%8)&1 != 1 {
		t.Errorf("port %d is not in %x", third, data)
	}
	if r := runJSON[audit.Report](t, exitFound, at("audit")...); len(r.Findings) != 0 || len(r.Leaks) != 1 || len(r.Unknown) != 0 {
		t.Errorf("%+v, unknown %+v", r.Findings, r.Unknown)
	}

	// A snapshot, which a server then takes as it is.
	repaired := filepath.Join(t.TempDir(), "repaired.db")
	if code, _, stderr := run(t, "repair", "--etcd-snapshot", snapshot, "--to-file", repaired); code != exitOK {
		t.Errorf("repair: exit code %d: %s", code, stderr)
	}
	restored := etcdtest.Start(t, repaired)
	flip(leaked)
	checkRange(t, restored.Client(), damaged)
	before := storedPorts(t, restored.Client())
	awaitLoops(t, clientOf(t, start(restored.Endpoints())))
	if after := storedPorts(t, restored.Client()); after.ModRevision != before.ModRevision {
		t.Errorf("the server changed the range to %q", after.Value)
	}
}

// TestStrangeYAML has objects in YAML that no server writes. They are named, and no text advises to delete them at
// once.
func TestStrangeYAML(t *testing.T) {
	t.Parallel() // beside those that wait
	const (
		service = "/registry/services/specs/default/kubernetes"
		whole   = "apiVersion: v1\nkind: Service\nmetadata:\n  name: kubernetes\n  namespace: default\nspec:\n  clusterIP: 10.96.0.1\n"
	)
	for _, c := range []struct{ name, value, problem string }{
		{"tab", strings.Replace(whole, "  name", "\tname", 1), "damaged YAML value"},
		{"cut off", strings.TrimSuffix(whole, ": 10.96.0.1\n"), "damaged Service"},
		{"alias", strings.Replace(whole, "10.96.0.1", "*a", 1), "damaged YAML value"},
		{"list", strings.Replace(whole, "10.96.0.1", "[10]", 1), "damaged Service"},
		{"another kind", strings.Replace(whole, "Service", "Secret", 1), `is "Secret" of "v1", expected Service of v1`},
		{"text", "a:b", "neither Kubernetes protobuf nor JSON nor YAML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{service: []byte(c.value)})
			r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
			if len(r.Unreadable) != 1 || !strings.Contains(r.Unreadable[0].Message, c.problem) {
				t.Errorf("%+v", r.Unreadable)
			}
			_, shown, _ := run(t, "audit", "--etcd-snapshot", file)
			if text := strings.Join(strings.Fields(shown), " "); !strings.Contains(text, "Look at these objects with kubectl. Restore or delete a key if kube-apiserver cannot read") {
				t.Error(shown)
			}
		})
	}
	file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{service: []byte(whole)})
	if r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file); len(r.Unreadable) != 0 {
		t.Errorf("%+v", r.Unreadable)
	}
}

// TestLeaseByHand has the lease of a server as YAML of a form that no server writes and each reads: its findings are
// those of the same lease as JSON.
func TestLeaseByHand(t *testing.T) {
	t.Parallel()
	audited := func(value string) (reasons []string) {
		file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{"/registry/masterleases/10.1.2.3": []byte(value)})
		for _, f := range runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file).Findings {
			reasons = append(reasons, f.Reason+" "+f.Value)
		}
		return reasons
	}
	want := audited(`{"apiVersion":"v1","kind":"Endpoints","metadata":{},"subsets":[{"addresses":[{"ip":"10.1.2.3"}]}]}`)
	got := audited("---\n# by hand\napiVersion: v1\nkind: \"Endpoints\"\nmetadata: {}\nsubsets:\n  - addresses:\n      - ip: 10.1.2.3\n")
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func storedPorts(t *testing.T, etcd *clientv3.Client) *mvccpb.KeyValue {
	t.Helper()
	answer, err := etcd.Get(t.Context(), portsKey)
	if err != nil || len(answer.Kvs) != 1 {
		t.Fatalf("%v, %v", answer, err)
	}
	return answer.Kvs[0]
}

// storedRange reads the range of node ports with kube-apiserver's library for YAML.
func storedRange(t *testing.T, etcd *clientv3.Client) *corev1.RangeAllocation {
	t.Helper()
	var stored corev1.RangeAllocation
	if err := yaml.UnmarshalStrict(storedPorts(t, etcd).Value, &stored); err != nil {
		t.Fatal(err)
	}
	return &stored
}

// serialized returns what kube-apiserver's serializer writes.
func serialized(t *testing.T, stored *corev1.RangeAllocation) []byte {
	t.Helper()
	var out bytes.Buffer
	scheme := runtime.NewScheme()
	err := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true}).Encode(stored, &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func checkRange(t *testing.T, etcd *clientv3.Client, want *corev1.RangeAllocation) {
	t.Helper()
	if value := storedPorts(t, etcd).Value; !bytes.Equal(value, serialized(t, want)) {
		t.Errorf("stored is\n%s, not\n%s", value, serialized(t, want))
	}
}

// TestYAMLInsideAServer has a server with Rangekeeper inside serve a cluster that a stock server stored as YAML.
func TestYAMLInsideAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	config := apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, Flags: []string{"--storage-media-type=application/yaml"}}
	stock := apiservertest.Start(t, config)
	awaitLoops(t, clientOf(t, stock))
	stock.Kill()
	config.Rangekeeper = true
	client := clientOf(t, apiservertest.Start(t, config))
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := storedRange(t, etcd.Client())
	checkRange(t, etcd.Client(), stored)
	offset := int(service.Spec.Ports[0].NodePort) - 30000
	if bytes := len(stored.Data); bytes <= offset/8 || stored.Data[bytes-1-offset/8]&(1<<(offset%8)) == 0 {
		t.Errorf("port %d is not in %x", service.Spec.Ports[0].NodePort, stored.Data)
	}
}
