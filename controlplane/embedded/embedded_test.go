package embedded_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// TestSurvivesRestart stops an etcd and starts it again on the same directory.
func TestSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for i := range 2 {
		if has, err := embedded.HasData(dir); err != nil || has != (i > 0) {
			t.Errorf("start %d: has data: %v, %v", i, has, err)
		}
		e, err := embedded.Start(t.Context(), embedded.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Client().Get(t.Context(), "key")
		if err != nil || int(got.Count) != i {
			t.Errorf("start %d: %v, %v", i, got, err)
		}
		if _, err := e.Client().Put(t.Context(), "key", "value"); err != nil {
			t.Error(err)
		}
		for _, url := range e.Endpoints() {
			if !strings.HasPrefix(url, "http://127.0.0.1:") || strings.HasSuffix(url, ":0") {
				t.Errorf("endpoint %s", url)
			}
		}
		e.Close()
		e.Close()
	}
}

func TestTwoAtOnce(t *testing.T) {
	a, b := etcdtest.Start(t, ""), etcdtest.Start(t, "")
	if _, err := a.Client().Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Client().Get(t.Context(), "key"); err != nil || got.Count != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestQuota(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Quota: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	value := strings.Repeat("x", 1<<18)
	for range 1000 { // etcd learns the size only with its next commit to disk
		if _, err = e.Client().Put(t.Context(), "key", value); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "space exceeded") {
		t.Errorf("got %v", err)
	}
}

// TestDatabaseSize reads the size right after each write, when etcd itself has not
// committed it yet. Every version stays, so none may be missing in the size.
func TestDatabaseSize(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const size = 1 << 20
	before := e.DatabaseSize()
	for i := range int64(5) {
		if _, err := e.Client().Put(t.Context(), "key", strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		if grown := e.DatabaseSize() - before; grown < (i+1)*size {
			t.Errorf("after %d writes of %d bytes the database has grown by %d", i+1, size, grown)
		}
	}
}

// TestCompact writes the same key in several short lives of an etcd. Without
// compaction each write would add to the database.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	const size, lives, writes = 1 << 20, 3, 40
	for i := range lives {
		e, err := embedded.Start(t.Context(), embedded.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for range writes {
			if _, err := e.Client().Put(t.Context(), "key", strings.Repeat("x", size)); err != nil {
				t.Fatal(err)
			}
			if err := e.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Compact(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := e.Client().Get(t.Context(), "key"); err != nil || got.Count != 1 {
			t.Errorf("%v, %v", got, err)
		}
		if got := e.DatabaseSize(); got > 20*size {
			t.Errorf("after %d writes of %d bytes the database has %d", (i+1)*writes, size, got)
		}
		e.Close()
	}
}

func TestStartRefuses(t *testing.T) {
	file := etcdtest.Write(t, []byte("x"))
	damaged := t.TempDir()
	if err := os.MkdirAll(filepath.Join(damaged, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "member", "snap", "db"), bytes.Repeat([]byte("x"), 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	used := filepath.Join(t.TempDir(), "used")
	other, err := embedded.Start(t.Context(), embedded.Config{Dir: used})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, dir := range []string{"", file, damaged, used} {
		if e, err := embedded.Start(t.Context(), embedded.Config{Dir: dir}); err == nil {
			e.Close()
			t.Errorf("%q: started", dir)
		} else if !strings.Contains(err.Error(), dir) || errors.Is(err, embedded.ErrInUse) != (dir == used) || dir == used && !strings.HasSuffix(err.Error(), "it serves --endpoints "+other.Endpoints()[0]) {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	good := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	db := etcdtest.Gunzip(t, good)
	db[len(db)/2] ^= 1
	parent := t.TempDir()
	full := filepath.Join(parent, "full")
	if err := os.MkdirAll(filepath.Join(full, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, dir, want string }{
		{good, full, "not empty"},
		{etcdtest.Write(t, db), filepath.Join(parent, "new"), "sha256"},
		{etcdtest.Write(t, []byte("text")), filepath.Join(parent, "new"), "not an etcd snapshot"},
		{good, etcdtest.Write(t, nil), "not a directory"},
	} {
		err := embedded.Restore(t.Context(), c.path, c.dir, snapshotfile.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: got %v", c.want, err)
		}
	}
	if left, _ := os.ReadDir(parent); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	empty := t.TempDir()
	if err := embedded.Restore(t.Context(), good, empty, snapshotfile.Options{}); err != nil {
		t.Errorf("into an empty directory: %v", err)
	}
}

// TestClientPort starts an etcd at a port that was free, and one at a port that is taken.
func TestClientPort(t *testing.T) {
	port := etcdtest.FreePort(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	config := embedded.Config{Dir: t.TempDir(), ClientPort: uint16(port)}
	if e, err := embedded.Start(t.Context(), config); err == nil {
		e.Close()
		t.Error("started at a port that is taken")
	} else if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Error(err)
	}
	l.Close()
	e, err := embedded.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if want := "http://" + l.Addr().String(); !slices.Equal(e.Endpoints(), []string{want}) {
		t.Errorf("endpoints %v, want %s", e.Endpoints(), want)
	}
	if _, err := e.Client().Put(t.Context(), "key", "value"); err != nil {
		t.Error(err)
	}
}
