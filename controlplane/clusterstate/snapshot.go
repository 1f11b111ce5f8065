package clusterstate

import (
	"context"
	"fmt"

	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// ReadSnapshotFile reads the state from an etcd snapshot file, plain or
// gzip-compressed, at its newest revision. The file is never written to. Errors
// name the file and, where it is about one, the key.
func ReadSnapshotFile(ctx context.Context, path string, o Options) (*State, error) {
	f, err := snapshotfile.Open(ctx, path, snapshotfile.Options{SkipHashCheck: o.SkipHashCheck, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := o.prefixes()
	revision, kvs, err := f.Latest(ctx, p.want)
	if err != nil {
		return nil, err
	}
	s := p.state()
	s.Revision = revision
	for _, kv := range kvs {
		if err := s.add(p, kv); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if s.Bootstrap == nil {
		return s, nil
	}
	granted, err := f.Leases()
	if err != nil {
		return nil, err
	}
	s.Bootstrap.setGranted(granted)
	return s, nil
}
