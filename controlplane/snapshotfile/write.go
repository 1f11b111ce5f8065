package snapshotfile

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/newfile"
)

// WriteOptions say how [WriteRepaired] treats its files.
type WriteOptions struct {
	Options
	// Revision is the store revision that the new values were made from; if src
	// is at another one, nothing is written.
	Revision int64
	// Overwrite replaces dst if it is a regular file and not src.
	Overwrite bool
}

// Written is what [WriteRepaired] has written.
type Written struct {
	// Revision is the store's.
	Revision int64
	// IsDamaged reports that the hash of the source is wrong. Then the new file has none.
	IsDamaged bool
}

// WriteRepaired writes to dst the snapshot src with new values for the given keys; a nil value deletes the key, if it
// is there. The values are stored as one etcd transaction would: at the revision after the newest one, with the create
// revision kept and the version counted on, or as a new key where there is none; leases are dropped. Everything else
// stays as it is, history included. Without new values dst is a plain copy.
//
// src is opened as by [Open] and never changed. dst must not exist, except with Overwrite; it has a valid hash, unless
// that of src is wrong, and appears complete or not at all. It is compressed by gzip if its name ends in .gz.
func WriteRepaired(ctx context.Context, src, dst string, newValues map[string][]byte, o WriteOptions) (Written, error) {
	if _, ok := newValues[""]; ok {
		return Written{}, errors.New("an etcd key is never empty")
	}
	target := newfile.Target{Path: dst, Overwrite: o.Overwrite, Source: src}
	if err := target.Check(); err != nil {
		return Written{}, err
	}
	old := latest{}
	r := newReader(func(key []byte) bool {
		_, ok := newValues[string(key)]
		return ok
	}, old.see)
	f, err := open(ctx, src, o.Options, r.visit)
	if err != nil {
		return Written{}, err
	}
	defer f.Close()
	content, err := r.finish()
	for _, one := range old {
		if err == nil && !one.IsDeletion {
			err = one.Damage
		}
	}
	if err != nil {
		return Written{}, f.errorf("%w", err)
	}
	revision := content.Revision
	if revision != o.Revision {
		return Written{}, f.errorf("is at revision %d, the new values were made from revision %d", revision, o.Revision)
	}
	if len(newValues) > 0 {
		revision++
	}
	isDamaged := false
	if o.SkipHashCheck && f.size < f.whole {
		f.progress.expect(f.size)
		isDamaged = f.checkHash(ctx, f.plain) != nil
		if ctx.Err() != nil {
			return Written{}, ctx.Err()
		}
	}

	out, err := newfile.Create(filepath.Dir(dst))
	if err != nil {
		return Written{}, target.Failed(err)
	}
	defer out.Remove()
	compressed := strings.HasSuffix(dst, ".gz")
	readings := int64(2)
	if compressed {
		readings = 3
	}
	f.progress.expect(readings * f.size)
	if err := f.copyTo(ctx, out.File); err != nil {
		return Written{}, target.Failed(err)
	}
	err = f.guard(func() error {
		if len(newValues) > 0 {
			if err := put(out.Name(), revision, newValues, old); err != nil {
				return err
			}
		}
		return cutAfterLastPage(out.Name())
	})
	if err != nil {
		return Written{}, target.Failed(err)
	}
	if err := f.seal(ctx, out.File, !isDamaged); err != nil {
		return Written{}, target.Failed(err)
	}
	written := out
	if compressed {
		if written, err = f.compress(ctx, out.File, filepath.Dir(dst)); err != nil {
			return Written{}, target.Failed(err)
		}
		defer written.Remove()
	}
	if err := target.Publish(written); err != nil {
		return Written{}, err
	}
	f.progress.finish()
	return Written{revision, isDamaged}, nil
}

// copyTo writes the database of f, without its hash, to out.
func (f *File) copyTo(ctx context.Context, out *os.File) error {
	n, err := io.Copy(out, meteredReader{ctx, io.NewSectionReader(f.plain, 0, f.size), f.progress})
	if err == nil && n != f.size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// put stores the new values at revision in the database at path.
func put(path string, revision int64, newValues map[string][]byte, before latest) error {
	// As etcd opens it: the list of free pages is not kept in the file.
	db, err := bolt.Open(path, 0, &bolt.Options{Timeout: lockTimeout, NoFreelistSync: true})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte(keyBucket))
		for sub, key := range slices.Sorted(maps.Keys(newValues)) {
			value, was := newValues[key], before[key]
			if was != nil && was.IsDeletion {
				was = nil
			}
			if value == nil {
				if was == nil {
					continue
				}
				b, err := proto.Marshal(&mvccpb.KeyValue{Key: []byte(key)})
				if err == nil {
					err = keys.Put(append(formatRevision(revision, int64(sub)), tombstoneMark), b)
				}
				if err != nil {
					return err
				}
				continue
			}
			kv := &mvccpb.KeyValue{Key: []byte(key), Value: value, CreateRevision: revision, ModRevision: revision, Version: 1}
			if was != nil {
				kv.CreateRevision, kv.Version = was.CreateRevision, was.Version+1
			}
			b, err := proto.Marshal(kv)
			if err != nil {
				return err
			}
			if err := keys.Put(formatRevision(revision, int64(sub)), b); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// cutAfterLastPage drops the pages that bbolt allocated ahead, as etcd does when it sends a
// snapshot.
func cutAfterLastPage(path string) error {
	db, err := bolt.Open(path, 0, &bolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	var size int64
	err = db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return os.Truncate(path, size)
}

// seal appends the sha256, if the file is to have one, and puts everything on disk.
func (f *File) seal(ctx context.Context, out *os.File, hasHash bool) error {
	if !hasHash {
		return out.Sync()
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, meteredReader{ctx, out, f.progress}); err != nil {
		return err
	}
	if _, err := out.Write(h.Sum(nil)); err != nil {
		return err
	}
	return out.Sync()
}

// compress writes a file, compressed, to a temporary one in dir.
func (f *File) compress(ctx context.Context, in *os.File, dir string) (*newfile.Temporary, error) {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	out, err := newfile.Create(dir)
	if err != nil {
		return nil, err
	}
	w := gzip.NewWriter(out)
	_, err = io.Copy(w, meteredReader{ctx, in, f.progress})
	if err = errors.Join(err, w.Close(), out.Sync()); err != nil {
		out.Remove()
		return nil, err
	}
	return out, nil
}
