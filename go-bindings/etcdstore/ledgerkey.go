package etcdstore

import (
	"context"
	"encoding/binary"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

// LedgerKey is a key of etcd, or of kine, that keeps a ledger: a [ledgerstore.Store]. The revision of the key's last
// write is the token. Etcd's client repeats no transaction that may have been carried out, so a refused one never was.
//
// An etcd that is restored from a backup gives revisions again. Restore it with etcdutl snapshot restore
// --bump-revision --mark-compacted, as etcd advises for clients that remember revisions, or end all programs that write
// the key before.
type LedgerKey struct {
	// Client is the client of etcd. It stays the caller's.
	Client *clientv3.Client
	// Key is the key.
	Key string
}

var _ ledgerstore.Store = LedgerKey{}

// Get implements ledgerstore.Store.
func (k LedgerKey) Get(ctx context.Context) (value, token []byte, err error) {
	answer, err := k.Client.Get(ctx, k.Key)
	if err != nil || len(answer.Kvs) == 0 {
		return nil, nil, err
	}
	// A new ledger in place of one that somebody has emptied would give all its values again.
	if len(answer.Kvs[0].Value) == 0 {
		return nil, nil, fmt.Errorf("key %s is empty; put its ledger back, or delete the key to begin with a new one", k.Key)
	}
	return answer.Kvs[0].Value, revisionToken(answer.Kvs[0].ModRevision), nil
}

// Put implements ledgerstore.Store.
func (k LedgerKey) Put(ctx context.Context, value, token []byte) (newToken []byte, err error) {
	var revision int64 // of a key that is missing
	if token != nil {
		if len(token) != 8 {
			return nil, fmt.Errorf("token %x is not of a key of etcd", token)
		}
		revision = int64(binary.BigEndian.Uint64(token))
	}
	unchanged := clientv3.Compare(clientv3.ModRevision(k.Key), "=", revision)
	txn := k.Client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(k.Key, string(value)))
	if token != nil {
		// kine knows a replacement by this form only.
		txn = txn.Else(clientv3.OpGet(k.Key))
	}
	answer, err := txn.Commit()
	if ledgerstore.IsTooLargeForEtcd(err) {
		return nil, fmt.Errorf("%w: %w", ledgerstore.ErrTooLarge, err)
	}
	if err != nil {
		return nil, err
	}
	if !answer.Succeeded {
		return nil, ledgerstore.ErrChanged
	}
	return revisionToken(answer.Header.Revision), nil
}

func revisionToken(revision int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(revision))
}
