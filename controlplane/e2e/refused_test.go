package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestWriteFails sends Services that are too large for etcd, and disconnects before the Service is written. Both must
// leave nothing allocated. kube-apiserver retries a Service that is too large without its managed fields.
func TestWriteFails(t *testing.T) { onEachVersion(t, testWriteFails) }

func testWriteFails(t *testing.T, version apiservertest.Version) {
	etcd, servers := startServers(t, version, 1)
	services := newWorkload(0, servers...).servers[0].CoreV1().Services(metav1.NamespaceDefault)
	nodePort := func(name string, ports int) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}}
		for i := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1)})
		}
		return s
	}
	clusterIP := func(name string, ports int) *corev1.Service {
		s := nodePort(name, ports)
		s.Spec.Type = corev1.ServiceTypeClusterIP
		created, err := services.Create(t.Context(), s, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		created.Spec.Type = corev1.ServiceTypeNodePort
		return created
	}

	// etcd accepts 1.5 MiB, its client sends 2 MiB.
	for _, c := range []struct {
		name   string
		labels int
		fits   bool // without managed fields
	}{
		{"refused-by-etcd", 9_000, true},
		{"refused-by-its-client", 12_000, true},
		{"never-fits", 17_000, false},
	} {
		created, updated := nodePort("created-"+c.name, 3), clusterIP("updated-"+c.name, 3)
		created.Labels, updated.Labels = manyLabels(c.labels), manyLabels(c.labels)
		_, createErr := services.Create(t.Context(), created, metav1.CreateOptions{})
		_, updateErr := services.Update(t.Context(), updated, metav1.UpdateOptions{})
		for what, err := range map[string]error{"create": createErr, "update": updateErr} {
			if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), "larger than max") {
				t.Errorf("%s %s: %v", what, c.name, err)
			}
		}
	}
	checkAudit(t, etcd)

	for i := range 10 {
		const ports = 50
		updated := clusterIP(fmt.Sprintf("updated-%d", i), ports)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, err := services.Create(ctx, nodePort(fmt.Sprintf("created-%d", i), ports), metav1.CreateOptions{}); err == nil {
			t.Error("the Service was created before its client disconnected")
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, err := services.Update(ctx, updated, metav1.UpdateOptions{}); err == nil {
			t.Error("the Service was updated before its client disconnected")
		}
		cancel()
	}
	for deadline := time.Now().Add(time.Minute); len(auditEtcd(t, etcd).Leaks) > 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // the server has not released all values yet
	}
	checkAudit(t, etcd)
}

// testSecondFamilyRefused creates dual-stack Services whose second address is in use. The server must refuse them and
// release the first address.
func testSecondFamilyRefused(t *testing.T, etcd *clientv3.Client, servers []*apiservertest.Server) {
	const attempts = 40
	services := newWorkload(0, servers...).servers[0].CoreV1().Services(metav1.NamespaceDefault)
	dualStack := func(name string, addresses ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			ClusterIP: addresses[0], ClusterIPs: addresses,
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack), Ports: ports("TCP"),
		}}
	}
	first := dualStack("first", "10.96.200.1", "fd00:10:96::200")
	if _, err := services.Create(t.Context(), first, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range attempts {
		// The server allocates the families in random order.
		next := dualStack(fmt.Sprintf("next-%d", i), fmt.Sprintf("10.96.201.%d", i+1), "fd00:10:96::200")
		if _, err := services.Create(t.Context(), next, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Fatalf("creation with an address that is in use: %v", err)
		}
	}
	checkAudit(t, etcd)
}

// TestEncryptionAtRest checks that kube-apiserver encrypts Services and never its ranges, so that a committer can read
// them. Another server finds its watch caches right, whose objects it compares with the encrypted ones.
func TestEncryptionAtRest(t *testing.T) { onEachVersion(t, testEncryptionAtRest) }

func testEncryptionAtRest(t *testing.T, version apiservertest.Version) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	config := `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [{
		"resources": ["*.*"], "providers": [{"aescbc": {"keys": [{"name": "key1", "secret": "MDEyMzQ1Njc4OWFiY2RlZg=="}]}}]}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()}))
	t.Cleanup(etcd.Close)
	start := func(i int) *kubernetes.Clientset {
		server := serverConfig(etcd.Endpoints(), version, true, i)
		server.Flags = append(server.Flags, "--encryption-provider-config="+file)
		return newWorkload(0, startServer(t, server)).servers[0]
	}
	services := start(0).CoreV1().Services(metav1.NamespaceDefault)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports("TCP")}}
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for key, begin := range map[string]string{
		"/registry/services/specs/default/web": "k8s:enc:aescbc:v1:key1:",
		"/registry/ranges/servicenodeports":    "k8s\x00",
	} {
		answer := must(etcd.Client().Get(t.Context(), key))
		if len(answer.Kvs) != 1 || !strings.HasPrefix(string(answer.Kvs[0].Value), begin) {
			t.Errorf("%s does not begin with %q: %q", key, begin, answer.Kvs)
		}
	}
	awaitRightCaches(t, start(1))
	if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stored := must(etcd.Client().Get(t.Context(), "/registry/ranges/servicenodeports")).Kvs[0].Value
	if data := must(must(rangekeeper.DecodeRangeAllocation(stored)).Data(nil)); len(data) > 0 {
		t.Errorf("the bitmap is %x after the deletion of the only Service", data)
	}
}

// awaitRightCaches waits until a server has compared its watch caches with etcd, and has found them right.
func awaitRightCaches(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	const checks = "rangekeeper_watch_cache_checks_total"
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		text := string(must(client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())))
		if strings.Contains(text, checks+`{result="right"} 1`) {
			return
		}
		if strings.Contains(text, checks+`{result="wrong"} 1`) {
			t.Fatal("the server has found a watch cache wrong")
		}
	}
	t.Fatal("the server has not compared its watch caches")
}

// manyLabels returns n labels of 126 bytes.
func manyLabels(n int) map[string]string {
	labels := make(map[string]string, n)
	for i := range n {
		labels[fmt.Sprintf("%s-%05d", strings.Repeat("k", 54), i)] = strings.Repeat("v", 60)
	}
	return labels
}
