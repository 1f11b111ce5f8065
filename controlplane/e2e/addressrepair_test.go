package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

const (
	// addressGrace is the --request-timeout, after which the repair of IPAddress objects takes one for leaked.
	addressGrace = 20 * time.Second
	// labelRemovals is how often the test removes a label of an object.
	labelRemovals = 5
)

func addressKey(address string) string {
	return clusterstate.DefaultPrefix + "/ipaddresses/" + address
}

func parentService(namespace, name string) *networkingv1.ParentReference {
	return &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}
}

// storedAddress returns an IPAddress object, and its key in etcd; nil if there is none.
func storedAddress(t *testing.T, etcd *clientv3.Client, address string) (*networkingv1.IPAddress, *keyValue) {
	t.Helper()
	kvs := must(etcd.Get(t.Context(), addressKey(address))).Kvs
	if len(kvs) == 0 {
		return nil, nil
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(kvs[0].Value, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*networkingv1.IPAddress), &keyValue{kvs[0].CreateRevision, kvs[0].ModRevision, kvs[0].Value}
}

// keyValue is a key in etcd.
type keyValue struct {
	created, modified int64
	value             []byte
}

// refer makes an object refer to another Service, and sets its label of the manager. The API does not allow the former.
func refer(t *testing.T, etcd *clientv3.Client, address string, to *networkingv1.ParentReference, manager string) {
	t.Helper()
	object, stored := storedAddress(t, etcd, address)
	object.TypeMeta = metav1.TypeMeta{Kind: "IPAddress", APIVersion: "networking.k8s.io/v1"}
	object.Spec.ParentRef, object.Labels[networkingv1.LabelManagedBy] = to, manager
	unchanged := clientv3.Compare(clientv3.ModRevision(addressKey(address)), "=", stored.modified)
	put := clientv3.OpPut(addressKey(address), string(must(json.Marshal(object))))
	if !must(etcd.Txn(t.Context()).If(unchanged).Then(put).Commit()).Succeeded {
		t.Fatalf("the object of %s was written meanwhile", address)
	}
}

// claim has clients try to create Services with an address until ctx ends, and counts the attempts and those that
// succeeded. They delete these Services.
func claim(ctx context.Context, t *testing.T, client *kubernetes.Clientset, address string) (tried, got *atomic.Int64, wait func()) {
	var group sync.WaitGroup
	tried, got = new(atomic.Int64), new(atomic.Int64)
	services := client.CoreV1().Services(metav1.NamespaceDefault)
	for i := range creators {
		group.Go(func() {
			for ; ctx.Err() == nil; tried.Add(1) {
				spec := corev1.ServiceSpec{ClusterIP: address, Ports: ports(corev1.ProtocolTCP)}
				_, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claims-%d", i)}, Spec: spec}, metav1.CreateOptions{})
				if err == nil {
					got.Add(1)
					err = services.Delete(t.Context(), fmt.Sprintf("claims-%d", i), metav1.DeleteOptions{})
				}
				if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsServiceUnavailable(err) && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return tried, got, group.Wait
}

// TestIPAddressRepairedInPlace removes a label of the IPAddress object of a Service, and makes it refer to other
// Services, while clients try to get the address. The server must repair the object without deleting it: as long as
// there is none, the address is free. Another Service has the same name in another namespace.
func TestIPAddressRepairedInPlace(t *testing.T) {
	etcd, servers := startServers(t, apiservertest.Newest, 1, "--request-timeout="+addressGrace.String())
	client := newWorkload(0, servers...).servers[0]
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(namespace string) string {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{Ports: ports(corev1.ProtocolTCP)}}
		return must(client.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})).Spec.ClusterIP
	}
	address, others := create(metav1.NamespaceDefault), create("other")
	_, before := storedAddress(t, etcd, address)
	claimed, stop := context.WithCancel(t.Context())
	tried, got, wait := claim(claimed, t, client, address)
	defer wait()
	defer stop()

	ours := parentService(metav1.NamespaceDefault, "a")
	manager := networkingv1.LabelManagedBy
	awaitRepaired := func(after string) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			object, stored := storedAddress(t, etcd, address)
			if stored != nil && *object.Spec.ParentRef == *ours && object.Labels[manager] == "ipallocator.k8s.io" {
				if stored.created != before.created {
					t.Errorf("after %s the object of %s was deleted and created again", after, address)
				}
				before = stored
				return
			}
			if time.Now().After(end) {
				t.Fatalf("after %s the object of %s is %v", after, address, object)
			}
		}
	}
	for range labelRemovals {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, manager)
		if _, err := client.NetworkingV1().IPAddresses().Patch(t.Context(), address, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitRepaired("the removal of a label")
	}
	refer(t, etcd, address, parentService(metav1.NamespaceDefault, "nobody"), "ipallocator.k8s.io")
	awaitRepaired("a reference to no Service")
	refer(t, etcd, address, parentService("other", "a"), "another")
	awaitRepaired("another manager's reference to another Service")
	refer(t, etcd, address, parentService("other", "a"), "ipallocator.k8s.io")
	awaitRepaired("a reference to another Service")
	stop()
	wait()
	if h := readHistory(t, etcd, 1); len(h.duplicates)+int(got.Load()) > 0 {
		t.Errorf("in %d attempts %d Services got %s, which another one has: %q", tried.Load(), got.Load(), address, h.duplicates)
	}
	t.Logf("%d attempts to get the address", tried.Load())

	// A deletion releases only what refers to the Service of its own namespace.
	refer(t, etcd, address, parentService("other", "a"), "ipallocator.k8s.io")
	if err := client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{address, others} {
		if object, _ := storedAddress(t, etcd, address); object == nil {
			t.Errorf("the deletion of default/a has deleted %s, which refers to other/a", address)
		}
	}
}

// TestIPAddressesOfALostHistory restores etcd under a server. In the lost history IPAddress objects refer to a Service
// that does not exist; in the restored one objects of the same names have the same revisions, and live Services. The
// server's watch cache has the former. It must neither write nor delete the latter.
func TestIPAddressesOfALostHistory(t *testing.T) {
	const (
		count = 8
		// gap is the number of revisions between two objects.
		gap = 20
	)
	cluster := etcdtest.StartCluster(t, 1)
	etcd := cluster.Client()
	config := serverConfig(cluster.Endpoints(), apiservertest.Newest, true, 0)
	config.Flags = append(config.Flags, "--request-timeout="+(2*addressGrace).String())
	client := newWorkload(0, startServer(t, config)).servers[0]
	ctx := t.Context()
	services, objects := client.CoreV1().Services(metav1.NamespaceDefault), client.NetworkingV1().IPAddresses()
	// advance makes writes until etcd has a revision, and returns false if it has a later one.
	advance := func(to int64) bool {
		for {
			if at := must(etcd.Put(ctx, "/another", "")).Header.Revision; at >= to {
				return at == to
			}
		}
	}
	leak := func(address, service string) int64 {
		object := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: address, Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: "IPv4", networkingv1.LabelManagedBy: "ipallocator.k8s.io",
			}},
			Spec: networkingv1.IPAddressSpec{ParentRef: parentService(metav1.NamespaceDefault, service)},
		}
		must(objects.Create(ctx, object, metav1.CreateOptions{}))
		_, stored := storedAddress(t, etcd, address)
		return stored.modified
	}
	addresses, values := make([]string, count), make([][]byte, count)
	for i := range count {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("alive-%d", i)}, Spec: corev1.ServiceSpec{Ports: ports(corev1.ProtocolTCP)}}
		addresses[i] = must(services.Create(ctx, service, metav1.CreateOptions{})).Spec.ClusterIP
		_, stored := storedAddress(t, etcd, addresses[i])
		values[i] = stored.value
	}
	copied := cluster.CopyData(0)

	revisions := make([]int64, count)
	for i, address := range addresses {
		if err := services.Delete(ctx, fmt.Sprintf("alive-%d", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		revisions[i] = leak(address, "lost")
		advance(revisions[i] + gap)
	}
	areCached := func() bool {
		list := must(objects.List(ctx, metav1.ListOptions{ResourceVersion: "0"}))
		found := 0
		for _, object := range list.Items {
			if object.Spec.ParentRef.Name == "lost" {
				found++
			}
		}
		return found == count
	}
	for end := time.Now().Add(patience); !areCached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server's watch cache lacks objects of the history that is about to be lost")
		}
	}
	last := must(etcd.Get(ctx, "/another")).Header.Revision
	cluster.PutBack(0, copied)

	var met []int
	for i, address := range addresses {
		if advance(revisions[i]-1) && must(etcd.Put(ctx, addressKey(address), string(values[i]))).Header.Revision == revisions[i] {
			met = append(met, i)
		}
	}
	if len(met) == 0 || !areCached() {
		t.Fatalf("%d objects have the revision of one that is lost; the cache has those: %v", len(met), areCached())
	}
	advance(last + gap)
	// The server judges this object after those.
	const control = "10.96.255.250"
	leak(control, "nobody")
	for end := time.Now().Add(2*addressGrace + patience); ; time.Sleep(100 * time.Millisecond) {
		if object, _ := storedAddress(t, etcd, control); object == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the server does not delete a leaked object")
		}
	}
	for _, i := range met {
		object, stored := storedAddress(t, etcd, addresses[i])
		if stored == nil || stored.modified != revisions[i] || !bytes.Equal(stored.value, values[i]) {
			t.Errorf("the object of the live Service alive-%d is %v", i, object)
		}
	}
	t.Logf("%d of %d objects have the revisions of lost ones", len(met), count)
}
