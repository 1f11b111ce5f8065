package storage

import (
	"context"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/stats"
)

// changes is how often the clients that Connect returns made or lost a connection. The first one of each client does not count.
var changes atomic.Int64

// Connections identifies the connections to etcd: it is another number once one was lost or made again. While it is the same, no other
// etcd, and no older state of one, can have taken the place of the etcd that was there before, as a restore ends its connections.
func Connections() int64 { return changes.Load() }

// counted counts the changes of a client's connections. gRPC reports a new connection before it uses it.
type counted struct {
	// again is called when the client is connected again, or to one more member; nil for nothing.
	again       func()
	isConnected atomic.Bool
	// client is the client, once there is one.
	client atomic.Pointer[clientv3.Client]
}

func (c *counted) HandleConn(_ context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		if !c.isConnected.Swap(true) {
			return
		}
		changes.Add(1)
		if c.again != nil {
			c.again()
		}
	case *stats.ConnEnd:
		if client := c.client.Load(); client == nil || client.Ctx().Err() == nil {
			changes.Add(1) // else the client was closed
		}
	}
}

func (c *counted) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (c *counted) HandleRPC(context.Context, stats.RPCStats) {}

func (c *counted) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
