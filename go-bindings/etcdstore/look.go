package etcdstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// lookTime is how long the key of a Look stays in etcd if nobody ends the Look.
const lookTime = 5 * time.Minute

// ErrRestored: what a pass, an edit or a request depends on may not be in etcd any more, which may have been restored
// meanwhile. Nothing was written; it can be made again.
var ErrRestored = errors.New("etcd may have been restored meanwhile; nothing was written, try again")

// Look is the beginning of a look at Services, by which ranges are changed: a key in etcd with a random name, which no
// other etcd has, nor an older state of this one. Services are listed at its revision.
// [rangekeeper.Committer.PassFenced] says why.
type Look struct {
	revision int64
	number   uint64 // stands for the key, and is not 0
	key      string
	client   *clientv3.Client
	lease    clientv3.LeaseID
}

// Look begins a look, for an [Store.Edit]: it puts a key below that of the range. It is to be ended.
func (s *Store) Look(ctx context.Context) (*Look, error) {
	if s.isZero() {
		return nil, rangekeeper.ErrClosed
	}
	return BeginLook(ctx, s.config.Client, s.config.Key, nil)
}

// Fence writes the fence of the range for a pass that has read all its ranges, and begins a look. After that no Service
// is written with a value that was allocated before, unless its writer does not use [Conditions]. The fences of a pass
// come one after another: before is the look of the fence before, nil for the first. The last look is that of the pass,
// and ends all.
//
// Errors: ErrRestored, [rangekeeper.ErrRefused] if etcd refuses the write, and ErrUnknown if it does not answer. The
// pass is over then.
func (s *Store) Fence(ctx context.Context, pass *rangekeeper.RepairPass, before *Look) (*Look, error) {
	if s.isZero() {
		return nil, rangekeeper.ErrClosed
	}
	look, err := BeginLook(ctx, s.config.Client, s.config.Key, before, fenceOp(s.config.Key))
	if err == nil {
		if err = s.committer.Load().PassFenced(pass, look.revision, look.number); err == nil {
			return look, nil
		}
	}
	return nil, fmt.Errorf("the fence of %s: %w", s.config.Key, err)
}

// BeginLook begins a look at any keys of etcd, with its own below this one, in a transaction with other writes, if the
// look before it is there: the error is ErrRestored if it is not. It is to be ended, and ends with the look before it.
//
// While a look is there, the mod revision of a key that was read at its revision is that of the same object.
func BeginLook(ctx context.Context, client *clientv3.Client, key string, before *Look, others ...clientv3.Op) (*Look, error) {
	var random [8]byte
	rand.Read(random[:])
	look := &Look{number: binary.NativeEndian.Uint64(random[:]) | 1, client: client}
	look.key = key + "/look/" + strconv.FormatUint(look.number, 16)
	// A member that does not answer must not hold up a pass.
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var conditions []clientv3.Cmp
	if before == nil {
		lease, err := look.client.Grant(ctx, int64(lookTime/time.Second))
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", look.key, unwritten(err))
		}
		look.lease = lease.ID
	} else {
		look.lease = before.lease
		conditions = append(conditions, before.IsThere())
	}
	put := clientv3.OpPut(look.key, "", clientv3.WithLease(look.lease))
	written, err := look.client.Txn(ctx).If(conditions...).Then(append(others, put)...).Commit()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", look.key, unwritten(err))
	}
	if !written.Succeeded {
		return nil, fmt.Errorf("write %s: %s is not there any more: %w", look.key, before.key, ErrRestored)
	}
	look.revision = written.Header.Revision
	return look, nil
}

// At returns the revision of etcd once the key was there; 0 without a look.
func (l *Look) At() int64 {
	if l == nil {
		return 0
	}
	return l.revision
}

// IsThere is the condition of a transaction that etcd has the key.
func (l *Look) IsThere() clientv3.Cmp { return clientv3.Compare(clientv3.Version(l.key), ">", 0) }

// End removes the key, if there is a look. Without an answer etcd does so by itself, after some minutes.
func (l *Look) End(ctx context.Context) {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	l.client.Revoke(ctx, l.lease) // its error is that etcd does not answer, or has done it
}

// unwritten is the error of a write that has failed.
func unwritten(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: %w", ErrRestored, err)
	case isRefusal(err):
		err, _ = ExplainKine(err)
		return fmt.Errorf("%w: %w", rangekeeper.ErrRefused, err)
	case errors.Is(err, context.Canceled): // nobody waits for it
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// EndLooks ends all looks at the range with this key. An edit or a repair that depends on one of them is not written
// any more: the edit ends as rangekeeper.ErrServicesWritten, and a repair is left to the next pass.
func EndLooks(ctx context.Context, client *clientv3.Client, key string) error {
	if _, err := client.Delete(ctx, key+"/look/", clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("delete %s/look/: %w", key, unwritten(err))
	}
	return nil
}
