package storage

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// errLost: the conditions of a Service's write did not hold, and nothing was written.
var errLost = unavailable("the values allocated for the Service may belong to another Service by now; nothing was written; try again")

// conditional adds the conditions in the context to the transactions that write.
type conditional struct{ *kubernetes.Client }

// conditionsKey is the key of a context's conditions.
type conditionsKey struct{}

// withConditions returns a context whose conditions are those that the function returns when a write is sent.
func withConditions(ctx context.Context, conditions func() []clientv3.Cmp) context.Context {
	return context.WithValue(ctx, conditionsKey{}, conditions)
}

// OptimisticPut returns errLost if the key has the expected revision and a condition does not hold. Else it is that of the client.
func (c conditional) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64, options kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	var conditions []clientv3.Cmp
	if find, ok := ctx.Value(conditionsKey{}).(func() []clientv3.Cmp); ok {
		conditions = find()
	}
	if len(conditions) == 0 {
		return c.Client.OptimisticPut(ctx, key, value, expectedRevision, options)
	}
	answer, err := c.KV.Txn(ctx).
		If(append(conditions, clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision))...).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(options.LeaseID))).
		Else(clientv3.OpGet(key)).
		Commit()
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
