package snapshotfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Buckets of etcd's storage: every change of a key under its revision, and the
// compacted revision, which can be later than the newest change that is still
// there.
const (
	keyBucket   = "key"
	metaBucket  = "meta"
	leaseBucket = "lease"
)

var compactedKeys = []string{"scheduledCompactRev", "finishedCompactRev"}

// A stored revision is main, '_' and sub, each number 8 bytes big-endian; a
// deletion has a 't' behind.
const (
	revisionLen  = 8 + 1 + 8
	tombstoneLen = revisionLen + 1
	// tombstoneMark is the last byte of a deletion's key.
	tombstoneMark = 't'
)

// Revision is one change of a key. Its bytes are those of a buffer that is used again.
type Revision struct {
	// The fields of etcd's KeyValue.
	Key, Value                                  []byte
	CreateRevision, ModRevision, Version, Lease int64
	// IsDeletion says that the change deletes the key.
	IsDeletion bool
	// Damage says why the change cannot be decoded; the key is right. It is no fault of the file unless the change is
	// the newest one of its key.
	Damage error
}

// Content is what else a snapshot has.
type Content struct {
	// Revision is the newest one of the store.
	Revision int64
	// Leases are those that the store has, with the times to live that it has granted.
	Leases map[int64]time.Duration
}

// Read checks the snapshot at path as [Open] does, and calls see with each change of the keys that want accepts, in the
// order of revisions. What see has seen of a file for which there is an error counts for nothing. The error is that of
// see, too. The cost is reading the file twice, or with SkipHashCheck once; no more than a few pages are in memory.
func Read(ctx context.Context, path string, o Options, want func(key []byte) bool, see func(*Revision) error) (*Content, error) {
	r := newReader(want, see)
	f, err := open(ctx, path, o, r.visit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := r.finish()
	if err != nil {
		return nil, f.errorf("%w", err)
	}
	f.progress.finish()
	return content, nil
}

// reader reads etcd's storage.
type reader struct {
	want    func(key []byte) bool
	see     func(*Revision) error
	content Content
	found   map[string]bool
	one     Revision
}

func newReader(want func(key []byte) bool, see func(*Revision) error) *reader {
	return &reader{want: want, see: see, content: Content{Leases: map[int64]time.Duration{}}, found: map[string]bool{}}
}

// visit takes one key of a bucket.
func (r *reader) visit(bucket string, key, value []byte) error {
	switch bucket {
	case "": // the root, which has the buckets
		r.found[string(key)] = true
	case keyBucket:
		return r.change(key, value)
	case metaBucket:
		if !slices.Contains(compactedKeys, string(key)) {
			return nil
		}
		main, _, err := parseRevision(value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		r.content.Revision = max(r.content.Revision, main)
	case leaseBucket:
		id, ttl, err := parseLease(value)
		if err != nil {
			return fmt.Errorf("damaged database: lease: %w", err)
		}
		r.content.Leases[id] = ttl
	}
	return nil
}

func (r *reader) change(key, value []byte) error {
	main, tombstone, err := parseRevision(key)
	if err != nil {
		return err
	}
	r.content.Revision = max(r.content.Revision, main)
	of, err := keyOf(value)
	if err != nil {
		return fmt.Errorf("damaged database: revision %d: %w", main, err)
	}
	if !r.want(of) {
		return nil
	}
	if r.one = (Revision{IsDeletion: tombstone}); !r.one.read(value) {
		var kv mvccpb.KeyValue
		err := proto.Unmarshal(value, &kv)
		r.one = Revision{of, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease, tombstone, nil}
		if err != nil {
			r.one.Damage = fmt.Errorf("damaged database: key %q: %w", of, err)
		}
	}
	return r.see(&r.one)
}

// finish returns what was read, or what is missing.
func (r *reader) finish() (*Content, error) {
	for _, bucket := range []string{keyBucket, metaBucket} {
		if !r.found[bucket] {
			return nil, fmt.Errorf("not an etcd snapshot: no bucket %q", bucket)
		}
	}
	return &r.content, nil
}

// read reads an mvccpb.KeyValue as etcd writes it, without copying its bytes; false if it is not such a one.
func (r *Revision) read(b []byte) bool {
	for len(b) > 0 {
		tag := b[0]
		number, n := protowire.ConsumeVarint(b[1:])
		if n < 0 {
			return false
		}
		b = b[1+n:]
		switch tag {
		case 1<<3 | 2, 5<<3 | 2:
			if number > uint64(len(b)) {
				return false
			}
			if tag>>3 == 1 {
				r.Key = b[:number]
			} else {
				r.Value = b[:number]
			}
			b = b[number:]
		case 2 << 3:
			r.CreateRevision = int64(number)
		case 3 << 3:
			r.ModRevision = int64(number)
		case 4 << 3:
			r.Version = int64(number)
		case 6 << 3:
			r.Lease = int64(number)
		default:
			return false
		}
	}
	return true
}

// latest collects the newest states of keys.
type latest map[string]*Revision

func (l latest) see(r *Revision) error {
	kept := l[string(r.Key)]
	if kept == nil {
		kept = new(Revision)
		kept.Key = bytes.Clone(r.Key)
		l[string(kept.Key)] = kept
	}
	key, value := kept.Key, append(kept.Value[:0], r.Value...)
	*kept = *r
	kept.Key, kept.Value = key, value
	return nil
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
