package snapshotfile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

const (
	branch   = 0x01
	leaf     = 0x02
	freelist = 0x10
)

// TestDamagedPages damages all pages of one sort in one way.
func TestDamagedPages(t *testing.T) {
	le := binary.LittleEndian
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	path := etcdtest.Write(t, db[:len(db)-sha256.Size])
	// etcd does not store the list of free pages; bbolt does unless an option forbids it.
	w, err := bolt.Open(path, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := latest(t, etcdtest.Write(t, withHash(db)), snapshotfile.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		flags  uint16
		damage func(id uint64, page []byte)
		want   string
	}{
		{"cycle", branch, func(id uint64, p []byte) { le.PutUint64(p[24:], id) }, "used twice"},
		{"two parents", branch, func(_ uint64, p []byte) { copy(p[40:48], p[24:32]) }, "used twice"},
		{"child is a header", branch, func(_ uint64, p []byte) { le.PutUint64(p[24:], 1) }, "page 1 does not exist"},
		{"child past the end", branch, func(_ uint64, p []byte) { le.PutUint64(p[24:], 1<<63) }, "does not exist"},
		{"no children", branch, func(_ uint64, p []byte) { le.PutUint16(p[10:], 0) }, "empty branch"},
		{"branch key past the page", branch, func(_ uint64, p []byte) { le.PutUint32(p[20:], 5000) }, "element 0 runs past"},
		{"branch keys out of order", branch, func(_ uint64, p []byte) { swap(p[16:32], p[32:48]) }, "out of order"},
		{"other number", leaf, func(id uint64, p []byte) { le.PutUint64(p, id+1) }, "says it is page"},
		{"unknown sort", leaf, func(_ uint64, p []byte) { le.PutUint16(p[8:], 7) }, "neither branch nor leaf"},
		{"too many elements", leaf, func(_ uint64, p []byte) { le.PutUint16(p[10:], 0xffff) }, "claims 65535 elements"},
		{"overflow", leaf, func(_ uint64, p []byte) { le.PutUint32(p[12:], 1<<31) }, "past the last page"},
		{"position past the page", leaf, func(_ uint64, p []byte) { le.PutUint32(p[20:], 1<<31) }, "element 0 runs past"},
		{"4 GiB key", leaf, func(_ uint64, p []byte) { le.PutUint32(p[24:], 1<<32-1) }, "element 0 runs past"},
		{"4 GiB value", leaf, func(_ uint64, p []byte) { le.PutUint32(p[28:], 1<<32-1) }, "element 0 runs past"},
		{"bucket without root", leaf, func(_ uint64, p []byte) { le.PutUint32(p[16:], 1); le.PutUint32(p[28:], 15) }, "cut off"},
		{"free page in use", freelist, func(_ uint64, p []byte) { le.PutUint64(p[16:], le.Uint64(p)) }, "listed as free"},
		{"free page past the end", freelist, func(_ uint64, p []byte) { le.PutUint64(p[16:], 1<<40) }, "listed as free"},
		{"endless free list", freelist, func(_ uint64, p []byte) { le.PutUint16(p[10:], 0xffff); le.PutUint64(p[16:], 1<<62) }, "free list runs past"},
		{"no free list", freelist, func(_ uint64, p []byte) { le.PutUint16(p[8:], leaf) }, "not the free list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bytes.Clone(db)
			for off := 2 * 4096; off+4096 <= len(b); off += 4096 {
				p := b[off : off+4096]
				if id := uint64(off / 4096); le.Uint64(p) == id && le.Uint16(p[8:]) == c.flags && le.Uint16(p[10:]) > 0 {
					c.damage(id, p)
				}
			}
			if _, _, err := latest(t, etcdtest.Write(t, withHash(b)), snapshotfile.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func swap(a, b []byte) {
	c := bytes.Clone(a)
	copy(a, b)
	copy(b, c)
}

// TestRevisionAfterCompaction removes the newest change of a compacted store, as
// the compaction of some etcd versions does with a deletion.
func TestRevisionAfterCompaction(t *testing.T) {
	client := etcdtest.Start(t, "").Client()
	if _, err := client.Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	deleted, err := client.Delete(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), deleted.Header.Revision, compactPhysical...); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "raw.db")
	saved, err := os.ReadFile(etcdtest.Save(t, client))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, saved[:len(saved)-sha256.Size], 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket([]byte("key")).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.First() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	path = etcdtest.Write(t, withHash(raw))
	rev, kvs, err := latest(t, path, snapshotfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	restored, err := etcdtest.Start(t, path).Client().Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if rev != restored.Header.Revision || rev != deleted.Header.Revision || len(kvs) != 0 {
		t.Errorf("revision %d, etcd says %d; keys %v", rev, restored.Header.Revision, kvs)
	}
}
