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
var errLost = unavailable("the values allocated for the Service may belong to another Service by now; nothing was written; try again")

// conditional adds the conditions of the request in the context to the transactions that write.
type conditional struct{ *kubernetes.Client }

// requestKey is the key of a context's request.
type requestKey struct{}

// withConditions returns a context for writes with the conditions that the request has when they are sent.
func withConditions(ctx context.Context, q *request) context.Context {
	return context.WithValue(ctx, requestKey{}, q)
}

// OptimisticPut returns errLost if the key has the expected revision and a condition does not hold. Else it is that of the client.
func (c conditional) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64, options kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	var conditions []clientv3.Cmp
	q, ok := ctx.Value(requestKey{}).(*request)
	if ok {
		conditions = q.conditions()
	}
	if len(conditions) == 0 {
		return c.Client.OptimisticPut(ctx, key, value, expectedRevision, options)
	}
	same := &sameConnections{began: q.connections}
	answer, err := c.KV.Txn(context.WithValue(ctx, sameKey{}, same)).
		If(append(conditions, clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision))...).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(options.LeaseID))).
		Else(clientv3.OpGet(key)).
		Commit()
	if same.refused.Load() {
		return kubernetes.PutResponse{}, errLost
	}
	if err != nil {
		return kubernetes.PutResponse{}, err
	}
	done := kubernetes.PutResponse{Succeeded: answer.Succeeded, Revision: answer.Header.Revision}
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

// sameConnections lets a call be sent only as long as the connections to etcd are those of the beginning of its request. The conditions
// of a write are about revisions, and an etcd that was restored meanwhile, with other writes since, can have reached them. A call can
// wait for a connection, so that a look before it would not do. gRPC asks for the credentials of a call once it has chosen the
// connection, and sends nothing after an error.
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
