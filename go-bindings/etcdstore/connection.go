package etcdstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// errReconnected ends a watch: any error but etcd's own does.
var errReconnected = errors.New("reconnected to etcd")

// connections notices when an answer or a watch comes over another connection than before: there may be another etcd at
// its end.
type connections struct {
	// reconnected has an entry if a connection was made or lost since the entry was last taken out.
	reconnected chan struct{}

	mu sync.Mutex
	// known is the local address of the last connection to each remote one. gRPC keeps one value per connection, so
	// that they differ even where a port is used again.
	known map[string]net.Addr
}

func newConnections() *connections {
	return &connections{reconnected: make(chan struct{}, 1), known: make(map[string]net.Addr)}
}

// use notes over which connection something has come, and says whether it is a new one. The first of all is none: there
// is nothing that was known before.
func (c *connections) use(from *peer.Peer) bool {
	if from.Addr == nil {
		return false // it has not come from anywhere
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	remote, first := from.Addr.String(), len(c.known) == 0
	if c.known[remote] == from.LocalAddr {
		return false
	}
	c.known[remote] = from.LocalAddr
	if !first {
		c.signal()
	}
	return !first
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
	if ctx.Value(sameConnectionKey{}) != nil {
		options = append(options, grpc.PerRPCCredentials(n.connections))
	}
	response, err := n.KVClient.Txn(ctx, request, options...)
	n.connections.use(&from)
	return response, err
}

// sameConnectionKey is the key of a context whose transaction is not sent over a new connection.
type sameConnectionKey struct{}

// overSameConnection returns a context for a transaction that depends on what the committer knows. It compares
// revisions, and those of an etcd that was restored can be the same. The committer reads first once it knows of a new
// connection; but a transaction that it has decided on can wait for a connection, or its process be stopped.
func overSameConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, sameConnectionKey{}, true)
}

// GetRequestMetadata refuses a call over a new connection: gRPC asks for the credentials of a call once it has chosen
// its connection, and sends nothing after an error.
func (c *connections) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if over, ok := peer.FromContext(ctx); ok && c.use(over) {
		return nil, status.Error(codes.Unauthenticated, errReconnected.Error())
	}
	return nil, nil
}

// RequireTransportSecurity says no: nothing secret is sent.
func (c *connections) RequireTransportSecurity() bool { return false }

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
	if from, ok := peer.FromContext(n.Context()); err == nil && ok && n.connections.use(from) {
		return nil, errReconnected
	}
	return response, err
}
