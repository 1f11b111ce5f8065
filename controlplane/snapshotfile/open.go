package snapshotfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
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

// Stdin is the name under which Open reads the standard input.
const Stdin = "-"

// File is an open snapshot. It must be closed. It is not safe for concurrent
// use.
type File struct {
	name string // as given by the caller, for errors
	// plain is the uncompressed file; db owns it once it is open.
	plain    *os.File
	temp     string // the copy to remove, where the system keeps it until it is closed
	size     int64  // bytes of the database, without the hash
	whole    int64  // bytes of the file
	db       *bolt.DB
	progress *progress
}

// Open opens the snapshot at path and checks its hash and the structure of its
// pages. A gzip-compressed one, known by its first bytes, and one from [Stdin] are first written out
// to a temporary file in $TMPDIR, which has no name there any more when Open returns (on Windows, when Close does), so
// that it does not outlive the process. The file at path is never written to. The cost is reading the file twice.
//
// Errors name the file. They come from the operating system or the context, or
// describe the fault in the content.
func Open(ctx context.Context, path string, o Options) (*File, error) { return open(ctx, path, o, nil) }

// open is Open, and hands over what the file has; see pageChecker.
func open(ctx context.Context, path string, o Options, visit func(bucket string, key, value []byte) error) (*File, error) {
	f := &File{name: path, progress: &progress{report: o.Progress}}
	if path == Stdin {
		f.name = "standard input"
	}
	if err := f.open(ctx, path, o, visit); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openPlain opens the uncompressed file.
func (f *File) openPlain(ctx context.Context, path string) error {
	if path == Stdin {
		return f.spool(meteredReader{ctx, os.Stdin, f.progress})
	}
	file, err := openRegular(path)
	if err != nil {
		return err
	}
	var first [len(sqliteMagic)]byte
	n, err := file.ReadAt(first[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		file.Close()
		return f.errorf("%w", err)
	}
	if !isCompressed(first[:n]) {
		f.plain = file
		return f.refuseOthers(first[:n])
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.progress.expect(info.Size())
	return f.spool(meteredReader{ctx, file, f.progress})
}

func (f *File) open(ctx context.Context, path string, o Options, visit func(bucket string, key, value []byte) error) error {
	if err := f.openPlain(ctx, path); err != nil {
		return err
	}
	src := f.plain
	info, err := src.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	f.whole = size

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
	f.progress.expect(f.size) // pages
	if err := f.lock(); err != nil {
		return err
	}
	if !o.SkipHashCheck {
		if err := f.checkHash(ctx, src); err != nil {
			return err
		}
	}
	if err := checkPages(ctx, src, f.size, head, f.progress, visit); err != nil {
		return f.errorf("%w", err)
	}
	return nil
}

// lock has bbolt open the file, which locks it. Nothing is read through bbolt: that trusts the pages, and what it maps
// into memory counts as the program's.
func (f *File) lock() error {
	return f.guard(func() (err error) {
		opened := func(string, int, os.FileMode) (*os.File, error) { return f.plain, nil }
		f.db, err = bolt.Open(f.plain.Name(), 0, &bolt.Options{ReadOnly: true, Timeout: lockTimeout, OpenFile: opened})
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
	switch {
	case f.db != nil:
		errs = append(errs, f.db.Close())
	case f.plain != nil:
		f.plain.Close() // it was only read; a database that could not be opened may have closed it
	}
	f.db, f.plain = nil, nil
	if f.temp != "" {
		errs = append(errs, os.Remove(f.temp))
		f.temp = ""
	}
	return errors.Join(errs...)
}

// WriteTo writes the uncompressed snapshot, with its hash if it has one.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.NewSectionReader(f.plain, 0, f.whole))
}

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

// openRegular opens a file for reading.
func openRegular(path string) (*os.File, error) {
	// A pipe without a writer would block in open, so look before opening.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a directory, not an etcd snapshot file", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	return os.Open(path)
}

// isCompressed reports whether a file that begins so is gzip-compressed.
func isCompressed(first []byte) bool { return bytes.HasPrefix(first, []byte{0x1f, 0x8b}) }

// refuseOthers refuses a file that begins so and is clearly no snapshot.
func (f *File) refuseOthers(first []byte) error {
	switch {
	case len(first) == 0:
		return f.errorf("is empty, not an etcd snapshot")
	case bytes.HasPrefix(first, []byte(sqliteMagic)):
		return f.errorf("is a SQLite database, not an etcd snapshot; commands that only read take the one of k3s with --sqlite")
	}
	return nil
}

// sqliteMagic is how a SQLite database begins.
const sqliteMagic = "SQLite format 3\x00"

// headSize is how much of a snapshot has both of its headers, for pages of up to 64 KiB.
const headSize = 128 << 10

// spool writes a stream, uncompressed, to a temporary file, once it has begun as a database does: what is none could
// fill the disk.
func (f *File) spool(stream io.Reader) error {
	in := bufio.NewReaderSize(stream, headSize)
	head, err := in.Peek(headSize)
	if isCompressed(head) {
		unpacked, failed := gzip.NewReader(in)
		if failed != nil {
			return f.errorf("not a gzip file: %w", failed)
		}
		in = bufio.NewReaderSize(unpacked, headSize)
		head, err = in.Peek(headSize)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return f.errorf("%w", err)
	}
	if err := f.refuseOthers(head); err != nil {
		return err
	}
	if _, err := readHeader(bytes.NewReader(head), math.MaxInt64); err != nil {
		return f.errorf("%w", err)
	}
	out, err := os.CreateTemp("", "rangekeeper-*.db")
	if err != nil {
		return f.errorf("a temporary copy: %w; name another folder with TMPDIR, or decompress the file", err)
	}
	f.plain = out
	if err := os.Remove(out.Name()); err != nil { // an open file cannot be removed on Windows
		f.temp = out.Name()
	}
	source := failing{Reader: in}
	if _, err = io.Copy(out, &source); err == nil {
		_, err = out.Seek(0, io.SeekStart)
	}
	switch {
	case source.err != nil:
		return f.errorf("%w", source.err)
	case err != nil:
		return f.errorf("a temporary copy: %w; name another folder with TMPDIR, or decompress the file", err)
	}
	return nil
}

// failing keeps the error of a reader, which a copy returns as well as those of the writer.
type failing struct {
	io.Reader
	err error
}

func (r *failing) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != io.EOF {
		r.err = err
	}
	return n, err
}

// hashedAtOnce is how much of a file is hashed at once.
const hashedAtOnce = 256 << 10

// checkHash compares the sha256 of the database with the one that follows it.
func (f *File) checkHash(ctx context.Context, src *os.File) error {
	h := sha256.New()
	in := meteredReader{ctx, io.NewSectionReader(src, 0, f.size), f.progress}
	if _, err := io.CopyBuffer(h, in, make([]byte, hashedAtOnce)); err != nil {
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
