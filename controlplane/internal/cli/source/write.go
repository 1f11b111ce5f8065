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

// WriteServerObject writes or deletes an object of the API servers in etcd, unless it has changed since the state was
// read that it was judged by, or a server has started since whose address the endpoints need: then it was not written.
func (s *Source) WriteServerObject(ctx context.Context, o audit.ServerObject, judged *clusterstate.State) (written bool, err error) {
	client, err := s.connect(ctx)
	if err != nil {
		return false, err
	}
	var conditions []clientv3.Cmp
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
// changes; with force it replaces a file.
func (s *Source) WriteRepaired(ctx context.Context, state *clusterstate.State, values map[string][]byte, path string, force bool) error {
	defer s.progress.end()
	_, err := snapshotfile.WriteRepaired(ctx, s.snapshot, path, values, snapshotfile.WriteOptions{
		Options:   snapshotfile.Options{SkipHashCheck: s.skipHashCheck, Progress: s.progress.start("writing " + path)},
		Revision:  state.Revision,
		Overwrite: force,
	})
	if errors.Is(err, fs.ErrExist) && !force {
		err = fmt.Errorf("%w; --force replaces it", err)
	}
	return err
}
