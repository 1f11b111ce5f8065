package bootstrap

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// leaseStore reads and writes the leases of servers, which are keys of etcd with a time to live.
type leaseStore struct {
	client *clientv3.Client
}

var errNoEtcd = errors.New("no etcd is configured for leases")

func (s *leaseStore) list(ctx context.Context, key string, options ...clientv3.OpOption) answer {
	if s.client == nil {
		return fails(refused, errNoEtcd)
	}
	got, err := s.client.Get(ctx, key, options...)
	if err != nil {
		return etcdFailure(err)
	}
	all := leases{Leases: []storedLease{}}
	for _, kv := range got.Kvs {
		all.Leases = append(all.Leases, storedLease{string(kv.Key), kv.Value, kv.ModRevision, kv.Lease})
	}
	return all
}

// watchAgain is the time after which a watch that has ended begins again.
const watchAgain = time.Second

// watchDeletions calls deleted with each key of this prefix that is deleted or expires, until the context is done. It
// may miss some.
func (s *leaseStore) watchDeletions(ctx context.Context, prefix string, deleted func(key string)) {
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for response := range s.client.Watch(watching, prefix, clientv3.WithPrefix(), clientv3.WithFilterPut()) {
			for _, event := range response.Events {
				if event.Type == clientv3.EventTypeDelete { // kine ignores filters
					deleted(string(event.Kv.Key))
				}
			}
		}
		stop()
		select {
		case <-time.After(watchAgain):
		case <-ctx.Done():
		}
	}
}

func (s *leaseStore) put(ctx context.Context, p *putLease) answer {
	if s.client == nil {
		return fails(refused, errNoEtcd)
	}
	granted, err := s.client.Grant(ctx, p.TTLSeconds)
	if err != nil {
		return etcdFailure(err)
	}
	txn := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(p.Key), "=", p.ModRevision)).
		Then(clientv3.OpPut(p.Key, string(p.Value), clientv3.WithLease(granted.ID)))
	if p.ModRevision != 0 {
		// kine knows a replacement by this form only.
		txn = txn.Else(clientv3.OpGet(p.Key, clientv3.WithKeysOnly()))
	}
	response, err := txn.Commit()
	if err != nil {
		return etcdFailure(err)
	}
	if !response.Succeeded {
		s.client.Revoke(ctx, granted.ID) // else it expires by itself
		return conflict
	}
	return writtenAt(response.Header.Revision)
}

func (s *leaseStore) delete(ctx context.Context, d *deleteLease) answer {
	if s.client == nil {
		return fails(refused, errNoEtcd)
	}
	switch written, err := WriteKey(ctx, s.client, d.Key, nil, d.ModRevision, clientv3.Compare(clientv3.LeaseValue(d.Key), "=", d.LeaseID)); {
	case err != nil:
		return etcdFailure(err)
	case !written:
		return conflict
	}
	return done
}

// WriteKey writes a value to a key of etcd, or deletes the key if it is nil, unless the key has another revision than
// this one, 0 for no key, or one of the conditions does not hold: then it was not written.
func WriteKey(ctx context.Context, client *clientv3.Client, key string, value []byte, modRevision int64, conditions ...clientv3.Cmp) (written bool, err error) {
	write := clientv3.OpDelete(key)
	if value != nil {
		write = clientv3.OpPut(key, string(value))
	}
	conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(key), "=", modRevision))
	response, err := client.Txn(ctx).If(conditions...).Then(write).Commit()
	return err == nil && response.Succeeded, err
}

// etcdFailure is the answer to a request that failed. A client's interceptors and kine refuse with a status of gRPC
// that etcd's client does not know.
func etcdFailure(err error) answer {
	err, _ = etcdstore.ExplainKine(err)
	var known rpctypes.EtcdError
	isKnown, code := errors.As(err, &known), status.Code(err)
	if isKnown {
		code = known.Code()
	}
	switch code {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition:
		return fails(refused, err)
	}
	if isKnown {
		return fails(unavailable, err)
	}
	return fails(unanswered, err)
}
