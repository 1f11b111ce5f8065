package snapshotfile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Buckets of etcd's storage: every change of a key under its revision, and the
// compacted revision, which can be later than the newest change that is still
// there.
var (
	keyBucket     = []byte("key")
	metaBucket    = []byte("meta")
	leaseBucket   = []byte("lease")
	compactedKeys = [][]byte{[]byte("scheduledCompactRev"), []byte("finishedCompactRev")}
)

// A stored revision is main, '_' and sub, each number 8 bytes big-endian; a
// deletion has a 't' behind.
const (
	revisionLen  = 8 + 1 + 8
	tombstoneLen = revisionLen + 1
	// tombstoneMark is the last byte of a deletion's key.
	tombstoneMark = 't'
)

// Latest returns the newest revision of the store and, for the keys that want
// accepts and that are alive there, their newest state, sorted by key. want must
// not keep its argument. Values of other keys are not copied; the cost is one
// pass over all revisions in the file.
func (f *File) Latest(ctx context.Context, want func(key []byte) bool) (revision int64, kvs []*mvccpb.KeyValue, err error) {
	f.progress.expect(f.size)
	err = f.guard(func() error {
		return f.db.View(func(tx *bolt.Tx) error {
			revision, kvs, err = f.latest(ctx, tx, want)
			return err
		})
	})
	if err != nil {
		return 0, nil, err
	}
	f.progress.finish()
	return revision, kvs, nil
}

func (f *File) latest(ctx context.Context, tx *bolt.Tx, want func(key []byte) bool) (int64, []*mvccpb.KeyValue, error) {
	keys := tx.Bucket(keyBucket)
	if keys == nil {
		return 0, nil, errors.New(`not an etcd snapshot: no bucket "key"`)
	}
	revision, err := compactedRevision(tx)
	if err != nil {
		return 0, nil, err
	}
	// The slices point into the mapped file until all revisions are seen.
	newest := map[string][]byte{}
	n := 0
	cursor := keys.Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		f.progress.add(int64(len(k) + len(v)))
		main, tombstone, err := parseRevision(k)
		if err != nil {
			return 0, nil, err
		}
		revision = max(revision, main)
		key, err := keyOf(v)
		if err != nil {
			return 0, nil, fmt.Errorf("damaged database: revision %d: %w", main, err)
		}
		switch {
		case !want(key):
		case tombstone:
			delete(newest, string(key))
		default:
			newest[string(key)] = v
		}
	}
	kvs := make([]*mvccpb.KeyValue, 0, len(newest))
	for _, key := range slices.Sorted(maps.Keys(newest)) {
		kv := new(mvccpb.KeyValue)
		if err := proto.Unmarshal(newest[key], kv); err != nil {
			return 0, nil, fmt.Errorf("damaged database: key %q: %w", key, err)
		}
		kvs = append(kvs, kv)
	}
	return revision, kvs, nil
}

// Leases returns the leases that the store has, with the times to live that it has granted.
func (f *File) Leases() (granted map[int64]time.Duration, err error) {
	granted = map[int64]time.Duration{}
	err = f.guard(func() error {
		return f.db.View(func(tx *bolt.Tx) error {
			leases := tx.Bucket(leaseBucket)
			if leases == nil { // etcd makes it at its first start
				return nil
			}
			return leases.ForEach(func(_, value []byte) error {
				id, ttl, err := parseLease(value)
				if err != nil {
					return fmt.Errorf("damaged database: lease: %w", err)
				}
				granted[id] = ttl
				return nil
			})
		})
	})
	return granted, err
}

// longestLease is the longest time to live that etcd grants (etcd, server/lease/lessor.go, MaxLeaseTTL).
const longestLease = 9_000_000_000 * time.Second

// parseLease reads the id and the time to live of an encoded leasepb.Lease, which is a part of etcd's server
// (etcd, server/lease/leasepb/lease.proto).
func parseLease(b []byte) (id int64, ttl time.Duration, err error) {
	for len(b) > 0 {
		var one field
		if one, b, err = consumeField(b); err != nil {
			return 0, 0, err
		}
		if one.typ != protowire.VarintType {
			continue
		}
		value, _ := protowire.ConsumeVarint(one.value)
		switch one.num {
		case 1:
			id = int64(value)
		case 2:
			ttl = time.Duration(min(value, uint64(longestLease/time.Second))) * time.Second
		}
	}
	return id, ttl, nil
}

// field is one of an encoded message, with its value as it is encoded.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	value []byte
}

// consumeField returns the first field of an encoded message, and the rest.
func consumeField(b []byte) (one field, rest []byte, err error) {
	var tag int
	if one.num, one.typ, tag = protowire.ConsumeTag(b); tag < 0 {
		return field{}, nil, protowire.ParseError(tag)
	}
	n := protowire.ConsumeFieldValue(one.num, one.typ, b[tag:])
	if n < 0 {
		return field{}, nil, protowire.ParseError(n)
	}
	one.value = b[tag : tag+n]
	return one, b[tag+n:], nil
}

// compactedRevision is the revision up to which the history was dropped, 0 if it
// never was.
func compactedRevision(tx *bolt.Tx) (int64, error) {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		return 0, errors.New(`not an etcd snapshot: no bucket "meta"`)
	}
	var revision int64
	for _, key := range compactedKeys {
		v := meta.Get(key)
		if v == nil {
			continue
		}
		main, _, err := parseRevision(v)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", key, err)
		}
		revision = max(revision, main)
	}
	return revision, nil
}

func parseRevision(b []byte) (main int64, tombstone bool, err error) {
	tombstone = len(b) == tombstoneLen && b[tombstoneLen-1] == tombstoneMark
	if !tombstone && len(b) != revisionLen || b[8] != '_' {
		return 0, false, fmt.Errorf("damaged database: %q is not a revision", b)
	}
	if main = int64(binary.BigEndian.Uint64(b)); main < 0 {
		return 0, false, fmt.Errorf("damaged database: revision %d", main)
	}
	return main, tombstone, nil
}

func formatRevision(main, sub int64) []byte {
	b := make([]byte, 0, revisionLen)
	b = binary.BigEndian.AppendUint64(b, uint64(main))
	b = append(b, '_')
	return binary.BigEndian.AppendUint64(b, uint64(sub))
}

// keyOf finds the key in an encoded mvccpb.KeyValue without decoding, and so
// copying, its value. The key is empty where `etcdutl snapshot restore` bumped
// the revision.
func keyOf(kv []byte) ([]byte, error) {
	for len(kv) > 0 {
		var one field
		var err error
		if one, kv, err = consumeField(kv); err != nil {
			return nil, err
		}
		if one.num == 1 && one.typ == protowire.BytesType {
			key, _ := protowire.ConsumeBytes(one.value)
			return key, nil
		}
	}
	return nil, nil
}
