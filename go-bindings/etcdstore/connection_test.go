package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// patience is the time limit of a test that takes a second or two on a machine that has nothing else to do.
const patience = 5 * time.Minute

// TestReadAfterReconnection cuts one of two connections again and again. The client itself is connected all the time;
// what comes over a new connection may nevertheless be another etcd's: a read comes before the next swap, and no swap
// is what finds it.
func TestReadAfterReconnection(t *testing.T) {
	etcd := endpoint(t)
	cut, whole := startProxy(t, etcd), startProxy(t, etcd)
	var (
		mu   sync.Mutex
		seen []transaction
	)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{cut.endpoint(), whole.endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
				from := new(peer.Peer)
				err := invoke(ctx, method, request, reply, cc, append(options, grpc.Peer(from))...)
				isRefused := status.Convert(err).Message() == errReconnected.Error()
				if r, is := request.(*etcdserverpb.TxnRequest); is && (err == nil || isRefused) {
					mu.Lock()
					seen = append(seen, transaction{from.LocalAddr, len(r.Success) > 0, isRefused})
					mu.Unlock()
				}
				return err
			})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	store := must(Open(Config{Client: client, Key: keyOf(t), Range: must(rangekeeper.ParseCIDR("10.0.0.0/24"))}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := store.Init(ctx); err != nil {
		t.Fatal(err)
	}
	used := func() int {
		mu.Lock()
		defer mu.Unlock()
		known := map[net.Addr]bool{}
		for _, one := range seen {
			if !one.isRefused {
				known[one.over] = true
			}
		}
		return len(known)
	}
	const cuts = 10
	for before := 0; before < cuts; {
		got, err := store.AllocateNext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := store.Release(ctx, got.Value, rangekeeper.OwnedSince(got.Revision)); err != nil || !ok {
			t.Fatalf("release: %v, %v", ok, err)
		}
		if now := used(); now > before {
			before = now
			cut.cut()
		}
	}
	if err := store.Close(ctx); err != nil {
		t.Fatal(err)
	}

	var (
		known    = map[net.Addr]bool{seen[0].over: true}
		refused  int  // new connections that were found by a swap, which was not sent, and that nothing has come over yet
		mustRead bool // nothing was read since a new connection was found
	)
	for i, one := range seen {
		if one.isRefused {
			refused++
			mustRead = true
			continue
		}
		isNew := !known[one.over]
		known[one.over] = true
		isFound := isNew && refused > 0
		if isFound {
			refused--
		}
		switch {
		case one.isSwap && (mustRead || isNew && !isFound):
			t.Errorf("transaction %d is a swap, and nothing was read since its connection was found", i)
		case !one.isSwap:
			mustRead = isNew && !isFound // this one has found it
		}
	}
	t.Logf("%d transactions over %d connections", len(seen), len(known))
}

// TestWatchEndsWithItsConnection cuts the connection of a watch: it may not go on over the
// next one.
func TestWatchEndsWithItsConnection(t *testing.T) {
	etcd, key := connect(t, endpoint(t)), keyOf(t)
	between := startProxy(t, endpoint(t))
	client := connect(t, between.endpoint())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := newConnections()
	written := must(c.kv(client).Txn(ctx).Then(clientv3.OpPut(key, "a")).Commit())
	events := c.watcher(client).Watch(ctx, key, clientv3.WithRev(written.Header.Revision))
	if w := <-events; len(w.Events) != 1 {
		t.Fatal(w, w.Err())
	}
	if len(c.reconnected) > 0 {
		t.Fatal("there is one connection only")
	}
	between.cut()
	must(etcd.Put(ctx, key, "b"))
	for w := range events {
		if len(w.Events) > 0 || !errors.Is(w.Err(), errReconnected) {
			t.Error(w, w.Err())
		}
	}
	if len(c.reconnected) == 0 {
		t.Error("the loss was not reported")
	}
}

// TestLossIsReported cuts the only connection: the loss is reported before anything is sent over the
// next one.
func TestLossIsReported(t *testing.T) {
	between := startProxy(t, endpoint(t))
	client := connect(t, between.endpoint())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := newConnections()
	go c.await(ctx, client.ActiveConnection())
	for len(c.reconnected) == 0 { // it may be cut before await has seen that there is one
		client.Get(ctx, keyOf(t)) // an error says that the last one was cut
		between.cut()
		time.Sleep(time.Millisecond)
		if ctx.Err() != nil {
			t.Fatal("the loss was not reported")
		}
	}
}

// transaction is one that etcd has answered, or one that was not sent.
type transaction struct {
	over      net.Addr
	isSwap    bool
	isRefused bool
}

// proxy hands connections on to etcd.
type proxy struct {
	listener net.Listener
	target   string

	mu   sync.Mutex
	open []net.Conn
}

func startProxy(t *testing.T, endpoint string) *proxy {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target.Host}
	t.Cleanup(func() { listener.Close(); p.cut() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			to, err := net.Dial("tcp", p.target)
			if err != nil {
				from.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, from, to)
			p.mu.Unlock()
			go func() { io.Copy(to, from); to.Close() }() // an error ends it as well
			go func() { io.Copy(from, to); from.Close() }()
		}
	}()
	return p
}

func (p *proxy) endpoint() string { return fmt.Sprintf("http://%s", p.listener.Addr()) }

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.open {
		one.Close()
	}
	p.open = nil
}
