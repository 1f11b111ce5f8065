// Package ledgerstore hands out the values of a range to owners, and keeps who has what in a store that several
// programs may write: a key of etcd, a Kubernetes object, a row of a database.
//
// The store needs two operations: get the value with a token, and put a value if the token of the stored one is
// unchanged. Package etcdstore has the one for etcd and kine (etcdstore.LedgerKey), and package ledgerobject of module
// controlplane the one for Kubernetes objects.
//
//	ledger, err := ledgerstore.New(store, rangekeeper.Pool{Range: "4096-16777215", Choice: rangekeeper.Lowest})
//	...
//	vni, err := ledger.Allocate(ctx, rangekeeper.WantAny(), string(tenant.UID))
//
// A [rangekeeper.SharedLedger] decides what to ask of the store.
package ledgerstore

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
)

// ErrChanged is the error of [Store.Put] if the stored value has another token than the given one, or is missing or not
// missing.
var ErrChanged = errors.New("the stored value has changed")

// ErrTooLarge is the error of [Store.Put] if the value is larger than the store allows.
var ErrTooLarge = errors.New("the value is larger than the store allows")

// IsTooLargeForEtcd reports whether etcd, its client, or the gRPC server in front of etcd has refused a request by its
// size. It reads the error's text, which API servers pass on.
func IsTooLargeForEtcd(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "etcdserver: request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max") || // google.golang.org/grpc/stream.go
		strings.Contains(err.Error(), "received message larger than max")) // and rpc_util.go
}

// Store keeps one value. A Ledger makes one call at a time. A call ends when its context does.
type Store interface {
	// Get returns the value and its token; a nil token if there is no value. A token differs for each write of the
	// value, also if it writes the same value again: a hash of the value is none.
	//
	// A value that somebody has emptied is an error, which says where it is: a new ledger in its place would give all
	// values again. A token without a value is that of a place which never had a ledger, such as a field of an object.
	Get(ctx context.Context) (value, token []byte, err error)
	// Put puts a value, which is never empty, if the token of the stored one is this; a nil token if there must be no
	// value. It returns the new token. The error is ErrChanged or ErrTooLarge if nothing was put, and never will be by
	// this call. After any other error the value may have been put, or may be later.
	//
	// A client that repeats a request by itself, as many of HTTP do, is refused by its own write if that had no answer.
	// Then Put finds out, or returns another error.
	Put(ctx context.Context, value, token []byte) (newToken []byte, err error)
}

// Memory is a Store in memory, for tests and for programs that keep nothing. The zero Memory has no value. Several
// Ledgers may use it at once.
type Memory struct {
	mutex   sync.Mutex
	value   []byte
	version uint64
}

// Get implements Store.
func (m *Memory) Get(context.Context) (value, token []byte, err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.version > 0 && len(m.value) == 0 {
		return nil, nil, errors.New("the value is empty")
	}
	return slices.Clone(m.value), m.token(), nil
}

// Put implements Store.
func (m *Memory) Put(_ context.Context, value, token []byte) (newToken []byte, err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !slices.Equal(token, m.token()) {
		return nil, ErrChanged
	}
	m.value = slices.Clone(value)
	m.version++
	return m.token(), nil
}

func (m *Memory) token() []byte {
	if m.version == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, m.version)
}
