package cli

import (
	"bytes"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore/ledgerstoretest"
)

// writeKine is the variable with which TestKine writes kineFixture, the database that it has made.
const writeKine = "RANGEKEEPER_WRITE_KINE_FIXTURE"

var kineFixture = etcdtest.Fixture("kine", "state.db.gz")

// checkKine checks the audit of the cluster that TestKine damages.
func checkKine(t *testing.T, report audit.Report) {
	t.Helper()
	var got []string
	for _, f := range report.Findings {
		got = append(got, strings.Join([]string{f.Reason, f.Value, f.Namespace + "/" + f.Name}, " "))
	}
	for _, l := range report.Leaks {
		got = append(got, "leak "+l.Value)
	}
	slices.Sort(got)
	want := []string{"ClusterIPNotAllocated 10.0.0.10 default/web", "PortNotAllocated 30080 default/web", "leak 30099"}
	if !slices.Equal(got, want) || report.Summary.Services != 3 {
		t.Errorf("%d Services, got %q, want %q", report.Summary.Services, got, want)
	}
}

// TestSQLite reads a database that kine wrote, in a directory where nothing can be written.
func TestSQLite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state.db")
	content := etcdtest.Gunzip(t, kineFixture)
	if err := os.WriteFile(file, content, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	checkKine(t, runJSON[audit.Report](t, exitFound, "audit", "--sqlite", file))
	if code, stdout, stderr := run(t, "explain", "30080", "--sqlite", file); code != exitFound || !strings.Contains(stdout, "default/web") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if got := runOK(t, "show", "servicenodeports", "--sqlite", file); !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "30099") }) {
		t.Errorf("%q", got)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if after, err := os.ReadFile(file); err != nil || !slices.Equal(after, content) {
		t.Error("the database was changed", err)
	}

	snapshot := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	for _, c := range []struct{ file, want string }{
		{filepath.Join(dir, "none.db"), "no such file"}, {dir, "not a regular file"},
		{snapshot, "not a database"}, {etcdtest.Write(t, content[:len(content)/2]), "malformed"}, {etcdtest.Write(t, nil), "is not a database of kine: it has no table kine"},
	} {
		runFails(t, exitInput, []string{c.file, c.want}, "audit", "--sqlite", c.file)
	}
	// Each row can still be read.
	damaged, root, pageSize := slices.Clone(content), 0, 0
	if err := openSQLite(t, file).QueryRow("SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = 'kine_prev_revision_index'").Scan(&root, &pageSize); err != nil {
		t.Fatal(err)
	}
	clear(damaged[(root-1)*pageSize : root*pageSize])
	runFails(t, exitInput, []string{"damaged: ", "take both from one copy"}, "audit", "--sqlite", etcdtest.Write(t, damaged))
	runFails(t, exitInput, []string{"exclude each other"}, "audit", "--sqlite", file, "--etcd-snapshot", snapshot)
	runFails(t, exitInput, []string{"is stored below /kubernetes.io; --prefix names another"}, "audit", "--sqlite", file, "--prefix", "kubernetes.io")
	runFails(t, exitInput, []string{"no flag --sqlite"}, "repair", "--sqlite", file)
}

// TestSQLiteLog reads a database with a log where SQLite cannot create the log's index.
func TestSQLiteLog(t *testing.T) {
	written := etcdtest.Write(t, etcdtest.Gunzip(t, kineFixture))
	db := openSQLite(t, written)
	for _, statement := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "DELETE FROM kine WHERE name = '/registry/services/specs/default/web'",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(statement, err)
		}
	}
	file := filepath.Join(t.TempDir(), "state.db")
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(written + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+suffix, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(t.TempDir(), "none", "index"), file+"-shm"); err != nil {
		t.Fatal(err)
	}
	// A copy elsewhere would have all Secrets, and stay if the command is killed.
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if report := runJSON[audit.Report](t, exitFound, "audit", "--sqlite", file); report.Summary.Services != 2 {
		t.Errorf("%d Services", report.Summary.Services)
	}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if want := []string{file, file + "-shm", file + "-wal"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v, want %q", names, err, want)
	}
	for _, suffix := range []string{"", "-wal"} {
		before, err := os.ReadFile(written + suffix)
		after, err2 := os.ReadFile(file + suffix)
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(before, after) {
			t.Errorf("state.db%s has changed: %v", suffix, err)
		}
	}
}

// openSQLite opens a database with one connection.
func openSQLite(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

// TestKine runs a stock kube-apiserver on kine, damages the cluster, and reads it at kine's socket and in kine's
// database, which must agree. kine refuses all that the command would write.
func TestKine(t *testing.T) {
	kine := etcdtest.StartKine(t)
	endpoint, database := kine.Endpoint, kine.Database
	client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: []string{endpoint}, DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: []string{endpoint}, ServiceClusterIPRange: "10.0.0.0/24", OwnLoops: true,
	})
	api := clientOf(t, server)
	services, ctx := api.CoreV1().Services("default"), t.Context()
	for name, spec := range map[string]corev1.ServiceSpec{
		"web":  {Type: corev1.ServiceTypeNodePort, ClusterIP: "10.0.0.10", Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
		"api":  {ClusterIP: "10.0.0.11", Ports: []corev1.ServicePort{{Port: 80}}},
		"gone": {ClusterIP: "10.0.0.12", Ports: []corev1.ServicePort{{Port: 80}}},
	} {
		eventually(t, func() error { // a server that has just started cannot allocate yet
			_, err := services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
			return err
		})
	}
	if err := services.Delete(ctx, "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitLoops(t, api)
	server.Kill()
	remove := func(key string) {
		t.Helper()
		etcdtest.Swap(t, client, key, func(string) clientv3.Op { return clientv3.OpDelete(key) })
	}
	// The lease of the server may not run out while database and socket are compared. An audit takes one that lives
	// longer than this for one that never ends.
	const lease = leaseKey + apiservertest.DefaultAdvertiseAddress
	granted, err := client.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	etcdtest.Swap(t, client, lease, func(value string) clientv3.Op { return clientv3.OpPut(lease, value, clientv3.WithLease(granted.ID)) })
	if err := toggle(ctx, client, nodePortsKey, 30080); err != nil {
		t.Fatal(err)
	}
	if err := toggle(ctx, client, nodePortsKey, 30099); err != nil {
		t.Fatal(err)
	}
	remove("/registry/ipaddresses/10.0.0.10")

	overSocket := runJSON[audit.Report](t, exitFound, "audit", "--endpoints", endpoint)
	live := runJSON[audit.Report](t, exitFound, "audit", "--sqlite", database)
	checkKine(t, live)
	if live.Source.Name != database || overSocket.Source.Name != endpoint || live.Source.Cluster.UID != overSocket.Source.Cluster.UID {
		t.Errorf("from %+v and %+v", live.Source, overSocket.Source)
	}
	live.Source, overSocket.Source = nil, nil
	if !reflect.DeepEqual(live, overSocket) {
		t.Errorf("got %+v, over the socket %+v", live, overSocket)
	}
	online, err := clusterstate.ReadEtcd(ctx, client, clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := clusterstate.ReadSQLite(ctx, database, clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(file, online) {
		t.Errorf("database and socket differ:\n%+v\n%+v", file, online)
	}
	remove(lease) // nothing is to change by itself from now on
	if online, err = clusterstate.ReadEtcd(ctx, client, clusterstate.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"repair", "--apply"}, {"allocate", "servicenodeports"}, {"release", "servicenodeports", "30099"}} {
		runFails(t, exitInput, []string{endpoint, "unsupported operations in txn request", "kine", "nothing of it was written"}, append(args, "--endpoints", endpoint)...)
	}
	plan := filepath.Join(t.TempDir(), "plan.json")
	runFails(t, exitInput, []string{endpoint, "kine", "no plan"}, "repair", "--plan-to", plan, "--endpoints", endpoint)
	if _, err := os.Stat(plan); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a plan that kine refuses was written", err)
	}
	if got := runOK(t, "init", "servicenodeports", "30000-32767", "--endpoints", endpoint); !slices.Equal(got, []string{"servicenodeports 30000-32767 unchanged"}) {
		t.Errorf("%q", got)
	}
	runFails(t, exitInput, []string{"30000-32767", "30000-30099"}, "init", "servicenodeports", "30000-30099", "--endpoints", endpoint)
	for _, args := range [][]string{{"audit"}, {"repair"}, {"preflight", "--to", "1.37"}} {
		_, shown, _ := run(t, append(args, "--endpoints", endpoint)...)
		words := strings.Join(strings.Fields(strings.NewReplacer("\\\n", "", "\n  # ", " ").Replace(shown)), " ")
		if args[0] != "preflight" && !strings.Contains(words, "; kine refuses all other repairs") || strings.Contains(words, "rangekeeper repair") {
			t.Errorf("%v:\n%s", args, shown)
		}
	}
	if after, err := clusterstate.ReadEtcd(ctx, client, clusterstate.Options{}); err != nil || !reflect.DeepEqual(after, online) {
		t.Error("something was written", err)
	}

	addresses, err := rangekeeper.ParseCIDR("10.0.0.0/24")
	if err != nil {
		t.Fatal(err)
	}
	store, err := etcdstore.Open(etcdstore.Config{Client: client, Key: "/registry/ranges/serviceips", Range: addresses})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(ctx)
	if _, err := store.Init(ctx); !errors.Is(err, rangekeeper.ErrRefused) || strings.Count(err.Error(), "the store is kine") != 1 {
		t.Error(err)
	}

	// kine keeps ledgers, too.
	ledgerstoretest.Check(t, func(name string) ledgerstore.Store {
		return etcdstore.LedgerKey{Client: client, Key: "/ledgers/" + name}
	})

	client.Close()
	if err := kine.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-kine.Ended()
	checkKine(t, runJSON[audit.Report](t, exitFound, "audit", "--sqlite", database))
	if os.Getenv(writeKine) != "" {
		content, err := os.ReadFile(database)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kineFixture, etcdtest.Gzip(t, content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
