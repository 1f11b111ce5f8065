package snapshotfile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// latest opens path and reads every key.
func latest(t testing.TB, path string, o snapshotfile.Options) (int64, []*mvccpb.KeyValue, error) {
	return snapshotfile.Latest(t.Context(), path, o)
}

// withHash is what etcdctl would save for a database.
func withHash(db []byte) []byte {
	sum := sha256.Sum256(db)
	return append(bytes.Clone(db), sum[:]...)
}

func TestLatestFollowsHistory(t *testing.T) {
	e := etcdtest.Start(t, "")
	c, ctx := e.Client(), t.Context()
	for _, kv := range [][2]string{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"a", "2"}, {"a", "3"}} {
		if _, err := c.Put(ctx, kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"b", "c"} {
		if _, err := c.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Put(ctx, "c", "again"); err != nil {
		t.Fatal(err)
	}
	deleted, err := c.Delete(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		want, err := c.Get(ctx, "\x00", withFromKey...)
		if err != nil {
			t.Fatal(err)
		}
		rev, kvs, err := latest(t, etcdtest.Save(t, c), snapshotfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if rev != want.Header.Revision {
			t.Errorf("revision %d, etcd says %d", rev, want.Header.Revision)
		}
		if len(kvs) != 1 || len(want.Kvs) != 1 || kvs[0].String() != want.Kvs[0].String() {
			t.Errorf("keys %v, etcd says %v", kvs, want.Kvs)
		}
	}
	check()
	// Compaction drops the deletion that was the newest revision.
	if _, err := c.Compact(ctx, deleted.Header.Revision, compactPhysical...); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestOpenBadFiles(t *testing.T) {
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	flipped := bytes.Clone(db)
	flipped[len(flipped)/2] ^= 1
	raw := db[:len(db)-sha256.Size]
	random := make([]byte, 1<<16+sha256.Size)
	for i := range random {
		random[i] = byte(rand.Int())
	}
	empty, err := bolt.Open(filepath.Join(t.TempDir(), "empty.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	noBuckets := empty.Path()
	if err := empty.Close(); err != nil {
		t.Fatal(err)
	}
	noBucketsDB, err := os.ReadFile(noBuckets)
	if err != nil {
		t.Fatal(err)
	}
	gz := etcdtest.Gzip(t, db)
	for _, c := range []struct {
		name, path, want string
		o                snapshotfile.Options
	}{
		{name: "missing", path: filepath.Join(t.TempDir(), "missing.db"), want: "no such file"},
		{name: "directory", path: t.TempDir(), want: "directory"},
		{name: "device", path: os.DevNull, want: "not a regular file"},
		{name: "empty", path: etcdtest.Write(t, nil), want: "empty"},
		{name: "one byte", path: etcdtest.Write(t, []byte{0x1f}), want: "not an etcd snapshot"},
		{name: "text", path: etcdtest.Write(t, []byte(strings.Repeat("not a database\n", 1000))), want: "not an etcd snapshot"},
		{name: "random", path: etcdtest.Write(t, random), want: "not an etcd snapshot"},
		{name: "no hash", path: etcdtest.Write(t, raw), want: "no sha256"},
		{name: "flipped bit", path: etcdtest.Write(t, flipped), want: "sha256"},
		{name: "bolt file of something else", path: etcdtest.Write(t, withHash(noBucketsDB)), want: `no bucket "key"`},
		{name: "gzip magic only", path: etcdtest.Write(t, []byte{0x1f, 0x8b}), want: "gzip"},
		{name: "gzip of text", path: etcdtest.Write(t, etcdtest.Gzip(t, []byte("text"))), want: "not an etcd snapshot"},
		{name: "gzip of nothing", path: etcdtest.Write(t, etcdtest.Gzip(t, nil)), want: "not an etcd snapshot"},
		{name: "gzip cut off", path: etcdtest.Write(t, gz[:len(gz)/2]), want: "unexpected EOF"},
		{name: "gzip flipped", path: etcdtest.Write(t, flip(gz, len(gz)-6)), want: "gzip"},
		{name: "raw cut off", path: etcdtest.Write(t, raw[:len(raw)/2]), want: "cut off", o: snapshotfile.Options{SkipHashCheck: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := latest(t, c.path, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("got %v, want an error with %q and %q", err, c.path, c.want)
			}
		})
	}
	for name, path := range map[string]string{"plain": etcdtest.Write(t, raw), "hashed": etcdtest.Write(t, db), "wrong hash": etcdtest.Write(t, flip(db, len(db)-1))} {
		if _, _, err := latest(t, path, snapshotfile.Options{SkipHashCheck: true}); err != nil {
			t.Errorf("%s without the hash check: %v", name, err)
		}
	}
}

func flip(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 0x10
	return b
}

func TestOpenTruncated(t *testing.T) {
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	lengths := []int{1, 16, 80, 511, 512, 4095, 4096, 4097, 8191, 8192, 8192 + 32, len(db) - 4096, len(db) - 33, len(db) - 32, len(db) - 1}
	for range 50 {
		lengths = append(lengths, 1+rand.IntN(len(db)-1), 32+512*rand.IntN(len(db)/512))
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "cut.db")
	for _, n := range lengths {
		if err := os.WriteFile(path, db[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := latest(t, path, snapshotfile.Options{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%d of %d bytes: %v", n, len(db), err)
		}
		_, _, err := latest(t, path, snapshotfile.Options{SkipHashCheck: true})
		if n < len(db)-sha256.Size && err == nil {
			t.Errorf("%d of %d bytes without the hash check: no error", n, len(db))
		}
	}
}

// TestOpenDamaged reads databases in which bits were flipped behind the hash's
// back: an error or a result, but no panic, no fault and no endless loop.
func TestOpenDamaged(t *testing.T) {
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	db = db[:len(db)-sha256.Size]
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	path := filepath.Join(t.TempDir(), "damaged.db")
	refused := 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := bytes.Clone(db)
		for range 1 + r.IntN(4) {
			switch page := r.IntN(len(b)/4096) * 4096; r.IntN(4) {
			case 0: // anywhere
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			case 1: // header and first elements of a page
				b[page+r.IntN(128)] ^= 1 << r.IntN(8)
			case 2: // a whole page put in another one's place
				copy(b[page:page+4096], b[r.IntN(len(b)/4096)*4096:])
			case 3: // a header with a valid checksum
				page &= 4096
				b[page+16+r.IntN(56)] ^= 1 << r.IntN(8)
				h := fnv.New64a()
				h.Write(b[page+16 : page+72])
				binary.LittleEndian.PutUint64(b[page+72:], h.Sum64())
			}
		}
		if err := os.WriteFile(path, withHash(b), 0o600); err != nil {
			t.Fatal(err)
		}
		_, kvs, err := latest(t, path, snapshotfile.Options{})
		if err != nil {
			refused++
			if !strings.Contains(err.Error(), path) {
				t.Errorf("seed %d: error does not name the file: %v", seed, err)
			}
			continue
		}
		// What can be read must be writable, too.
		if seed%8 == 0 && len(kvs) > 0 {
			dst := filepath.Join(t.TempDir(), "new.db")
			rev, _, _ := latest(t, path, snapshotfile.Options{})
			if _, err := snapshotfile.WriteRepaired(t.Context(), path, dst, map[string][]byte{"k": {1}}, snapshotfile.WriteOptions{Revision: rev}); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	if refused == 0 || refused == rounds {
		t.Errorf("%d of %d damaged files refused", refused, rounds)
	}
}

func TestOpenLeavesSourceAlone(t *testing.T) {
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	path := etcdtest.Write(t, db)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	// Another reader does not get in the way.
	other, err := snapshotfile.Open(t.Context(), path, snapshotfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, _, err := latest(t, path, snapshotfile.Options{}); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(path)
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(now, db) || !after.ModTime().Equal(before.ModTime()) {
		t.Error("the file was changed")
	}
}

func TestOpenLockedByWriter(t *testing.T) {
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	path := etcdtest.Write(t, db[:len(db)-sha256.Size])
	w, err := bolt.Open(path, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, _, err = latest(t, path, snapshotfile.Options{SkipHashCheck: true}); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("got %v", err)
	}
}

// TestOpenStdin reads a snapshot from a pipe, compressed or not.
func TestOpenStdin(t *testing.T) {
	path := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := latest(t, path, snapshotfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func(stdin *os.File) { os.Stdin = stdin }(os.Stdin)
	for _, content := range [][]byte{packed, etcdtest.Gunzip(t, path)} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			write.Write(content)
			write.Close()
		}()
		os.Stdin = read
		if got, _, err := latest(t, snapshotfile.Stdin, snapshotfile.Options{}); err != nil || got != want {
			t.Errorf("revision %d, want %d (%v)", got, want, err)
		}
	}
}

// TestOpenStreams reads streams that are no whole snapshots. What does not begin as one is not written to the disk, and
// an error of the stream is none of the disk.
func TestOpenStreams(t *testing.T) {
	packed, err := os.ReadFile(etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	cut := etcdtest.Write(t, packed[:len(packed)-1])
	if _, err := snapshotfile.Open(t.Context(), cut, snapshotfile.Options{}); err == nil || err.Error() != cut+": unexpected EOF" {
		t.Errorf("cut off: %v", err)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	zeros := etcdtest.Write(t, etcdtest.Gzip(t, make([]byte, 1<<20)))
	if _, err := snapshotfile.Open(t.Context(), zeros, snapshotfile.Options{}); err == nil || err.Error() != zeros+": not an etcd snapshot: no database header" {
		t.Errorf("zeros: %v", err)
	}
	whole := etcdtest.Write(t, packed)
	if _, err := snapshotfile.Open(t.Context(), whole, snapshotfile.Options{}); err == nil || !strings.Contains(err.Error(), "name another folder with TMPDIR") {
		t.Errorf("whole: %v", err)
	}
}

func TestOpenRemovesTemporaryFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	f, err := snapshotfile.Open(t.Context(), path, snapshotfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("a process that is killed leaves %v", left)
	}
	var plain bytes.Buffer
	if _, err := f.WriteTo(&plain); err != nil || !bytes.Equal(plain.Bytes(), etcdtest.Gunzip(t, path)) {
		t.Errorf("the uncompressed copy differs (%v)", err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	cut := etcdtest.Write(t, etcdtest.Gzip(t, []byte("text")))
	if _, _, err := latest(t, cut, snapshotfile.Options{}); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestProgressAndCancel(t *testing.T) {
	path := etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz")
	var done, total int64
	_, _, err := latest(t, path, snapshotfile.Options{Progress: func(d, n int64) {
		if d < done || d > n {
			t.Errorf("progress %d of %d after %d", d, n, done)
		}
		done, total = d, n
	}})
	if err != nil {
		t.Fatal(err)
	}
	if total == 0 || done != total {
		t.Errorf("ended at %d of %d", done, total)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := snapshotfile.Open(ctx, path, snapshotfile.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	never := func([]byte) bool { cancel(); return false } // canceled on the way
	if _, err := snapshotfile.Read(ctx, path, snapshotfile.Options{}, never, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := snapshotfile.Open(t.Context(), "none.db", snapshotfile.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
