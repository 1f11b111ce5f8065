package fleet

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// TestReleaseAfterUnseenRestore restores etcd while the range is closed, and lets it reach the old revision: no
// committer notices that. A Service that was deleted is there again, or another Service has the port of an allocation
// that was lost. A release on behalf of the owner of before must not free its port.
func TestReleaseAfterUnseenRestore(t *testing.T) {
	for _, what := range []string{"deletion", "rollback"} {
		t.Run(what, func(t *testing.T) {
			etcd := etcdtest.StartCluster(t, 1)
			c := &cluster{client: etcd.Client()}
			key, values, port := c.key("red", "servicenodeports"), must(rangekeeper.ParsePortRange("30000-30063")), rangekeeper.PortValue(30040)
			red := Tenant{
				Name: "red",
				Ranges: []etcdstore.Config{{
					Client: c.client, Key: key, Range: values, Strategy: rangekeeper.DynamicBandFirst, Grace: interval,
					Services: clusterstate.ServiceKeys("/red"),
				}},
				Services: clusterstate.StoredServices(c.client, "/red", func(string) corev1client.ServiceInterface { panic("all values are readable") }),
			}
			write := func(store *etcdstore.Store, name string) (revision int64) {
				t.Helper()
				a := must(store.Allocate(t.Context(), port))
				put := must(writeService(t.Context(), c.client, name, a))
				if !put.Succeeded {
					t.Fatal("the Service was refused")
				}
				store.Written(port)
				return put.Header.Revision
			}
			p := newPasses()
			f, stop := startUntil(t, Config{Interval: interval, Timeout: time.Minute, Passed: p.add})
			if err := f.Add(red); err != nil {
				t.Fatal(err)
			}
			p.await(t, 1, "red")
			use := func(work func(*etcdstore.Store) error) {
				t.Helper()
				if err := f.Use("red", key, work); err != nil {
					t.Fatal(err)
				}
			}
			// closed ends the passes once nothing is open.
			closed := func() {
				t.Helper()
				for deadline := time.Now().Add(patience); f.opened() > 0; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("the range stays open")
					}
				}
				stop()
				if f.opened() > 0 {
					t.Fatal("a pass that was ended has left the range open")
				}
			}
			var backup string
			var owner rangekeeper.Ownership
			// isDeferred checks that a release frees nothing, though the port is recorded.
			isDeferred := func() {
				t.Helper()
				use(func(store *etcdstore.Store) error {
					if released, err := store.Release(t.Context(), port, owner); released || !errors.Is(err, etcdstore.ErrDeferred) {
						t.Errorf("released: %v, %v", released, err)
					}
					return nil
				})
				if !slices.Contains(c.stored(t, "red", "servicenodeports", values), port.String()) {
					t.Errorf("the port of a Service is free")
				}
			}
			if what == "rollback" {
				backup = etcd.CopyData(0)
				etcdtest.Fill(t, c.client, etcdtest.Revision(t, c.client)+20)
				use(func(store *etcdstore.Store) error {
					owner = must(store.Allocate(t.Context(), port)).Owner()
					return nil
				})
				closed()
				etcd.PutBack(0, backup)
				other := must(etcdstore.Open(red.Ranges[0]))
				write(other, "other")
				if err := other.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				etcdtest.Fill(t, c.client, owner.AsOf+20)
				isDeferred()
				return
			}
			use(func(store *etcdstore.Store) error {
				owner.Oldest = write(store, "s")
				return nil
			})
			backup = etcd.CopyData(0)
			use(func(store *etcdstore.Store) error {
				owner.Store = store.Known().Store
				owner.AsOf = must(c.client.Delete(t.Context(), serviceKey("s"))).Header.Revision
				return nil
			})
			closed()
			etcd.PutBack(0, backup)
			etcdtest.Fill(t, c.client, owner.AsOf+20)
			isDeferred()
		})
	}
}
