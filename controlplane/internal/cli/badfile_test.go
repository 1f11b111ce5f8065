package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// commands are all that read a snapshot, in every form that takes another way
// through the code. OUTPUT stands for a path.
var commands = [][]string{
	{"audit"}, {"audit", "-o", "wide"}, {"audit", "-o", "json"}, {"audit", "-o", "yaml"}, {"audit", "-o", "html"},
	{"repair"}, {"repair", "-o", "json"}, {"repair", "--to-file", "OUTPUT"},
	{"show", "serviceips"}, {"explain", "10.96.0.1"},
}

// checkRefused runs all commands on a file. Each must say on stderr what is wrong,
// and nothing else may come of it.
func checkRefused(t *testing.T, file string, wants ...string) {
	t.Helper()
	temp, dir := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, command := range commands {
		args := []string{"--etcd-snapshot", file}
		for _, arg := range command {
			args = append(args, strings.ReplaceAll(arg, "OUTPUT", filepath.Join(dir, "repaired.db")))
		}
		code, stdout, stderr := run(t, append(args[2:], args[:2]...)...)
		if code != exitInput || stdout != "" || !strings.HasPrefix(stderr, "rangekeeper: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", command, code, stdout, stderr)
		}
		for _, want := range append(wants, file) {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v: stderr %q, want %q", command, stderr, want)
			}
		}
	}
	for _, d := range []string{temp, dir} {
		if left, _ := os.ReadDir(d); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// checkLost runs all commands on a snapshot in which the stored object of a range cannot be read, or is not
// initialised. Each goes on, and the audit names the key and the reason.
func checkLost(t *testing.T, file, key, want string) {
	t.Helper()
	dir := t.TempDir()
	for _, command := range commands {
		var args []string
		for _, arg := range command {
			args = append(args, strings.ReplaceAll(arg, "OUTPUT", filepath.Join(dir, "repaired.db")))
		}
		code, stdout, stderr := run(t, append(args, "--etcd-snapshot", file)...)
		isUnknown := command[0] == "show" && key == serviceIPsKey && code != exitOK
		if isUnknown != (stderr != "") || !isUnknown && (code > exitFound || stdout == "") || strings.Contains(stdout, "KubernetesServiceNotFirst") {
			t.Errorf("%v: exit code %d, stdout %.500q, stderr %q", command, code, stdout, stderr)
		}
	}
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	name := key[strings.LastIndexByte(key, '/')+1:]
	for _, f := range r.Findings {
		if !f.IsLost() || f.Name != name || f.Reason == "RangeNotReadable" && !strings.Contains(f.Message, "key "+key+": ") || !strings.Contains(f.Message, want) {
			t.Errorf("%+v", f)
		}
	}
	if len(r.Findings) != 1 {
		t.Errorf("%d findings", len(r.Findings))
	}
}

// sealed puts the hash behind a database.
func sealed(db []byte) []byte {
	sum := sha256.Sum256(db)
	return append(bytes.Clone(db), sum[:]...)
}

// revised returns a snapshot in which the newest revision is the bytes of kv.
func revised(t *testing.T, db, kv []byte) []byte {
	t.Helper()
	path := etcdtest.Write(t, db[:len(db)-sha256.Size])
	b, err := bolt.Open(path, 0, &bolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	key := append(binary.BigEndian.AppendUint64(nil, 1<<40), "_\x00\x00\x00\x00\x00\x00\x00\x00"...)
	err = b.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("key")).Put(key, kv) })
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sealed(db)
}

func TestBadFiles(t *testing.T) {
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz"))
	flipped := func(at int) []byte {
		b := bytes.Clone(db)
		b[at] ^= 1
		return b
	}
	random := make([]byte, 1<<16)
	for r, i := rand.New(rand.NewPCG(1, 2)), 0; i < len(random); i++ {
		random[i] = byte(r.Uint32())
	}
	gz := etcdtest.Gzip(t, db)
	// The element count in the header of the first page behind the two meta pages.
	claim := bytes.Clone(db[:len(db)-sha256.Size])
	binary.LittleEndian.PutUint32(claim[2*4096+12:], 0xffffffff)
	const fourGiB = "\xff\xff\xff\xff\x0f"
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "empty"},
		{"text", []byte("not a snapshot"), "not an etcd snapshot"},
		{"random", random, "not an etcd snapshot"},
		{"random with a hash", sealed(random), "not an etcd snapshot"},
		{"random, compressed", etcdtest.Gzip(t, random), "not an etcd snapshot"},
		{"truncated", db[:len(db)/2], "cut off"},
		{"truncated to whole pages, with a hash", sealed(db[:4*4096]), "page"},
		{"truncated, compressed", gz[:len(gz)/2], "unexpected EOF"},
		{"flipped bit", flipped(len(db) / 2), "sha256"},
		{"flipped bit in the hash", flipped(len(db) - 1), "sha256"},
		{"flipped bit, compressed", etcdtest.Gzip(t, flipped(len(db)/2)), "sha256"},
		{"page of 4 GiB", sealed(claim), "page 2"},
		{"key of 4 GiB", revised(t, db, []byte("\x0a"+fourGiB)), "revision"},
		{"value of 4 GiB", revised(t, db, []byte("\x0a\x21"+nodePortsKey+"\x2a"+fourGiB)), nodePortsKey},
	} {
		t.Run(c.name, func(t *testing.T) { checkRefused(t, etcdtest.Write(t, c.file), c.want) })
	}
	t.Run("missing", func(t *testing.T) { checkRefused(t, filepath.Join(t.TempDir(), "none.db"), "no such file") })
	t.Run("directory", func(t *testing.T) { checkRefused(t, t.TempDir(), "directory") })
	t.Run("unreadable", func(t *testing.T) {
		if os.Getuid() == 0 {
			t.Skip("root reads everything")
		}
		file := etcdtest.Write(t, db)
		if err := os.Chmod(file, 0); err != nil {
			t.Fatal(err)
		}
		checkRefused(t, file, "permission denied")
	})

	// A copy of member/snap/db has no hash.
	copied := etcdtest.Write(t, db[:len(db)-sha256.Size])
	checkRefused(t, copied, "hash")
	if code, _, stderr := run(t, "audit", "--etcd-snapshot", copied, "--skip-hash-check"); code != exitOK {
		t.Errorf("--skip-hash-check: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := run(t, "audit", "--etcd-snapshot", copied, "--skip-hash-check", "--prefix", "/other"); code != exitInput || !strings.Contains(stderr, "prefix") {
		t.Errorf("wrong prefix: exit code %d, %s", code, stderr)
	}
}

func TestBadValues(t *testing.T) {
	// A /28 has 14 addresses: bit 13 is the last that fits.
	past := []byte{0x40, 0}
	const (
		service = "/registry/services/specs/default/kubernetes"
		fourGiB = "\xff\xff\xff\xff\x0f"
	)
	for _, c := range []struct {
		name, key string
		value     []byte
		want      string
	}{
		{"invalid CIDR", serviceIPsKey, stored(t, "10.96.0.0/33", nil), "10.96.0.0/33"},
		{"not a CIDR", secondaryKey, stored(t, "nonsense", nil), "nonsense"},
		{"invalid ports", nodePortsKey, stored(t, "32767-30000", nil), "32767-30000"},
		{"ports past the end", nodePortsKey, stored(t, "30000-70000", nil), "30000-70000"},
		{"ports for addresses", serviceIPsKey, stored(t, "30000-32767", nil), "30000-32767"},
		{"addresses for ports", nodePortsKey, stored(t, "10.96.0.0/12", nil), "10.96.0.0/12"},
		{"same family twice", secondaryKey, stored(t, "10.97.0.0/16", nil), "kind"},
		{"bits past the range", serviceIPsKey, stored(t, "10.96.0.0/28", past), "14"},
		{"ports past the range", nodePortsKey, stored(t, "30000-30001", []byte{4}), "2"},
		{"primary not initialised", serviceIPsKey, stored(t, "", nil), "is not stored"},
		{"secondary not initialised", secondaryKey, stored(t, "", nil), "is not stored"},
		{"empty value", nodePortsKey, nil, ""},
		{"garbage", nodePortsKey, []byte("garbage"), ""},
		{"damaged protobuf", nodePortsKey, []byte("k8s\x00\xff\xff\xff\xff\xff\xff"), ""},
		{"raw of 4 GiB", nodePortsKey, []byte("k8s\x00\x12" + fourGiB), ""},
		{"bitmap of 4 GiB", nodePortsKey, []byte("k8s\x00\x12\x08\x1a" + fourGiB + "\x00\x00"), ""},
		{"damaged JSON", nodePortsKey, []byte(`{"kind":"RangeAllocation"`), ""},
		{"other kind", nodePortsKey, []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkLost(t, changed(t, etcdtest.DualStack, "clean.db.gz", map[string][]byte{c.key: c.value}), c.key, c.want)
		})
	}
}

// TestBadOutput asks for a repaired snapshot where none can be written.
func TestBadOutput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "backup.db")
	db := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"))
	there, link, hard := filepath.Join(dir, "there"), filepath.Join(dir, "link"), filepath.Join(dir, "hard")
	for path, content := range map[string][]byte{file: db, there: []byte("precious")} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(file, hard); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadDir(dir)
	for output, want := range map[string]string{
		file:                                 "is the snapshot that is read",
		filepath.Join(dir, ".", "backup.db"): "is the snapshot that is read",
		link:                                 "is the snapshot that is read",
		hard:                                 "is the snapshot that is read",
		there:                                "exists; --force replaces it",
		dir:                                  "exists",
		filepath.Join(dir, "none", "new.db"): "no such file",
		filepath.Join(there, "new.db"):       "not a directory",
		"/proc/new.db":                       "/proc/new.db",
		filepath.Join(dir, strings.Repeat("x", 300)): "name too long",
	} {
		for _, format := range []string{"table", "json"} {
			code, stdout, stderr := run(t, "repair", "--etcd-snapshot", file, "--to-file", output, "-o", format)
			if code != exitInput || stdout != "" || !strings.Contains(stderr, output) || !strings.Contains(stderr, want) {
				t.Errorf("%s: exit code %d, stdout %q, stderr %q", output, code, stdout, stderr)
			}
		}
	}
	if after, _ := os.ReadDir(dir); len(after) != len(before) {
		t.Errorf("left behind: %v", after)
	}
	if b, _ := os.ReadFile(file); !bytes.Equal(b, db) {
		t.Error("the snapshot was changed")
	}
	if b, _ := os.ReadFile(there); string(b) != "precious" {
		t.Error("an existing file was replaced")
	}
	for _, kept := range []string{file, link, hard, dir} {
		if code, _, stderr := run(t, "repair", "--etcd-snapshot", file, "--to-file", kept, "--force"); code != exitInput {
			t.Errorf("%s, forced: exit code %d, stderr %q", kept, code, stderr)
		}
	}
	if code, _, stderr := run(t, "repair", "--etcd-snapshot", file, "--to-file", there, "--force"); code > exitFound {
		t.Errorf("forced: exit code %d, stderr %q", code, stderr)
	}
	if b, _ := os.ReadFile(file); !bytes.Equal(b, db) {
		t.Error("the snapshot was changed")
	}
	readFile(t, there)
}
