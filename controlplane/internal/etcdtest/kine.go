package etcdtest

import (
	"errors"
	"io/fs"
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
	t        testing.TB
}

// StartKine runs kine until the test ends. testing/kine.sh builds it; without it the test is skipped.
func StartKine(t testing.TB) *Kine {
	t.Helper()
	if _, err := os.Stat(kineProgram); err != nil {
		t.Skip("kine is not built:", err)
	}
	dir := t.TempDir()
	k := &Kine{Endpoint: "unix://" + filepath.Join(dir, "kine.sock"), Database: filepath.Join(dir, "state.db"), t: t}
	k.start()
	t.Cleanup(func() { k.Kill() })
	return k
}

var kineProgram = project.Path("bin", "kine")

func (k *Kine) start() {
	k.t.Helper()
	process, err := child.Start(exec.Command(kineProgram, "--listen-address", k.Endpoint, "--endpoint",
		"sqlite://"+k.Database+"?_journal_mode=WAL&_busy_timeout=30000&_txlock=immediate", "--metrics-bind-address=0"))
	if err != nil {
		k.t.Fatal(err)
	}
	k.Process = process
}

// Save copies the database, for which kine stops and starts again, and returns where the copy is.
func (k *Kine) Save() (backup string) {
	k.t.Helper()
	backup = filepath.Join(k.t.TempDir(), "backup.db")
	k.replace(backup, k.Database)
	return backup
}

// Restore has kine go on with a copy of the database.
func (k *Kine) Restore(backup string) {
	k.t.Helper()
	k.replace(k.Database, backup)
}

// replace replaces a database by a copy of another one, while kine is stopped. The newest writes are in its log.
func (k *Kine) replace(database, by string) {
	k.t.Helper()
	k.Kill()
	<-k.Ended()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err := os.Remove(database + suffix)
		var content []byte
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			content, err = os.ReadFile(by + suffix)
		}
		if err == nil {
			err = os.WriteFile(database+suffix, content, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.t.Fatal(err)
		}
	}
	k.start()
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
