package etcdstoretest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/tcpproxy"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// creation is the write of a Service that is not there yet.
type creation struct {
	key        string
	conditions []clientv3.Cmp
	put        clientv3.Op
}

func creationOf(name string, allocated ...etcdstore.Allocation) creation {
	key := "/registry/services/specs/default/" + name
	isNew := clientv3.Compare(clientv3.ModRevision(key), "=", 0)
	return creation{key, append(etcdstore.Conditions(allocated...), isNew), clientv3.OpPut(key, name)}
}

func (c creation) over(ctx context.Context, connections etcdstore.Connections) (*clientv3.TxnResponse, error) {
	return connections.Txn(ctx, c.conditions, []clientv3.Op{c.put}, []clientv3.Op{clientv3.OpGet(c.key)})
}

func (c creation) isStored(ctx context.Context, client *clientv3.Client) bool {
	return must(client.Get(ctx, c.key)).Count > 0
}

// create creates a Service with a value of its own, in a request that may be refused so many times.
func (s *server) create(ctx context.Context, name string, refusals int) {
	s.t.Helper()
	for n := 0; ; n++ {
		connections := must(s.Connections(ctx))
		web := creationOf(name, must(s.AllocateNext(ctx)))
		answer, err := web.over(ctx, connections)
		if errors.Is(err, etcdstore.ErrRestored) && n < refusals {
			continue
		}
		if err != nil || !answer.Succeeded || !web.isStored(ctx, s.client) {
			s.t.Fatalf("creation of %s: %v, %v", name, answer, err)
		}
		return
	}
}

// TestWriteAfterRestore puts an older state of etcd back between an allocation and the creation of its Service. There
// another program gives the value to another Service, at the revision of the allocation. So the conditions of the value
// hold, and with them alone there are two Services with it. The write over the connections of the request is not sent,
// whether the store has noticed the new connection or not.
func TestWriteAfterRestore(t *testing.T) {
	for _, members := range []int{1, 3} {
		for _, isNoticed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d members, noticed: %v", members, isNoticed), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cluster := etcdtest.StartCluster(t, members)
				others := cluster.Client()
				s := startServer(t, cluster.Client())
				var restore func()
				if members == 1 { // no raft term shows the restore
					backup := cluster.CopyData(0)
					restore = func() { cluster.PutBack(0, backup) }
				} else {
					backup := etcdtest.Save(t, others)
					restore = func() { cluster.Restore(backup, etcdtest.Restoration{}, func() {}) }
				}
				before := etcdtest.Revision(t, others) + 10
				etcdtest.Fill(t, others, before)
				connections := must(s.Connections(ctx))
				mine := must(s.AllocateNext(ctx))
				web := creationOf("web", mine)

				restore()
				etcdtest.Fill(t, others, before)
				theirs := must(openStore(t, others).Allocate(ctx, mine.Value))
				if theirs.Revision != mine.Revision {
					t.Fatalf("allocated at revision %d, and in the restored etcd at %d", mine.Revision, theirs.Revision)
				}
				other := creationOf("other", theirs)
				if !must(others.Txn(ctx).If(other.conditions...).Then(other.put).Commit()).Succeeded {
					t.Fatal("the Service of the other program was not created")
				}
				for range 2 * members {
					if isNoticed {
						must(s.Read(ctx))
					}
				}
				now := etcdtest.Revision(t, others)
				answer, err := web.over(ctx, connections)
				if !errors.Is(err, etcdstore.ErrRestored) {
					t.Errorf("answer %v, error %v", answer, err)
				}
				t.Logf("%d restores noticed: %v", s.Stats().Restores, err)
				if etcdtest.Revision(t, others) != now {
					t.Error("etcd was written")
				}
				// What the connections are for.
				if !must(others.Txn(ctx).If(web.conditions...).Then(web.put).Commit()).Succeeded {
					t.Error("the conditions alone have refused the Service")
				}
				s.create(ctx, "next", members)
			})
		}
	}
}

// TestWriteThroughProxy restores the etcd behind a proxy of etcd, which keeps the connection of the client. The store
// notices the restore by the next answer. A Service that a request has read before has the same revision again, and
// another value: the request does not replace it.
func TestWriteThroughProxy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cluster := etcdtest.StartCluster(t, 1)
	others := cluster.Client()
	proxy := grpc.NewServer()
	kv, _ := grpcproxy.NewKvProxy(others)
	pb.RegisterKVServer(proxy, kv)
	watches, _ := grpcproxy.NewWatchProxy(ctx, zap.NewNop(), others)
	pb.RegisterWatchServer(proxy, watches)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go proxy.Serve(listener) // its error is that it was stopped
	t.Cleanup(proxy.Stop)
	client := must(clientv3.New(clientv3.Config{Endpoints: []string{listener.Addr().String()}}))
	t.Cleanup(func() { client.Close() })

	s := startServer(t, client)
	backup := cluster.CopyData(0)
	before := etcdtest.Revision(t, others) + 10
	etcdtest.Fill(t, others, before)
	web := creationOf("web").key
	connections := must(s.Connections(ctx))
	read := must(others.Put(ctx, web, "lost")).Header.Revision
	update := creation{web, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(web), "=", read)}, clientv3.OpPut(web, "update")}
	must(s.Read(ctx)) // so that the store knows the revision, which goes back

	cluster.PutBack(0, backup)
	for s.Stats().Restores == 0 {
		must(s.Read(ctx))
	}
	etcdtest.Fill(t, others, before)
	if again := must(others.Put(ctx, web, "other")).Header.Revision; again != read {
		t.Fatalf("written at revision %d, and in the restored etcd at %d", read, again)
	}
	answer, err := update.over(ctx, connections)
	if stored := string(must(others.Get(ctx, web)).Kvs[0].Value); !errors.Is(err, etcdstore.ErrRestored) || stored != "other" {
		t.Errorf("answer %v, error %v; %q is stored", answer, err, stored)
	}
	t.Log(err)
	if !must(update.over(ctx, must(s.Connections(ctx)))).Succeeded {
		t.Error("the condition does not hold")
	}
	s.create(ctx, "next", 0)
}

// TestWriteOverConnections creates and deletes Services without a restore, on conditions that hold and on others. A
// store that was opened just now knows no connection before.
func TestWriteOverConnections(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d members", members), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			client := etcdtest.StartCluster(t, members).Client()
			startServer(t, client)
			s := &server{Store: openStore(t, client), t: t, client: client}
			refusals := members - 1 // for each member to which the client connects later
			s.create(ctx, "first", refusals)
			s.create(ctx, "second", refusals)
			write := func(c creation, connections etcdstore.Connections) *clientv3.TxnResponse {
				t.Helper()
				answer, err := c.over(ctx, connections)
				for n := 0; n < refusals && errors.Is(err, etcdstore.ErrRestored); n++ {
					answer, err = c.over(ctx, must(s.Connections(ctx)))
				}
				return must(answer, err)
			}
			again := write(creationOf("first"), must(s.Connections(ctx)))
			if again.Succeeded || again.Responses[0].GetResponseRange().Count != 1 {
				t.Errorf("created again: %v", again)
			}
			deletion := creationOf("first")
			deletion.conditions, deletion.put = nil, clientv3.OpDelete(deletion.key)
			if gone := write(deletion, must(s.Connections(ctx))); gone.Responses[0].GetResponseDeleteRange().Deleted != 1 {
				t.Errorf("deleted: %v", gone)
			}
			connections := must(s.Connections(ctx))
			late := creationOf("late", must(s.AllocateNext(ctx)))
			must(client.Do(ctx, clientv3.OpDelete(etcdstore.WitnessKey(faultKey)))) // a fence
			if write(late, connections).Succeeded || late.isStored(ctx, client) {
				t.Error("written behind a fence")
			}
		})
	}
}

// TestWriteAfterReconnection cuts the connection to an etcd that is not restored, between an allocation and the
// creation of its Service: nobody can know that it is the same etcd. The next request is carried out.
func TestWriteAfterReconnection(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	etcd := etcdtest.StartCluster(t, 1)
	proxy := tcpproxy.Start(t, must(url.Parse(etcd.Endpoints()[0])).Host)
	client := must(clientv3.New(clientv3.Config{Endpoints: []string{proxy.Address()}}))
	defer client.Close()
	s := startServer(t, client)
	for _, isNoticed := range []bool{false, true} {
		connections := must(s.Connections(ctx))
		web := creationOf("web", must(s.AllocateNext(ctx)))
		proxy.Cut()
		if isNoticed {
			must(s.Read(ctx))
		} else {
			must(client.Get(ctx, faultKey))
		}
		if answer, err := web.over(ctx, connections); !errors.Is(err, etcdstore.ErrRestored) || web.isStored(ctx, client) {
			t.Errorf("noticed: %v; answer %v, error %v", isNoticed, answer, err)
		}
		s.create(ctx, fmt.Sprintf("noticed-%v", isNoticed), 0)
	}
}

// TestWriteWhileMembersRestart restarts the members of a cluster one after another under a request. It is carried out
// as long as one connection is older than the request.
func TestWriteWhileMembersRestart(t *testing.T) {
	const members = 3
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cluster := etcdtest.StartCluster(t, members)
	s := startServer(t, cluster.Client())
	connections := s.connectionsToAll(ctx, members)
	write := func() error {
		_, err := connections.Txn(ctx, nil, []clientv3.Op{clientv3.OpPut("/written", "")}, nil)
		return err
	}
	for i := range members {
		cluster.Kill(i)
		cluster.Restart(i)
		s.connectionsToAll(ctx, members)
		for range members { // else one of them goes over the new connection
			if err := write(); i < members-1 && err != nil || i == members-1 && !errors.Is(err, etcdstore.ErrRestored) {
				t.Errorf("member %d has restarted: %v", i, err)
			}
		}
	}
	s.create(ctx, "next", 0)
}

// connectionsToAll returns connections once there is one to each member.
func (s *server) connectionsToAll(ctx context.Context, members int) (connections etcdstore.Connections) {
	s.t.Helper()
	for known := map[uint64]bool{}; len(known) < members && ctx.Err() == nil; {
		must(s.Read(ctx))
		connections = must(s.Connections(ctx))
		if answer, err := connections.Txn(ctx, nil, nil, nil); err == nil {
			known[answer.Header.MemberId] = true
		} // else one is gone, or new
	}
	return connections
}

// TestWriteAfterClose writes over the connections of a store that was closed.
func TestWriteAfterClose(t *testing.T) {
	s := openStore(t, etcdtest.Start(t, "").Client())
	must(s.Init(t.Context()))
	connections := must(s.Connections(t.Context()))
	must(0, s.Close(t.Context()))
	if _, err := connections.Txn(t.Context(), nil, nil, nil); !errors.Is(err, rangekeeper.ErrClosed) {
		t.Error(err)
	}
}
