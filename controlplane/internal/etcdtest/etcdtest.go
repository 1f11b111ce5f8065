// Package etcdtest has the shared tools of tests: the fixtures, a real
// etcd in the process or as a cluster of processes, and processes that can be killed.
package etcdtest

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/project"
	"github.com/rangekeeper/rangekeeper/controlplane/releases"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// The fixture clusters that most tests use, see [FixtureClusters].
const (
	DualStack   = "kube-1.32-dual-stack"
	SingleStack = "kube-1.36-single-stack"
	// DualWrite has ClusterIPs in bitmaps, which its server writes and does not repair, and in IPAddress objects.
	DualWrite = "kube-1.33-dual-stack"
)

// FixtureCluster is a cluster in testing/testdata/ that a stock kube-apiserver has written and, after damage, repaired.
type FixtureCluster struct {
	// Name is that of its folder.
	Name string
	// Release is the release of the kube-apiserver, ClusterIPRange its flag.
	Release, ClusterIPRange string
	// Bitmaps are the ranges that it repairs.
	Bitmaps []string
}

// FixtureClusters are all of them; internal/tools/fixtures makes those of a new release.
var FixtureClusters = []FixtureCluster{
	{DualStack, releases.Of("1.32"), "10.96.0.0/12,fd00:10:96::/108", []string{"serviceips", "secondaryserviceips", "servicenodeports"}},
	{DualWrite, releases.Of("1.33"), "10.96.0.0/16,fd00:10:96::/112", []string{"servicenodeports"}},
	{"kube-1.34-single-stack", releases.Of("1.34"), "10.34.0.0/20", []string{"servicenodeports"}},
	{"kube-1.35-dual-stack", releases.Of("1.35"), "fd00:10:35::/112,10.35.0.0/16", []string{"servicenodeports"}},
	{SingleStack, releases.Of("1.36"), "10.0.0.0/16", []string{"servicenodeports"}},
	{"kube-1.37-dual-stack", releases.Of("1.37"), "10.37.0.0/16,fd00:10:37::/112", []string{"servicenodeports"}},
}

// Fixture is the path of a fixture's file.
func Fixture(cluster, name string) string {
	return project.Path("testing", "testdata", cluster, name)
}

// Gunzip is the uncompressed content of a file.
func Gunzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Gzip compresses b.
func Gzip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Write puts b into a new file.
func Write(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Start runs an etcd until the test ends, restored from a snapshot file unless
// that is empty.
func Start(t testing.TB, snapshot string) *embedded.Etcd {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etcd")
	if snapshot != "" {
		if err := embedded.Restore(t.Context(), snapshot, dir, snapshotfile.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// Save writes a snapshot of a running etcd, as `etcdctl snapshot save` does.
func Save(t testing.TB, client *clientv3.Client) string {
	t.Helper()
	r, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return Write(t, b)
}

// AddUser adds a user of etcd who may do this with the keys that have one of the prefixes.
func AddUser(t testing.TB, client *clientv3.Client, user, password string, permission clientv3.PermissionType, prefixes ...string) {
	t.Helper()
	ctx := t.Context()
	_, err := client.UserAdd(ctx, user, password)
	if err == nil {
		_, err = client.RoleAdd(ctx, user)
	}
	for _, prefix := range prefixes {
		if err == nil {
			_, err = client.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix), permission)
		}
	}
	if err == nil {
		_, err = client.UserGrantRole(ctx, user, user)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// EnableAuth has an etcd ask for users from now on; root has this password.
func EnableAuth(t testing.TB, client *clientv3.Client, password string) {
	t.Helper()
	ctx := t.Context()
	_, err := client.UserAdd(ctx, "root", password)
	if err == nil {
		_, err = client.UserGrantRole(ctx, "root", "root")
	}
	if err == nil {
		_, err = client.AuthEnable(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}
