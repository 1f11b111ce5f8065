package clusterstate_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestRestoredWithNewToken restores etcd as another cluster on the same URL, under three clients. One goes on with it,
// and refuses the first answer; the others refuse all answers, one of them as its program does not agree.
func TestRestoredWithNewToken(t *testing.T) {
	etcd := etcdtest.StartCluster(t, 1)
	connect := func(restored func(context.Context, error) error) *clientv3.Client {
		t.Helper()
		client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: etcd.Endpoints(), DialTimeout: patience, Restored: restored})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return client
	}
	var told, asked atomic.Int64
	stays, follows := connect(nil), connect(func(context.Context, error) error { told.Add(1); return nil })
	var disagrees *clientv3.Client
	disagrees = connect(func(ctx context.Context, what error) error {
		asked.Add(1)
		if got, err := disagrees.Get(ctx, "/registry/key"); err != nil {
			t.Errorf("%v, %v", got, err)
		}
		return what
	})
	etcd.Restore(etcdtest.Save(t, stays), etcdtest.Restoration{Token: "another"}, func() {})

	// refusals counts them until an answer comes, or three have come.
	refusals := func(client *clientv3.Client, want string) (n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for n < 3 {
			_, err := client.Put(ctx, "/registry/key", "")
			switch {
			case err == nil:
				return n
			case ctx.Err() != nil:
				t.Fatal(err)
			case strings.HasPrefix(err.Error(), "another etcd"):
				n++
				if err.Error() != want {
					t.Error(err)
				}
			}
		}
		return n
	}
	want := "another etcd answers at " + etcd.Endpoints()[0] + " than before: it was restored or replaced meanwhile"
	if n := refusals(stays, want+"; run the command again"); n != 3 {
		t.Errorf("an answer after %d refusals", n)
	}
	if n := refusals(disagrees, want); n != 3 || asked.Load() != 3 {
		t.Errorf("an answer after %d refusals, asked %d times", n, asked.Load())
	}
	if n := refusals(follows, want); n != 1 || told.Load() != 1 {
		t.Errorf("%d refusals, %d reports of a restore", n, told.Load())
	}
}

// TestClones: etcds that were restored from one snapshot, each by itself, have the same ids, and are no members of one
// cluster.
func TestClones(t *testing.T) {
	snapshot := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	one, other := etcdtest.Start(t, snapshot), etcdtest.Start(t, snapshot)
	connect := func(endpoints ...string) error {
		client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: endpoints, DialTimeout: patience})
		if err == nil {
			client.Close()
		}
		return err
	}
	ids := map[[2]uint64]bool{}
	for _, etcd := range []*embedded.Etcd{one, other} {
		status, err := etcd.Client().Status(t.Context(), etcd.Endpoints()[0])
		if err != nil {
			t.Fatal(err)
		}
		ids[[2]uint64{status.Header.ClusterId, status.Header.MemberId}] = true
	}
	if len(ids) != 1 {
		t.Fatalf("the etcds have the ids %v", ids)
	}
	a, b := one.Endpoints()[0], other.Endpoints()[0]
	for i, endpoints := range [][]string{{a, b}, {b, a}, {a, b}} {
		if i == 2 {
			if _, err := other.Client().Put(t.Context(), "/registry/key", ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := connect(endpoints...); err == nil || !strings.Contains(err.Error(), endpoints[0]+" and "+endpoints[1]+" both have the id") {
			t.Errorf("%q: %v", endpoints, err)
		}
	}
	// Two ways to one etcd are no clones.
	if err := connect(a, strings.Replace(a, "127.0.0.1", "localhost", 1)); err != nil {
		t.Error(err)
	}
}
