package storage

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
)

// errLost: the conditions of a Service's write did not hold, and nothing was written.
var errLost = unavailable("the values allocated for the Service may belong to another Service by now, or their ServiceCIDR is gone; nothing was written; try again")

// errOtherConnection: nothing was written, as etcd may have been restored since the request began.
var errOtherConnection = unavailable(errReconnected.Error() + "; nothing was written; try again")

// conditional adds the conditions of the request in the context to the transactions that write, and sends them only
// over the connections with which the request began.
type conditional struct{ *kubernetes.Client }

// requestKey is the key of a context's request.
type requestKey struct{}

// withConditions returns a context for writes with the conditions that the request has when they are sent.
func withConditions(ctx context.Context, q *request) context.Context {
	return context.WithValue(ctx, requestKey{}, q)
}

// OptimisticPut returns errLost if the key has the expected revision and a condition does not hold, and
// errOtherConnection if it was not sent. Else it is that of the client.
func (c conditional) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64, options kubernetes.PutOptions) (done kubernetes.PutResponse, err error) {
	var conditions []clientv3.Cmp
	if q, ok := ctx.Value(requestKey{}).(*request); ok {
		conditions = q.conditions()
	}
	err = overSameConnections(ctx, func(ctx context.Context) (err error) {
		if len(conditions) == 0 {
			done, err = c.Client.OptimisticPut(ctx, key, value, expectedRevision, options)
		} else {
			done, err = c.put(ctx, key, value, expectedRevision, options, conditions)
		}
		return err
	})
	return done, err
}

// put has the conditions in its transaction.
func (c conditional) put(ctx context.Context, key string, value []byte, expectedRevision int64, options kubernetes.PutOptions, conditions []clientv3.Cmp) (done kubernetes.PutResponse, err error) {
	answer, err := c.KV.Txn(ctx).
		If(append(conditions, clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision))...).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(options.LeaseID))).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return done, err
	}
	done.Succeeded, done.Revision = answer.Succeeded, answer.Header.Revision
	if answer.Succeeded {
		return done, nil
	}
	if len(answer.Responses) != 1 {
		return done, errors.New("etcd did not return the key of a transaction that failed")
	}
	var found int64
	if stored := answer.Responses[0].GetResponseRange().Kvs; len(stored) == 1 {
		found = stored[0].ModRevision
		if options.GetOnFailure {
			done.KV = stored[0]
		}
	}
	if found == expectedRevision {
		return done, errLost
	}
	return done, nil
}

// OptimisticDelete returns errOtherConnection if it was not sent. Else it is that of the client.
func (c conditional) OptimisticDelete(ctx context.Context, key string, expectedRevision int64, options kubernetes.DeleteOptions) (done kubernetes.DeleteResponse, err error) {
	err = overSameConnections(ctx, func(ctx context.Context) (err error) {
		done, err = c.Client.OptimisticDelete(ctx, key, expectedRevision, options)
		return err
	})
	return done, err
}

// overSameConnections makes a write of the request in the context, if there is one, over the connections with which
// that began.
func overSameConnections(ctx context.Context, write func(context.Context) error) error {
	q, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return write(ctx)
	}
	same := &sameConnections{began: q.connections}
	err := write(context.WithValue(ctx, sameKey{}, same))
	if same.refused.Load() {
		return errOtherConnection
	}
	return err
}

// sameConnections lets a call be sent only as long as the connections to etcd are those of the beginning of its
// request. A write compares revisions, and an etcd that was restored meanwhile, with other writes since, can have
// reached them. A call can wait for a connection, so that a look before it would not do. gRPC asks for the credentials
// of a call once it has chosen the connection, and sends nothing after an error.
type sameConnections struct {
	began   int64
	refused atomic.Bool
}

// sameKey is the key of a context's sameConnections.
type sameKey struct{}

func (s *sameConnections) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if allocatorstorage.Connections() == s.began {
		return nil, nil
	}
	s.refused.Store(true)
	return nil, status.Error(codes.Unauthenticated, "another connection to etcd")
}

func (s *sameConnections) RequireTransportSecurity() bool { return false }

// guarded makes calls with the sameConnections in their context.
type guarded struct{ etcdserverpb.KVClient }

func (g guarded) Txn(ctx context.Context, request *etcdserverpb.TxnRequest, options ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	if same, ok := ctx.Value(sameKey{}).(*sameConnections); ok {
		options = append(slices.Clip(options), grpc.PerRPCCredentials(same))
	}
	return g.KVClient.Txn(ctx, request, options...)
}
