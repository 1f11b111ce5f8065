package bootstrap

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestLeaseOfAnotherHistory puts etcd back between the read of a lease and its deletion. In the other history another
// process has written the key at the same revision.
func TestLeaseOfAnotherHistory(t *testing.T) {
	const key = "/registry/masterleases/192.0.2.11"
	etcd := etcdtest.StartCluster(t, 1)
	client := etcd.Client()
	s := &leaseStore{client: client}
	read := func() storedLease {
		t.Helper()
		found, ok := s.list(t.Context(), key).(leases)
		if !ok || len(found.Leases) != 1 {
			t.Fatalf("%+v", found)
		}
		return found.Leases[0]
	}
	backup := etcd.CopyData(0)
	target := etcdtest.Revision(t, client) + 10
	var histories []string
	for _, value := range []string{"ended", "lives"} {
		etcd.PutBack(0, backup)
		etcdtest.Fill(t, client, target)
		granted, err := client.Grant(t.Context(), 60)
		if err == nil {
			_, err = client.Put(t.Context(), key, value, clientv3.WithLease(granted.ID))
		}
		if err != nil {
			t.Fatal(err)
		}
		histories = append(histories, etcd.CopyData(0))
	}
	etcd.PutBack(0, histories[0])
	ended := read()
	etcd.PutBack(0, histories[1])
	lives := read()
	if ended.ModRevision != lives.ModRevision {
		t.Fatalf("the lease is of revision %d and of %d", ended.ModRevision, lives.ModRevision)
	}
	remove := func(lease storedLease) answer {
		return s.delete(t.Context(), &deleteLease{key, lease.ModRevision, clientv3.LeaseID(lease.LeaseID)})
	}
	if got := remove(ended); got != conflict {
		t.Errorf("the lease of the process that lives: %v", got)
	}
	if got := remove(lives); got != done {
		t.Error(got)
	}
}
