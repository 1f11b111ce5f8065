package clusterstate_test

import (
	"context"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// restoring restores etcd before a transaction.
type restoring struct {
	clientv3.KV
	restore func()
}

func (r restoring) Txn(ctx context.Context) clientv3.Txn {
	r.restore()
	return r.KV.Txn(ctx)
}

// TestDeleteLostIPAddress restores etcd between the look at the object of a lost Service and its deletion: in the other
// history the object of a live Service has the same revision. Without that it is deleted.
func TestDeleteLostIPAddress(t *testing.T) {
	const address, lost, key = "10.96.0.1", "default/kubernetes", "/registry/ipaddresses/10.96.0.1"
	etcd := etcdtest.StartCluster(t, 1)
	client := etcd.Client()
	s := &storage{t: t, etcd: etcd, client: client}
	backup := etcd.CopyData(0)
	target := s.revision() + 10
	var histories []string
	for _, name := range []string{"kubernetes", "alive"} {
		s.etcd.PutBack(0, backup)
		s.fill(target)
		object := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: address},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: name}},
		}
		value := must((&clusterstate.State{UpgradedAt: 1}).EncodeIPAddress(object))
		if _, err := client.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
		histories = append(histories, etcd.CopyData(0))
	}
	exists := func() bool { return len(must(client.Get(t.Context(), key)).Kvs) > 0 }
	s.etcd.PutBack(0, histories[0])
	kv := client.KV
	client.KV = restoring{kv, func() {
		s.etcd.PutBack(0, histories[1])
		s.revision() // once the client has its connection again
	}}
	err := clusterstate.DeleteLostIPAddress(t.Context(), client, "", address, lost)
	client.KV = kv
	if !exists() || err == nil || !strings.Contains(err.Error(), "was written meanwhile") {
		t.Errorf("the object of the live Service exists: %v; %v", exists(), err)
	}
	s.etcd.PutBack(0, histories[0])
	if err := clusterstate.DeleteLostIPAddress(t.Context(), client, "", address, lost); err != nil || exists() {
		t.Errorf("the object of the lost Service exists: %v; %v", exists(), err)
	}
}
