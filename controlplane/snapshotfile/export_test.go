package snapshotfile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Latest returns the newest revision of a snapshot, and the keys that live there, sorted.
func Latest(ctx context.Context, path string, o Options) (revision int64, kvs []*mvccpb.KeyValue, err error) {
	all := latest{}
	content, err := Read(ctx, path, o, func([]byte) bool { return true }, all.see)
	if err != nil {
		return 0, nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		switch r := all[key]; {
		case r.IsDeletion:
		case r.Damage != nil:
			return 0, nil, fmt.Errorf("%s: %w", path, r.Damage)
		default:
			kvs = append(kvs, &mvccpb.KeyValue{
				Key: r.Key, Value: r.Value, CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version, Lease: r.Lease,
			})
		}
	}
	return content.Revision, kvs, nil
}
