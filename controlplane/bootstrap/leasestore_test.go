package bootstrap

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
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

// TestRefusals: a request that the store refuses is not taken for one without an answer, also by a status of gRPC that
// etcd's client does not know, such as kine's.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		err  error
		want reason
	}{
		{status.Error(codes.InvalidArgument, "etcdserver: unsupported operations in txn request"), refused},
		{rpctypes.ErrPermissionDenied, refused},
		{rpctypes.ErrNoLeader, unavailable},
		{status.Error(codes.Unavailable, "connection refused"), unanswered},
		{context.DeadlineExceeded, unanswered},
	} {
		explained, _ := etcdstore.ExplainKine(c.err)
		if got := etcdFailure(c.err); got != fails(c.want, explained) {
			t.Errorf("%v: %+v, want %s", c.err, got, c.want)
		}
	}
}

// TestWatchOverKine writes a lease twice and deletes it. kine sends all of that to a watch for deletions.
func TestWatchOverKine(t *testing.T) {
	const key = "/registry/masterleases/192.0.2.11"
	kine := etcdtest.StartKine(t)
	client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: []string{kine.Endpoint}, DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	deletions := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go (&leaseStore{client: client}).watchDeletions(ctx, "/registry/masterleases/", func(key string) { deletions <- key })
	for rounds, received := 1, 0; received < 10; rounds++ {
		created, err := client.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "first")).Commit()
		if err != nil || !created.Succeeded {
			t.Fatal(created, err)
		}
		etcdtest.Swap(t, client, key, func(string) clientv3.Op { return clientv3.OpPut(key, "second") })
		etcdtest.Swap(t, client, key, func(string) clientv3.Op { return clientv3.OpDelete(key) })
		select {
		case <-deletions:
			received++
		case <-time.After(10 * time.Millisecond): // the watch may not run yet
		}
		for received += len(deletions); len(deletions) > 0; {
			<-deletions
		}
		if received > rounds {
			t.Fatalf("%d deletions of %d", received, rounds)
		}
	}
}
