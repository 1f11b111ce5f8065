package snapshotfile

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// lockTimeout is how long to wait for bbolt's file lock. Readers share it; only
// a process that writes the file, such as a running etcd, keeps it for itself.
const lockTimeout = 2 * time.Second

// Options say how a snapshot file is read.
type Options struct {
	// SkipHashCheck reads the file without comparing the sha256 at its end. A
	// copy of etcd's member/snap/db, which has none, needs it.
	SkipHashCheck bool
	// Progress, if set, is called now and then from the calling goroutine with
	// the bytes of work done and expected. The total can grow.
	Progress func(done, total int64)
}

// File is an open snapshot. It must be closed. It is not safe for concurrent
// use.
type File struct {
	name     string // as given by the caller, for errors
	path     string // of the uncompressed file
	temp     string // the uncompressed copy to remove, if there is one
	size     int64  // bytes of the database, without the hash
	db       *bolt.DB
	progress *progress
}

// Open opens the snapshot at path and checks its hash and the structure of its
// pages; a gzip-compressed one, known by its first bytes, is first written out
// to a temporary file that Close removes. The file at path is never written to.
// The cost is reading the file three times.
//
// Errors name the file. They come from the operating system or the context, or
// describe the fault in the content.
func Open(ctx context.Context, path string, o Options) (*File, error) {
	f := &File{name: path, path: path, progress: &progress{report: o.Progress}}
	if err := f.open(ctx, o); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) open(ctx context.Context, o Options) error {
	src, size, compressed, err := openRegular(f.path)
	if err != nil {
		return err
	}
	defer func() { src.Close() }()
	if compressed {
		plain, err := f.decompress(ctx, src, size)
		if err != nil {
			return err
		}
		src.Close()
		if src, err = os.Open(plain); err != nil {
			return err
		}
		info, err := src.Stat()
		if err != nil {
			return err
		}
		size = info.Size()
	}

	head, err := readHeader(src, size)
	if err != nil {
		return f.errorf("%w", err)
	}
	f.size = size
	hashed := size%512 == sha256.Size
	if hashed {
		f.size -= sha256.Size
	}
	if !o.SkipHashCheck {
		if !hashed {
			return f.errorf("no sha256 at the end: the file is cut off, or it is a copy of member/snap/db, which can only be read without the hash check (--skip-hash-check)")
		}
		f.progress.expect(f.size)
	}
	f.progress.expect(f.size) // pages; Latest adds its own pass
	if !o.SkipHashCheck {
		if err := f.checkHash(ctx, src); err != nil {
			return err
		}
	}
	if err := checkPages(ctx, src, f.size, head, f.progress); err != nil {
		return f.errorf("%w", err)
	}
	return f.guard(func() error {
		f.db, err = bolt.Open(f.path, 0, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
		if errors.Is(err, berrors.ErrTimeout) {
			return errors.New("locked by a process that writes it (a running etcd?): take a snapshot with etcdctl, or copy the file")
		}
		return err
	})
}

// Close closes the file and removes the temporary copy, if one was made. It can
// be called again.
func (f *File) Close() error {
	var errs []error
	if f.db != nil {
		errs = append(errs, f.db.Close())
		f.db = nil
	}
	if f.temp != "" {
		errs = append(errs, os.Remove(f.temp))
		f.temp = ""
	}
	return errors.Join(errs...)
}

// PlainPath is the path of the uncompressed snapshot: the one given to Open or a
// temporary copy, which lives until Close. It must not be written to.
func (f *File) PlainPath() string { return f.path }

// errorf puts the caller's name of the file before the message: the path that is
// read may be a temporary one.
func (f *File) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", f.name, fmt.Errorf(format, args...))
}

// guard runs fn, in which bbolt reads mapped pages, and turns a fault
// there into an error. The pages were checked, but another process may cut the
// file off meanwhile: then touching the mapping is a fault, which is a panic
// only when asked for.
func (f *File) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = f.errorf("damaged database: %v", r)
		}
	}()
	if err := fn(); err != nil {
		return f.errorf("%w", err)
	}
	return nil
}

// openRegular opens a file for reading and returns its size and whether it is
// gzip-compressed.
func openRegular(path string) (*os.File, int64, bool, error) {
	// A pipe without a writer would block in open, so look before opening.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, false, err
	}
	switch {
	case info.IsDir():
		return nil, 0, false, fmt.Errorf("%s: is a directory, not an etcd snapshot file", path)
	case !info.Mode().IsRegular():
		return nil, 0, false, fmt.Errorf("%s: is not a regular file", path)
	case info.Size() == 0:
		return nil, 0, false, fmt.Errorf("%s: is empty, not an etcd snapshot", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, false, err
	}
	var magic [len(sqliteMagic)]byte
	n, err := file.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		file.Close()
		return nil, 0, false, err
	}
	if string(magic[:n]) == sqliteMagic {
		file.Close()
		return nil, 0, false, fmt.Errorf("%s: is a SQLite database, not an etcd snapshot; commands that only read take the one of k3s with --sqlite", path)
	}
	return file, info.Size(), bytes.HasPrefix(magic[:n], []byte{0x1f, 0x8b}), nil
}

// sqliteMagic is how a SQLite database begins.
const sqliteMagic = "SQLite format 3\x00"

// decompress writes the gzip content of src to a temporary file.
func (f *File) decompress(ctx context.Context, src *os.File, size int64) (string, error) {
	f.progress.expect(size)
	in, err := gzip.NewReader(meteredReader{ctx, src, f.progress})
	if err != nil {
		return "", f.errorf("not a gzip file: %w", err)
	}
	out, err := os.CreateTemp("", "rangekeeper-*.db")
	if err != nil {
		return "", f.errorf("decompress: %w", err)
	}
	f.temp, f.path = out.Name(), out.Name()
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return "", f.errorf("decompress: %w", err)
	}
	return f.path, nil
}

// checkHash compares the sha256 of the database with the one that follows it.
func (f *File) checkHash(ctx context.Context, src *os.File) error {
	h := sha256.New()
	if _, err := io.Copy(h, meteredReader{ctx, io.NewSectionReader(src, 0, f.size), f.progress}); err != nil {
		return f.errorf("check the hash: %w", err)
	}
	want := make([]byte, sha256.Size)
	if _, err := src.ReadAt(want, f.size); err != nil {
		return f.errorf("check the hash: %w", err)
	}
	if got := h.Sum(nil); !bytes.Equal(got, want) {
		return f.errorf("damaged: its sha256 is %x, the one stored at its end is %x", got, want)
	}
	return nil
}
