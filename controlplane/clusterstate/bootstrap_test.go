package clusterstate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestBootstrap reads what API servers keep from a running etcd and from a snapshot of it.
func TestBootstrap(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	client, ctx := etcd.Client(), t.Context()
	granted, err := client.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, value string, o ...clientv3.OpOption) {
		t.Helper()
		if _, err := client.Put(ctx, key, value, o...); err != nil {
			t.Fatal(err)
		}
	}
	put("/registry/masterleases/192.0.2.1", "one", clientv3.WithLease(granted.ID))
	put("/registry/masterleases/192.0.2.2", "k8s:enc:aescbc:v1:key1:two")
	for _, name := range []string{"default", "kube-public", "kube-public-2"} {
		put("/registry/namespaces/"+name, "k8s:enc:aescbc:v1:key1:nobody reads it")
	}
	put("/registry/services/endpoints/default/kubernetes", `{"apiVersion":"v1","kind":"Endpoints","metadata":{"namespace":"default","name":"kubernetes"}}`)
	put("/registry/services/endpoints/default/kubernetes-2", "another one")
	damaged := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "damaged", Labels: map[string]string{"kubernetes.io/service-name": "kubernetes"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "one", FieldsV1: &metav1.FieldsV1{Raw: []byte("{")}}},
	}}
	put("/registry/endpointslices/default/damaged", string(must(clusterstate.EncodeEndpointSlice(&damaged))))
	slice := func(name, service string) string {
		return `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4","metadata":{"namespace":"default","name":"` + name +
			`","labels":{"kubernetes.io/service-name":"` + service + `"}}}`
	}
	put("/registry/endpointslices/default/kubernetes", slice("kubernetes", "kubernetes"))
	put("/registry/endpointslices/default/web-1", strings.Replace(slice("web-1", "web"), "/v1", "/v1beta1", 1))
	read := func() (all []*clusterstate.Bootstrap) {
		t.Helper()
		o := clusterstate.Options{Bootstrap: true}
		running, err := clusterstate.ReadEtcd(ctx, client, o)
		if err != nil {
			t.Fatal(err)
		}
		file, err := clusterstate.ReadSnapshotFile(ctx, etcdtest.Save(t, client), o)
		if err != nil {
			t.Fatal(err)
		}
		return []*clusterstate.Bootstrap{running.Bootstrap, file.Bootstrap}
	}
	both := read()
	for i, b := range both {
		if len(b.Leases) != 2 || b.LeasesUnseen != "" {
			t.Fatalf("%+v", b)
		}
		one, two := b.Leases[0], b.Leases[1]
		if string(one.Value) != "one" || one.ID != int64(granted.ID) || one.State != clusterstate.LeaseGranted || one.TTL != time.Hour || (one.Left > 0) != (i == 0) {
			t.Errorf("%+v", one)
		}
		if !strings.HasSuffix(string(two.Value), "two") || two.ID != 0 || two.State != clusterstate.LeaseMissing {
			t.Errorf("%+v", two)
		}
		if want := []string{"default", "kube-public", "kube-public-2"}; !slices.Equal(b.Namespaces, want) || b.NamespacesUnseen != "" {
			t.Errorf("%q", b.Namespaces)
		}
		if b.Endpoints == nil || b.Endpoints.Name != "kubernetes" || b.Endpoints.ResourceVersion == "" || b.ObjectsUnseen != "" {
			t.Errorf("%+v", b.Endpoints)
		}
		if len(b.Slices) != 2 || b.Slices[0].Name != "damaged" || len(b.Slices[0].ManagedFields) > 0 || b.Slices[1].Name != "kubernetes" {
			t.Errorf("%+v", b.Slices)
		}
	}
	if now := read()[0]; !now.Leases[0].Unchanged(both[0]) || !now.EndpointsUnchanged(both[0]) {
		t.Error("nobody has written")
	}
	put("/registry/masterleases/192.0.2.1", "one", clientv3.WithLease(granted.ID))
	put("/registry/endpointslices/default/kubernetes", slice("kubernetes", "kubernetes"))
	if now := read()[0]; now.Leases[0].Unchanged(both[0]) || !now.Leases[1].Unchanged(both[0]) || now.EndpointsUnchanged(both[0]) {
		t.Error("both were written")
	}
	put("/registry/endpointslices/default/kubernetes", slice("kubernetes", ""))
	if now := read()[0]; len(now.Slices) != 2 || now.ObjectsUnseen != "" {
		t.Errorf("without its label the slice is missing: %+v", now)
	}
	// The endpoints are compared without one that may be of another Service.
	put("/registry/endpointslices/default/web-1", "damaged")
	for _, b := range read() {
		if b.ObjectsUnseen != "" || !strings.HasPrefix(b.SlicesUnseen, "key /registry/endpointslices/default/web-1: ") || len(b.Slices) != 2 {
			t.Errorf("%+v", b)
		}
	}
	put("/registry/endpointslices/default/kubernetes", "k8s:enc:aescbc:v1:key1:three")
	for _, b := range read() {
		if !strings.Contains(b.ObjectsUnseen, "endpointslices/default/kubernetes: encrypted at rest") {
			t.Errorf("%q", b.ObjectsUnseen)
		}
	}
}

// TestBootstrapOfALimitedUser has an etcd user who may read the ranges and Services, and not what API servers keep.
func TestBootstrapOfALimitedUser(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	client, ctx := etcd.Client(), t.Context()
	if _, err := client.Put(ctx, "/registry/masterleases/192.0.2.1", "one"); err != nil {
		t.Fatal(err)
	}
	etcdtest.AddUser(t, client, "reader", "reader", clientv3.PermissionType(clientv3.PermRead),
		"/registry/ranges/", "/registry/services/specs/", "/registry/ipaddresses/", "/registry/servicecidrs/", "/registry/apiregistration.k8s.io/", "/registry/namespaces/")
	etcdtest.EnableAuth(t, client, "root")
	reader, err := clusterstate.Connect(ctx, clusterstate.ConnectOptions{Endpoints: etcd.Endpoints(), User: "reader", Password: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	state, err := clusterstate.ReadEtcd(ctx, reader, clusterstate.Options{Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	b := state.Bootstrap
	if len(b.Leases) > 0 || !strings.Contains(b.LeasesUnseen, "may not read /registry/masterleases/") || b.ObjectsUnseen == "" || b.NamespacesUnseen != "" {
		t.Errorf("%+v", b)
	}
}
