package clusterstate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestOneInstantOfTwoEtcds reads two etcds while Services come and go as a kube-apiserver has them: the object of an
// address is created before its Service, and deleted after it. So at each instant each Service has its object.
func TestOneInstantOfTwoEtcds(t *testing.T) {
	client, ofServices := etcdtest.Start(t, "").Client(), etcdtest.Start(t, "").Client()
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer stop()
	const n = 4
	written := make(chan error, n)
	for i := range n {
		address := fmt.Sprintf("10.0.0.%d", i+1)
		object, service := "/registry/ipaddresses/"+address, "/registry/services/specs/ns/web-"+fmt.Sprint(i)
		objectValue := string(protobuf(t, "networking.k8s.io/v1", "IPAddress", &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: address}}))
		serviceValue := string(protobuf(t, "v1", "Service", &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-" + fmt.Sprint(i)}, Spec: corev1.ServiceSpec{ClusterIP: address, ClusterIPs: []string{address}},
		}))
		writers.Go(func() {
			steps := []func() error{
				func() error { _, err := client.Put(ctx, object, objectValue); return err },
				func() error { _, err := ofServices.Put(ctx, service, serviceValue); return err },
				func() error { _, err := ofServices.Delete(ctx, service); return err },
				func() error { _, err := client.Delete(ctx, object); return err },
			}
			for ctx.Err() == nil {
				for _, step := range steps {
					if err := step(); err != nil && ctx.Err() == nil {
						written <- err
						return
					}
				}
			}
		})
	}
	seen := 0
	for range 300 {
		s, err := clusterstate.ReadEtcds(t.Context(), client, ofServices, clusterstate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		objects := map[string]bool{}
		for object := range s.IPAddresses.All() {
			objects[object.Name] = true
		}
		for _, service := range s.Services.All() {
			seen++
			if !objects[service.ClusterIPs[0]] {
				t.Fatalf("Service %s without its object, at revisions %d and %d", service.Name, s.Revision, s.ServicesRevision)
			}
		}
	}
	if seen == 0 {
		t.Error("no Service was read")
	}
	select {
	case err := <-written:
		t.Error(err)
	default:
	}
}

// TestTwoEtcds takes Services and ranges from one etcd, and all else from the other one.
func TestTwoEtcds(t *testing.T) {
	whole := etcdtest.Start(t, etcdtest.Fixture("kube-1.37-dual-stack", "drift.db.gz")).Client()
	want, err := clusterstate.ReadEtcd(t.Context(), whole, clusterstate.Options{Bootstrap: true, Upgrade: true})
	if err != nil {
		t.Fatal(err)
	}
	client, ofServices := etcdtest.Start(t, "").Client(), etcdtest.Start(t, "").Client()
	all, err := whole.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		to := client
		if key := string(kv.Key); strings.HasPrefix(key, "/registry/services/specs/") || strings.HasPrefix(key, "/registry/ranges/") {
			to = ofServices
		}
		if _, err := to.Put(t.Context(), string(kv.Key), string(kv.Value)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := clusterstate.ReadEtcds(t.Context(), client, ofServices, clusterstate.Options{Bootstrap: true, Upgrade: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.Services.Len() != want.Services.Len() || got.IPAddresses.Len() != want.IPAddresses.Len() || len(got.Ranges) != len(want.Ranges) ||
		len(got.ServiceCIDRs) != len(want.ServiceCIDRs) || got.Identity.UID != want.Identity.UID || got.Bootstrap.Service == nil ||
		len(got.Bootstrap.Namespaces) != len(want.Bootstrap.Namespaces) || (got.UpgradedAt > 0) != (want.UpgradedAt > 0) {
		t.Errorf("%d Services, %d IPAddress objects, %d ranges, %+v", got.Services.Len(), got.IPAddresses.Len(), len(got.Ranges), got.Bootstrap)
	}
	for at := range want.Services.Len() {
		if a, b := got.Services.At(at), want.Services.At(at); a.Namespace != b.Namespace || a.Name != b.Name {
			t.Errorf("%s/%s, not %s/%s", a.Namespace, a.Name, b.Namespace, b.Name)
		}
	}
}
