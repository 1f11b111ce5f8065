package etcdtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/child"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/project"
)

// Kine is a process of kine over a database of SQLite.
type Kine struct {
	*child.Process
	// Endpoint is its socket, which may not answer yet.
	Endpoint string
	// Database is the file of the database.
	Database string
}

// StartKine runs kine until the test ends. testing/kine.sh builds it; without it the test is skipped.
func StartKine(t testing.TB) Kine {
	t.Helper()
	program := project.Path("bin", "kine")
	if _, err := os.Stat(program); err != nil {
		t.Skip("kine is not built:", err)
	}
	dir := t.TempDir()
	endpoint, database := "unix://"+filepath.Join(dir, "kine.sock"), filepath.Join(dir, "state.db")
	process, err := child.Start(exec.Command(program, "--listen-address", endpoint, "--endpoint",
		"sqlite://"+database+"?_journal_mode=WAL&_busy_timeout=30000&_txlock=immediate", "--metrics-bind-address=0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	return Kine{process, endpoint, database}
}

// Swap writes a key that is there as a kube-apiserver does: kine takes nothing else.
func Swap(t testing.TB, client *clientv3.Client, key string, write func(value string) clientv3.Op) {
	t.Helper()
	object, err := client.Get(t.Context(), key)
	if err != nil || len(object.Kvs) != 1 {
		t.Fatal(object, err)
	}
	changed, err := client.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", object.Kvs[0].ModRevision)).
		Then(write(string(object.Kvs[0].Value))).Else(clientv3.OpGet(key)).Commit()
	if err != nil || !changed.Succeeded {
		t.Fatal(changed, err)
	}
}
