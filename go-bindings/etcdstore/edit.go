package etcdstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// lookTime is how long the key of a Look stays in etcd if nobody ends the Look.
const lookTime = 5 * time.Minute

// Look is the beginning of a look at Services, by which an edit is made: a key in etcd that no other etcd has, nor an older state of this
// one. Revisions do not tell one history from another: an etcd that is restored to a state from before the look, and written to since,
// can have the range and the Services in the states that the edit depends on, and other Services live.
type Look struct {
	store *Store
	key   string
	lease clientv3.LeaseID
	known uint32
}

// Look begins a look, before Services are listed. It is to be ended.
func (s *Store) Look(ctx context.Context) (*Look, error) {
	if s.isZero() {
		return nil, rangekeeper.ErrClosed
	}
	look := &Look{store: s, key: s.config.Key + "/look/" + rand.Text(), known: s.Known().Store}
	lease, err := s.config.Client.Grant(ctx, int64(lookTime/time.Second))
	if err == nil {
		look.lease = lease.ID
		_, err = s.config.Client.Put(ctx, look.key, "", clientv3.WithLease(look.lease))
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", look.key, err)
	}
	return look, nil
}

// End removes the key of the look. Without an answer etcd does so by itself, after some minutes.
func (l *Look) End(ctx context.Context) {
	l.store.config.Client.Revoke(ctx, l.lease) // its error is that etcd does not answer, or has done it
}

// Edit makes a change by hand, which depends on a list of Services from the etcd of the range, read after the look; it needs
// Config.Services. A dry run needs no look. A value that it frees is fenced off: a Service that reaches etcd later cannot have it.
//
// Errors: rangekeeper.ErrServicesWritten, after which Services are to be listed again, with another look; ErrOtherStore,
// ErrStaleList, a *rangekeeper.BatchError, and those of every operation. An edit that is not done is no error: Edited has what stands
// against it.
func (s *Store) Edit(ctx context.Context, look *Look, change rangekeeper.Edit) (rangekeeper.Edited, error) {
	e := &edit{edit: change, deadline: s.deadline(ctx)}
	switch {
	case s.isZero():
		return rangekeeper.Edited{}, rangekeeper.ErrClosed
	case s.config.Services == "":
		return rangekeeper.Edited{}, fmt.Errorf("%s: %w: an edit needs Config.Services", s.config.Key, rangekeeper.ErrInvalidArgument)
	case look != nil:
		e.look, e.edit.Store = look.key, look.known
	case !change.DryRun:
		return rangekeeper.Edited{}, fmt.Errorf("%s: %w: an edit needs a look", s.config.Key, rangekeeper.ErrInvalidArgument)
	}
	outcome, err := s.wait(ctx, &call{edit: e})
	edited, _ := outcome.(rangekeeper.Edited)
	return edited, err
}
