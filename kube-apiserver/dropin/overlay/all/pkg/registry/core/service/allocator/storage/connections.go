package storage

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// changes is how often the clients that Connect returns lost a connection or made one again. The first connection to
// each member of etcd does not count, unless the client has lost one before.
var changes atomic.Int64

// Connections identifies the connections to etcd: it is another number once one was lost or made again. While it is the
// same, no other etcd, and no older state of one, can have taken the place of the etcd that was there before, as a
// restore ends its connections.
func Connections() int64 { return changes.Load() }

// Connect returns a client of the API server's etcd. It does not wait for the connection. again, which must return at
// once, is called when the client is connected again, or to one more member; nil for nothing.
func Connect(c storagebackend.TransportConfig, again func(), options ...grpc.DialOption) (*clientv3.Client, error) {
	proxy, err := proxyOf(c)
	if err != nil {
		return nil, err
	}
	counted := &counted{again: again, members: len(c.ServerList), throughProxy: proxy != nil, madeTo: map[string]bool{}}
	client, err := connect(c, proxy, append(slices.Clip(options), grpc.WithStatsHandler(counted))...)
	if err == nil {
		counted.client.Store(client)
	}
	return client, err
}

// counted counts the changes of a client's connections. gRPC reports a new connection before it uses it.
type counted struct {
	// again is called when the client is connected again, or to one more member; nil for nothing.
	again func()
	// members is how many members etcd has.
	members int
	// throughProxy: all connections are to the address of one proxy.
	throughProxy bool
	// client is the client, once there is one.
	client atomic.Pointer[clientv3.Client]

	mu sync.Mutex
	// made is how many connections were made, and madeTo to which addresses.
	made   int
	madeTo map[string]bool
	// hasLost: a connection was lost.
	hasLost bool
}

// address is the key of the context in which TagConn puts the address of a connection.
type address struct{}

func (c *counted) HandleConn(ctx context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		if !c.begin(ctx.Value(address{}).(string)) && c.again != nil {
			c.again()
		}
	case *stats.ConnEnd:
		if client := c.client.Load(); client == nil || client.Ctx().Err() == nil {
			c.lose()
		} // else the client was closed
	}
}

// begin counts a new connection to an address, and returns whether it is the client's first. gRPC may report one before
// the loss of the one that it replaces, so a second one to an address counts, too, and more of them than members.
func (c *counted) begin(to string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	if c.hasLost || c.made > c.members || c.madeTo[to] && !c.throughProxy {
		changes.Add(1)
	}
	c.madeTo[to] = true
	return c.made == 1
}

func (c *counted) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hasLost = true
	changes.Add(1)
}

func (c *counted) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, address{}, info.RemoteAddr.String())
}

func (c *counted) HandleRPC(context.Context, stats.RPCStats) {}

func (c *counted) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
