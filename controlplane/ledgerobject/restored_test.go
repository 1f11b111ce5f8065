package ledgerobject

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

func TestMain(m *testing.M) { etcdtest.Main(m, nil) }

// TestRestoredEtcd restores etcd from a backup, and starts the API server again, under a program that has written
// since. Another program then writes the object, which gets the same resource version as that write. The first program
// knows another history, and does not replace what the second one was given.
func TestRestoredEtcd(t *testing.T) {
	etcd := etcdtest.StartCluster(t, 1)
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), Flags: []string{"--etcd-compaction-interval=0"},
	})
	server.Initialise()
	client := etcd.Client()
	objects, typed := clients(t, server)
	open := func() *ledgerstore.Ledger {
		ledger, err := ledgerstore.New(ConfigMap(objects, "default", "vnis", "ledger"), vnis)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ledger.Close() })
		return ledger
	}
	allocate := func(ledger *ledgerstore.Ledger, owner string) uint64 {
		t.Helper()
		got, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner)
		if err != nil { // what became of the write is unknown, and the owner asks again
			t.Logf("%s: %v", owner, err)
			got, err = ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner)
		}
		if err != nil {
			t.Fatal(err)
		}
		return got.First.Integer()
	}
	// written returns the resource version of the object.
	written := func() string {
		t.Helper()
		object, err := typed.CoreV1().ConfigMaps("default").Get(t.Context(), "vnis", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return object.ResourceVersion
	}
	outlives := open()
	allocate(outlives, "before")
	backup := etcd.CopyData(0)
	// A server writes when it starts.
	revision := etcdtest.Revision(t, client) + 500
	etcdtest.Fill(t, client, revision)
	if lost := allocate(outlives, "lost"); lost != 4097 {
		t.Fatal(lost)
	}
	lost := written()
	for same := false; !same; same = written() == lost { // unless the server has written in between
		server.Kill()
		etcd.PutBack(0, backup)
		server.Restart()
		etcdtest.Fill(t, client, revision)
		if other := allocate(open(), "other"); other != 4097 {
			t.Fatal(other)
		}
	}
	if late := allocate(outlives, "late"); late != 4098 {
		t.Errorf("%d is allocated, and not the next value", late)
	}
	known, err := open().Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	for i, want := range []string{"before", "other", "late"} {
		if owner, _, err := known.OwnerOf(rangekeeper.IntegerValue(4096 + uint64(i))); owner != want || err != nil {
			t.Errorf("the value %d of %s is that of %q, %v", 4096+i, want, owner, err)
		}
	}
}
