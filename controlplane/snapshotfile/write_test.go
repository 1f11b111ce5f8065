package snapshotfile_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

var (
	withFromKey     = []clientv3.OpOption{clientv3.WithFromKey()}
	compactPhysical = []clientv3.CompactOption{clientv3.WithCompactPhysical()}
)

// repairedValues are the values that the reference's repair left in a fixture.
func repairedValues(t *testing.T, cluster string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(etcdtest.Fixture(cluster, "repaired3-*.bin.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no repaired values", err)
	}
	values := map[string][]byte{}
	for _, p := range paths {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), "repaired3-"), ".bin.gz")
		values["/registry/ranges/"+name] = etcdtest.Gunzip(t, p)
	}
	return values
}

func TestWriteRepaired(t *testing.T) {
	for _, fixture := range etcdtest.FixtureClusters {
		cluster := fixture.Name
		t.Run(cluster, func(t *testing.T) {
			gz := etcdtest.Fixture(cluster, "drift.db.gz")
			plain := etcdtest.Write(t, etcdtest.Gunzip(t, gz))
			oldRev, old, err := latest(t, gz, snapshotfile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			values := repairedValues(t, cluster)
			values["/registry/ranges/new"] = []byte("created")

			var files [][]byte
			for _, src := range []string{gz, plain} {
				dst := filepath.Join(t.TempDir(), "repaired.db")
				written, err := snapshotfile.WriteRepaired(t.Context(), src, dst, values, snapshotfile.WriteOptions{Revision: oldRev})
				if err != nil {
					t.Fatal(err)
				}
				rev := written.Revision
				if rev != oldRev+1 || written.IsDamaged {
					t.Errorf("revision %d after %d", rev, oldRev)
				}
				b, err := os.ReadFile(dst)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, b)

				// etcd's own tools accept it: this reads all pages and keys.
				status, err := snapshot.NewV3(zap.NewNop()).Status(dst)
				if err != nil {
					t.Fatal(err)
				}
				if status.Revision != rev || status.TotalKey != len(old)+1 {
					t.Errorf("etcdutl status %+v, want revision %d and %d keys", status, rev, len(old)+1)
				}

				client := etcdtest.Start(t, dst).Client() // restores with the hash check
				got, err := client.Get(t.Context(), "\x00", withFromKey...)
				if err != nil {
					t.Fatal(err)
				}
				if got.Header.Revision != rev || int(got.Count) != len(old)+1 {
					t.Errorf("restored: revision %d, %d keys", got.Header.Revision, got.Count)
				}
				after := map[string]int{}
				for i, kv := range got.Kvs {
					after[string(kv.Key)] = i
				}
				for _, was := range old {
					is := got.Kvs[after[string(was.Key)]]
					value, changed := values[string(was.Key)]
					switch {
					case !changed && is.String() != was.String():
						t.Errorf("%s changed", was.Key)
					case changed && (!bytes.Equal(is.Value, value) || is.ModRevision != rev || is.Version != was.Version+1 || is.CreateRevision != was.CreateRevision):
						t.Errorf("%s: mod %d, version %d, create %d", is.Key, is.ModRevision, is.Version, is.CreateRevision)
					}
				}
				if kv := got.Kvs[after["/registry/ranges/new"]]; string(kv.Value) != "created" || kv.Version != 1 || kv.CreateRevision != rev {
					t.Errorf("created: %v", kv)
				}
				// The history is still there, and goes on.
				for key := range values {
					before, err := client.Get(t.Context(), key, clientv3.WithRev(oldRev))
					if err != nil || key != "/registry/ranges/new" && len(before.Kvs) != 1 {
						t.Errorf("%s at the old revision: %v, %v", key, before, err)
					}
				}
				if put, err := client.Put(t.Context(), "next", ""); err != nil || put.Header.Revision != rev+1 {
					t.Errorf("next write: %v, %v", put, err)
				}
			}
			if !bytes.Equal(files[0], files[1]) {
				t.Error("compressed and plain source give different files")
			}
			if now, _ := os.ReadFile(plain); !bytes.Equal(now, etcdtest.Gunzip(t, gz)) {
				t.Error("the source was changed")
			}
		})
	}
}

// TestWriteRepairedTwice repairs a repaired snapshot again, and one without
// anything to change.
func TestWriteRepairedTwice(t *testing.T) {
	src := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	rev, old, err := latest(t, src, snapshotfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, values := range []map[string][]byte{{"/registry/ranges/serviceips": []byte("a")}, {"/registry/ranges/serviceips": []byte("b")}, nil} {
		dst := filepath.Join(dir, string(rune('a'+i)))
		written, err := snapshotfile.WriteRepaired(t.Context(), src, dst, values, snapshotfile.WriteOptions{Revision: rev})
		if rev = written.Revision; err != nil {
			t.Fatal(err)
		}
		src = dst
	}
	now, kvs, err := latest(t, src, snapshotfile.Options{})
	if err != nil || now != rev || len(kvs) != len(old) {
		t.Fatalf("revision %d, want %d; %d keys, want %d; %v", now, rev, len(kvs), len(old), err)
	}
	for i, kv := range kvs {
		if string(kv.Key) == "/registry/ranges/serviceips" && (string(kv.Value) != "b" || kv.Version != old[i].Version+2) {
			t.Errorf("got %v", kv)
		}
	}
}

func TestWriteRepairedRefuses(t *testing.T) {
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"))
	dir := t.TempDir()
	src := filepath.Join(dir, "src.db")
	if err := os.WriteFile(src, db, 0o600); err != nil {
		t.Fatal(err)
	}
	link, hard, there := filepath.Join(dir, "link.db"), filepath.Join(dir, "hard.db"), filepath.Join(dir, "there.db")
	dangling := filepath.Join(dir, "dangling.db")
	for _, err := range []error{os.Symlink(src, link), os.Symlink(filepath.Join(dir, "gone.db"), dangling), os.Link(src, hard), os.WriteFile(there, []byte("precious"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	damaged := etcdtest.Write(t, flip(db, len(db)/2))
	rev, _, err := latest(t, src, snapshotfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{"/registry/ranges/servicenodeports": []byte("x")}
	for _, c := range []struct {
		name, src, dst, want string
		values               map[string][]byte
		o                    snapshotfile.WriteOptions
	}{
		{name: "itself", dst: src, want: "is the snapshot that is read"},
		{name: "itself by symlink", dst: link, want: "is the snapshot that is read"},
		{name: "itself by hard link", dst: hard, want: "is the snapshot that is read"},
		{name: "existing", dst: there, want: "exists"},
		{name: "symlink to nothing", dst: dangling, want: "exists"},
		{name: "directory", dst: dir, want: "exists"},
		{name: "missing directory", dst: filepath.Join(dir, "none", "new.db"), want: "no such file"},
		{name: "other revision", dst: filepath.Join(dir, "new.db"), o: snapshotfile.WriteOptions{Revision: rev - 1}, want: "revision"},
		{name: "damaged source", src: damaged, dst: filepath.Join(dir, "new.db"), want: "sha256"},
		{name: "empty key", dst: filepath.Join(dir, "new.db"), values: map[string][]byte{"": nil}, want: "empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.src == "" {
				c.src = src
			}
			if c.values == nil {
				c.values = values
			}
			if c.o.Revision == 0 {
				c.o.Revision = rev
			}
			if _, err := snapshotfile.WriteRepaired(t.Context(), c.src, c.dst, c.values, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if b, _ := os.ReadFile(there); string(b) != "precious" {
		t.Error("an existing file was replaced")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 5 {
		t.Errorf("left behind: %v", entries)
	}
	if _, err := snapshotfile.WriteRepaired(t.Context(), src, there, values, snapshotfile.WriteOptions{Revision: rev}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
}

// TestWriteOfDamaged repairs a snapshot whose hash is wrong. The new file must not pass for a sound one.
func TestWriteOfDamaged(t *testing.T) {
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"))
	skip := snapshotfile.Options{SkipHashCheck: true}
	values := map[string][]byte{"/registry/ranges/servicenodeports": []byte("x")}
	sound, damaged := etcdtest.Write(t, db), etcdtest.Write(t, flip(db, len(db)-1))
	rev, _, err := latest(t, sound, snapshotfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for src, isDamaged := range map[string]bool{sound: false, damaged: true} {
		for _, name := range []string{"new.db", "new.db.gz"} {
			dst := filepath.Join(t.TempDir(), name)
			written, err := snapshotfile.WriteRepaired(t.Context(), src, dst, values, snapshotfile.WriteOptions{Options: skip, Revision: rev})
			if err != nil || written.IsDamaged != isDamaged || written.Revision != rev+1 {
				t.Errorf("%+v, %v", written, err)
			}
			_, _, err = latest(t, dst, snapshotfile.Options{})
			if (err != nil) != isDamaged || isDamaged && !strings.Contains(err.Error(), "no sha256 at the end") {
				t.Errorf("%s, damaged: %v: %v", name, isDamaged, err)
			}
			if now, kvs, err := latest(t, dst, skip); err != nil || now != rev+1 || len(kvs) == 0 {
				t.Errorf("revision %d, %d keys, %v", now, len(kvs), err)
			}
		}
	}
}

// TestWriteGivesUp meets what goes wrong once a part of the new file is written.
func TestWriteGivesUp(t *testing.T) {
	src := etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz")
	rev, _, err := latest(t, src, snapshotfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context, dst string) error {
		_, err := snapshotfile.WriteRepaired(ctx, src, dst, map[string][]byte{"a": nil}, snapshotfile.WriteOptions{Revision: rev})
		return err
	}
	steps := 0
	if err := write(watched{t.Context(), func() { steps++ }}, filepath.Join(t.TempDir(), "new.db")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want error
		// meanwhile is what happens beside.
		meanwhile func(cancel func(), dst string)
	}{
		{context.Canceled, func(cancel func(), _ string) { cancel() }},
		{fs.ErrExist, func(_ func(), dst string) { os.WriteFile(dst, []byte("precious"), 0o600) }},
	} {
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		dir := t.TempDir()
		dst := filepath.Join(dir, "new.db")
		step := 0
		err := write(watched{parent, func() {
			if step++; step == steps-1 {
				c.meanwhile(cancel, dst)
			}
			for _, left := range glob(t, filepath.Join(dir, "*"), filepath.Join(dir, ".*")) {
				if left != dst {
					t.Errorf("a process that is killed leaves %s", left)
				}
			}
		}}, dst)
		if !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
		for _, left := range glob(t, filepath.Join(dir, "*"), filepath.Join(dir, ".*")) {
			if b, _ := os.ReadFile(left); left != dst || string(b) != "precious" {
				t.Errorf("%s is left behind", left)
			}
		}
	}
}

// watched reports each time that it is asked whether it is done.
type watched struct {
	context.Context
	asked func()
}

func (w watched) Err() error {
	w.asked()
	return w.Context.Err()
}

func glob(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}
