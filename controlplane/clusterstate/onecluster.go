package clusterstate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// statusTimeout is for one member's first answer. A member that does not answer is checked by its later answers.
const statusTimeout = 2 * time.Second

// errOtherCluster: the endpoints are members of more than one etcd cluster.
var errOtherCluster = errors.New("the endpoints belong to different etcd clusters; name the members of one cluster")

// oneCluster refuses the answers of all etcd clusters but the one that answered first. A client spreads its requests
// over its endpoints, so members of two clusters would mix the Services of one with the ranges of the other.
type oneCluster struct{ id atomic.Uint64 }

func (o *oneCluster) check(answer any) error {
	got, ok := answer.(interface {
		GetHeader() *etcdserverpb.ResponseHeader
	})
	if !ok {
		return nil
	}
	id := got.GetHeader().GetClusterId() // 0 from kine
	if id == 0 || o.id.CompareAndSwap(0, id) || o.id.Load() == id {
		return nil
	}
	return fmt.Errorf("cluster %x answers after cluster %x: %w", id, o.id.Load(), errOtherCluster)
}

// options has each answer checked.
func (o *oneCluster) options() []grpc.DialOption {
	unary := func(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := invoke(ctx, method, request, answer, conn, opts...); err != nil {
			return err
		}
		return o.check(answer)
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, conn, method, opts...)
		return checkedStream{s, o}, err
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

type checkedStream struct {
	grpc.ClientStream
	cluster *oneCluster
}

func (s checkedStream) RecvMsg(answer any) error {
	if err := s.ClientStream.RecvMsg(answer); err != nil {
		return err
	}
	return s.cluster.check(answer)
}

// checkMembers asks each endpoint for its cluster, before anything is written to one of them.
func checkMembers(ctx context.Context, client *clientv3.Client) error {
	endpoints := client.Endpoints()
	if len(endpoints) < 2 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	refused := make([]error, len(endpoints))
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() {
			if _, err := client.Status(ctx, endpoint); errors.Is(err, errOtherCluster) {
				refused[i] = fmt.Errorf("%s: %w", endpoint, err)
			}
		})
	}
	all.Wait()
	return errors.Join(refused...)
}
