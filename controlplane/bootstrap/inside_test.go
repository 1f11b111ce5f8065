package bootstrap_test

import (
	"bytes"
	"fmt"
	"path"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// insiders returns what starts servers that keep their endpoints themselves: with Rangekeeper inside, or as they are
// published.
func insiders(t *testing.T, etcd *embedded.Etcd, version apiservertest.Version) func(address string, published bool, flags ...string) *apiservertest.Server {
	return func(address string, published bool, flags ...string) *apiservertest.Server {
		t.Helper()
		return apiservertest.Start(t, apiservertest.Config{
			Version: version, Etcd: etcd.Endpoints(), ServiceClusterIPRange: clusterIPRange, ServiceNodePortRange: nodePortRange,
			AdvertiseAddress: address, Rangekeeper: !published, OwnLoops: published, Flags: append([]string{keepHistory}, flags...),
		})
	}
}

// TestInside runs servers with Rangekeeper inside, one that is published among them, from an empty etcd on: leases and
// objects are damaged and removed, and servers killed, started again and stopped.
func TestInside(t *testing.T) {
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, _ *apiservertest.Server, client *kubernetes.Clientset) {
		ctx := t.Context()
		start := insiders(t, etcd, apiservertest.Version(path.Base(t.Name())))
		const a, b, c = "192.0.2.11", "192.0.2.12", "192.0.2.13"
		const listed, hidden, added = "192.0.2.21", "192.0.2.22", "192.0.2.23"
		first := start(a, false)
		// The endpoints come first if no address can be allocated yet.
		eventually(t, func() error {
			_, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
			return err
		})
		eventually(t, endpoints(t, client, a))
		service := must(client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
		if service.Spec.ClusterIP != "10.96.0.1" || len(service.Spec.Selector) > 0 || service.Spec.Ports[0].Port != 443 {
			t.Errorf("%+v", service.Spec)
		}
		second := start(b, false)
		eventually(t, endpoints(t, client, a, b))
		eventually(t, leases(t, etcd, a, b))

		// What is removed comes back.
		const namespace = "kube-node-lease"
		there := func() error {
			_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return err
		}
		eventually(t, there)
		must(etcd.Client().Delete(ctx, "/registry/namespaces/"+namespace))
		for _, key := range []string{endpointsKey, sliceKey} {
			deleted := must(etcd.Client().Delete(ctx, key))
			if deleted.Deleted != 1 {
				t.Fatal(key, deleted.Deleted)
			}
			eventually(t, func() error {
				if n := must(etcd.Client().Get(ctx, key)).Count; n != 1 {
					return fmt.Errorf("%s is not back", key)
				}
				return nil
			})
			eventually(t, endpoints(t, client, a, b))
		}

		if err := client.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			again, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
			if err == nil && (again.UID == service.UID || again.Spec.ClusterIP != service.Spec.ClusterIP) {
				err = fmt.Errorf("%+v", again)
			}
			return err
		})
		eventually(t, endpoints(t, client, a, b)) // the Endpoints went with it

		// The family of a slice cannot be changed, so it is recreated.
		const ipv6 = `{"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv6",
			"metadata": {"name": "kubernetes", "namespace": "default", "uid": "6f1c1d0e-5d3e-4f6c-9d55-0a4c5a0f7a11"},
			"endpoints": [{"addresses": ["2001:db8::11"]}]}`
		must(etcd.Client().Put(ctx, sliceKey, ipv6))
		eventually(t, endpoints(t, client, a, b))

		// A lease that cannot be read: its own server rewrites it, and another one's address stays if it is listed.
		began := must(etcd.Client().Get(ctx, leaseDirectory+a))
		put := func(key string, value []byte) int64 {
			t.Helper()
			ttl := clientv3.WithLease(must(etcd.Client().Grant(ctx, 3600)).ID)
			return must(etcd.Client().Put(ctx, leaseDirectory+key, string(value), ttl)).Header.Revision
		}
		put(listed, bytes.ReplaceAll(began.Kvs[0].Value, []byte(a), []byte(listed)))
		eventually(t, endpoints(t, client, a, b, listed))
		put(listed, []byte("garbage"))
		put(hidden, []byte("k8s\x00garbage"))
		put(added, bytes.ReplaceAll(began.Kvs[0].Value, []byte(a), []byte(added)))
		eventually(t, endpoints(t, client, a, b, listed, added))
		for range 2 { // both have seen the others by then
			damaged := put(b, []byte("garbage"))
			eventually(t, func() error {
				kvs := must(etcd.Client().Get(ctx, leaseDirectory+b)).Kvs
				if len(kvs) != 1 || kvs[0].ModRevision <= damaged || !bytes.Contains(kvs[0].Value, []byte(b)) {
					return fmt.Errorf("the own lease is not rewritten: %v", kvs)
				}
				return nil
			})
		}
		if err := endpoints(t, client, a, b, listed, added)(); err != nil {
			t.Error(err)
		}
		neverDropped(t, etcd.Client(), began.Header.Revision, a, b)
		for _, key := range []string{listed, hidden, added} {
			must(etcd.Client().Delete(ctx, leaseDirectory+key))
		}
		eventually(t, endpoints(t, client, a, b))
		eventually(t, there) // the servers look each minute

		// One that is killed goes with its lease, and comes back when it is ready again.
		third := start(c, true)
		eventually(t, endpoints(t, client, a, b, c))
		second.Kill()
		eventually(t, leases(t, etcd, a, c))
		eventually(t, endpoints(t, client, a, c))
		second.Restart()
		eventually(t, endpoints(t, client, a, b, c))
		// What it left behind is removed before it is ready.
		second.Kill()
		second.Restart()
		eventually(t, endpoints(t, client, a, b, c))
		eventually(t, leases(t, etcd, a, b, c))

		// In order: it is gone with its process.
		stop := func(server *apiservertest.Server, left ...string) {
			t.Helper()
			server.Stop()
			if err := endpoints(t, client, left...)(); err != nil {
				t.Error(err)
			}
			if err := leases(t, etcd, left...)(); err != nil {
				t.Error(err)
			}
		}
		stop(first, b, c)
		stop(third, b)
		stop(second)

		count := []string{"--endpoint-reconciler-type=master-count", "--apiserver-count=2"}
		first = start(a, false, count...)
		eventually(t, endpoints(t, client, a))
		second = start(b, false, count...)
		eventually(t, endpoints(t, client, a, b))
		second.Kill()
		third = start(c, false, count...)
		eventually(t, endpoints(t, client, a, c)) // nobody looks who lives, but there are too many
		first.Kill()
		first.Restart()
		eventually(t, endpoints(t, client, a, c))
		none := start(b, false, "--endpoint-reconciler-type=none")
		none.Stop()
		for _, server := range []struct {
			*apiservertest.Server
			left []string
		}{{first, []string{c}}, {third, nil}} {
			server.Stop()
			if err := endpoints(t, client, server.left...)(); err != nil {
				t.Error(err)
			}
		}
	})
}
