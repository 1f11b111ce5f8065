package storage

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// losses is how often a connection of the clients that Connect returns was lost or made again.
var losses atomic.Int64

// Connections identifies the connections to etcd: it is another number once one was lost. While it is the same, no other etcd, and no
// older state of one, can have taken the place of the etcd that was there before, as a restore ends its connections.
func Connections() int64 { return losses.Load() }

// counted counts the losses of a client. gRPC reports a new connection before it uses it.
type counted struct {
	// known has the addresses that the client was connected to.
	known sync.Map
}

// remote is the key of a connection's address in its context.
type remote struct{}

func (c *counted) TagConn(ctx context.Context, tag *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, remote{}, tag.RemoteAddr)
}

// HandleConn counts the end of a connection, and a later one to the same address, which may be reported before that.
func (c *counted) HandleConn(ctx context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		address, _ := ctx.Value(remote{}).(net.Addr)
		if _, isKnown := c.known.LoadOrStore(address.String(), true); isKnown {
			losses.Add(1)
		}
	case *stats.ConnEnd:
		losses.Add(1)
	}
}

func (c *counted) HandleRPC(context.Context, stats.RPCStats) {}

func (c *counted) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
