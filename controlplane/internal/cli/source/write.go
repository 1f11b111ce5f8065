package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// Store returns the ranges of the running etcd, which is connected at the first call.
func (s *Source) Store(ctx context.Context) (*ranges.Store, error) {
	client, err := s.connect(ctx)
	return &ranges.Store{Client: client, Prefix: s.prefix}, err
}

// LeasesWritten watches for a time which leases servers write after a state was read.
func (s *Source) LeasesWritten(ctx context.Context, after *clusterstate.State, wait time.Duration) ([]clusterstate.ServerLease, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	written, err := after.LeasesWritten(ctx, client, wait)
	if err != nil {
		err = s.connection.Named(etcdflags.Explained(err))
	}
	return written, err
}

// Look begins a look at the objects of the API servers, if the look before it is there, and returns the state at it.
func (s *Source) Look(ctx context.Context, before *etcdstore.Look) (*etcdstore.Look, *clusterstate.State, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	look, err := etcdstore.BeginLook(ctx, client, clusterstate.RangeKey(s.prefix, clusterstate.KubernetesService), before)
	if err != nil {
		return nil, nil, s.connection.Named(etcdflags.Explained(err))
	}
	state, err := s.Read(ctx, look.At())
	return look, state, err
}

// WriteServerObject writes or deletes an object of the API servers in etcd, unless it has changed since the state was
// read that it was judged by, at the look, or a server has started since whose address the endpoints need, or etcd was
// restored: then it was not written.
func (s *Source) WriteServerObject(ctx context.Context, o audit.ServerObject, judged *clusterstate.State, look *etcdstore.Look) (written bool, err error) {
	client, err := s.connect(ctx)
	if err != nil {
		return false, err
	}
	conditions := []clientv3.Cmp{look.IsThere()}
	if o.Kind != audit.KindMasterLease {
		conditions = append(conditions, judged.NoNewServer())
	}
	ctx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	if written, err = s.Linked.WriteKey(ctx, client, o.Key, o.Value, o.ModRevision, conditions...); err != nil {
		err = s.connection.Named(fmt.Errorf("key %s: %w", o.Key, etcdflags.Explained(err)))
	}
	return written, err
}

// WriteRepaired writes the snapshot that a state was read from to a new file, with the values of keys that a repair
// changes; with force it replaces a file. It reports whether the hash of the snapshot is wrong.
func (s *Source) WriteRepaired(ctx context.Context, state *clusterstate.State, values map[string][]byte, path string, force bool) (isDamaged bool, err error) {
	defer s.progress.end()
	written, err := snapshotfile.WriteRepaired(ctx, s.snapshot, path, values, snapshotfile.WriteOptions{
		Options:   snapshotfile.Options{SkipHashCheck: s.skipHashCheck, Progress: s.progress.start("writing " + path)},
		Revision:  state.Revision,
		Overwrite: force,
	})
	if errors.Is(err, fs.ErrExist) && !force {
		err = fmt.Errorf("%w; --force replaces it", err)
	}
	return written.IsDamaged, err
}
