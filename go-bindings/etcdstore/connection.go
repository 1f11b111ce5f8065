package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// errReconnected ends a watch: any error but etcd's own does.
var errReconnected = errors.New("reconnected to etcd")

// Connections are the connections to etcd that a Store knew at one time. A restore of etcd ends its connections. So a
// request that a control plane serves takes them before it reads or allocates anything, and makes its write with
// [Connections.Txn]: all that it depends on is of the etcd that the write reaches.
type Connections struct {
	store *Store
	at    time.Time
	// number is that of the etcd that had answered, rangekeeper.Known.Store.
	number uint32
}

// Connections returns the connections to etcd that the Store knows: those over which something has come. A Store that
// knows none reads the range first; the error is that of Read. A request that allocates from several Stores of one etcd
// takes those of any of them.
func (s *Store) Connections(ctx context.Context) (Connections, error) {
	if s.isZero() {
		return Connections{}, rangekeeper.ErrClosed
	}
	if !s.connections.isAnyKnown() {
		if _, err := s.Read(ctx); err != nil {
			return Connections{}, err
		}
	}
	return Connections{s, time.Now(), s.Known().Store}, nil
}

// Txn makes a transaction as [clientv3.OpTxn] describes it, over one of the connections: the write of a Service, with
// the [Conditions] of the values that were allocated for it and those of the caller.
//
// The error is ErrRestored if there are only newer connections, or another etcd than before has answered the Store.
// Then nothing was sent, and the caller begins the request again: it takes the Connections, reads and allocates. It
// does not release what it had allocated, as in a restored etcd another Service may have it: a repair pass frees the
// values. A reconnection without a restore is refused, too, as is now and then a request over a client of several
// endpoints when the connection to one of them is new.
//
// After an error of the client the outcome is unknown. That of a Store that was closed is rangekeeper.ErrClosed.
func (c Connections) Txn(ctx context.Context, conditions []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	if c.store == nil || c.store.isClosed() {
		return nil, rangekeeper.ErrClosed
	}
	if c.store.Known().Store != c.number {
		return nil, fmt.Errorf("%s: another etcd has answered since the request began, read and allocate again: %w", c.store.Key(), ErrRestored)
	}
	for range c.store.config.Client.Endpoints() { // gRPC takes another connection each time
		known := &knownBy{connections: c.store.connections, at: c.at}
		answer, err := c.store.kv.Txn(overKnown(ctx, known)).If(conditions...).Then(then...).Else(otherwise...).Commit()
		if err == nil || !known.refused.Load() {
			return answer, err
		}
	}
	return nil, fmt.Errorf("%s: the connection to etcd is newer than the request, read and allocate again: %w", c.store.Key(), ErrRestored)
}

// connections notices when an answer or a watch comes over another connection than before: there may be another etcd at
// its end.
type connections struct {
	// reconnected has an entry if a connection was made or lost since the entry was last taken out.
	reconnected chan struct{}

	mu sync.Mutex
	// known is the last connection to each remote address.
	known map[string]connection
}

type connection struct {
	// local is its local address. gRPC keeps one value per connection, so that they differ even where a port is used
	// again.
	local net.Addr
	// since is when it became known, after that was signalled.
	since time.Time
}

func newConnections() *connections {
	return &connections{reconnected: make(chan struct{}, 1), known: make(map[string]connection)}
}

// use notes over which connection something has come, and returns since when it is known, and whether it is a new one.
// The first of all is none: there is nothing that was known before.
func (c *connections) use(over *peer.Peer) (since time.Time, isNew bool) {
	if over.Addr == nil {
		return time.Now(), false // it has not come from anywhere
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	remote, first := over.Addr.String(), len(c.known) == 0
	if known, ok := c.known[remote]; ok && known.local == over.LocalAddr {
		return known.since, false
	}
	if !first {
		c.signal()
	}
	since = time.Now()
	c.known[remote] = connection{over.LocalAddr, since}
	return since, !first
}

func (c *connections) isAnyKnown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known) > 0
}

func (c *connections) signal() {
	select {
	case c.reconnected <- struct{}{}:
	default:
	}
}

// await signals whenever the client has lost all connections: the next request goes over a new one.
func (c *connections) await(ctx context.Context, client *grpc.ClientConn) {
	for state := client.GetState(); client.WaitForStateChange(ctx, state); state = client.GetState() {
		if state == connectivity.Ready {
			c.signal()
		}
	}
}

// kv is the client's, and has connections watch each transaction.
func (c *connections) kv(client *clientv3.Client) clientv3.KV {
	return clientv3.NewKVFromKVClient(&notedKV{clientv3.RetryKVClient(client), c}, client)
}

// watcher is the client's, but a watch ends with its connection.
func (c *connections) watcher(client *clientv3.Client) clientv3.Watcher {
	remote := etcdserverpb.NewWatchClient(client.ActiveConnection())
	return clientv3.NewWatchFromWatchClient(&notedWatch{remote, c}, client)
}

type notedKV struct {
	etcdserverpb.KVClient
	connections *connections
}

func (n *notedKV) Txn(ctx context.Context, request *etcdserverpb.TxnRequest, options ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	var from peer.Peer
	options = append(slices.Clip(options), grpc.Peer(&from))
	if known, ok := ctx.Value(knownByKey{}).(*knownBy); ok {
		options = append(options, grpc.PerRPCCredentials(known))
	}
	response, err := n.KVClient.Txn(ctx, request, options...)
	n.connections.use(&from)
	return response, err
}

// knownBy lets a transaction be sent only over a connection that was known at one time. It depends on what was known
// then and compares revisions, and those of an etcd that was restored can be the same. The committer reads first once
// it knows of a new connection; but a transaction that was decided on can wait for a connection, or its process be
// stopped.
type knownBy struct {
	connections *connections
	at          time.Time
	refused     atomic.Bool
}

// knownByKey is the key of a context's knownBy.
type knownByKey struct{}

// overKnown returns a context for a transaction that is not sent over other connections.
func overKnown(ctx context.Context, known *knownBy) context.Context {
	return context.WithValue(ctx, knownByKey{}, known)
}

// GetRequestMetadata refuses a call over another connection: gRPC asks for the credentials of a call once it has chosen
// its connection, and sends nothing after an error.
func (k *knownBy) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if over, ok := peer.FromContext(ctx); ok {
		if since, _ := k.connections.use(over); since.Before(k.at) {
			return nil, nil
		}
	}
	k.refused.Store(true)
	return nil, status.Error(codes.Unauthenticated, errReconnected.Error())
}

// RequireTransportSecurity says no: nothing secret is sent.
func (k *knownBy) RequireTransportSecurity() bool { return false }

type notedWatch struct {
	etcdserverpb.WatchClient
	connections *connections
}

func (n *notedWatch) Watch(ctx context.Context, options ...grpc.CallOption) (etcdserverpb.Watch_WatchClient, error) {
	stream, err := n.WatchClient.Watch(ctx, options...)
	if err != nil {
		return nil, err
	}
	return &notedStream{stream, n.connections}, nil
}

type notedStream struct {
	etcdserverpb.Watch_WatchClient
	connections *connections
}

func (n *notedStream) Recv() (*etcdserverpb.WatchResponse, error) {
	response, err := n.Watch_WatchClient.Recv()
	if from, ok := peer.FromContext(n.Context()); err == nil && ok {
		if _, isNew := n.connections.use(from); isNew {
			return nil, errReconnected
		}
	}
	return response, err
}
