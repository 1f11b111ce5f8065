package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// TestTwoFleets has two programs keep the ranges of one tenant, and both repair them. Callers of both write Services,
// some of them later than the passes wait, delete Services, and end before they release or write. No two Services may
// ever have the same port, no port of a Service may be free, and all leaks go.
func TestTwoFleets(t *testing.T) {
	const callers, ports = 12, 48
	each := etcdtest.Cases(25)
	etcd := etcdtest.Start(t, "")
	client := etcd.Client()
	c := &cluster{client: client}
	values := must(rangekeeper.ParsePortRange(fmt.Sprintf("30000-%d", 30000+ports-1)))
	key := c.key("red", "servicenodeports")
	var fleets [2]*Fleet
	for i := range fleets {
		p := newPasses()
		fleets[i] = start(t, Config{Interval: interval, Timeout: time.Minute, Passed: p.add})
		own := must(clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints()}))
		t.Cleanup(func() { own.Close() })
		err := fleets[i].Add(Tenant{
			Name: "red",
			Ranges: []etcdstore.Config{{
				Client: own, Key: key, Range: values, Strategy: rangekeeper.DynamicBandFirst, Grace: interval, Replace: rangekeeper.ReplaceAlways,
				Services: clusterstate.ServiceKeys("/red"),
			}},
			Services: clusterstate.StoredServices(own, "/red", func(string) corev1client.ServiceInterface { panic("all values are readable") }),
		})
		if err != nil {
			t.Fatal(err)
		}
		p.await(t, 1, "red")
	}
	var written, refused, ended atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := range each {
				err := fleets[rand.IntN(len(fleets))].Use("red", key, func(store *etcdstore.Store) error {
					return work(t.Context(), client, store, fmt.Sprintf("s-%d-%d", i, n), &written, &refused, &ended)
				})
				if err != nil && !errors.Is(err, rangekeeper.ErrFull) && !errors.Is(err, etcdstore.ErrUnknown) && !errors.Is(err, etcdstore.ErrDeferred) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d Services written, %d refused, %d callers have ended early", written.Load(), refused.Load(), ended.Load())
	if written.Load() == 0 || refused.Load() == 0 || ended.Load() == 0 {
		t.Error("one of these has not happened")
	}
	var live []string
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		recorded := c.stored(t, "red", "servicenodeports", values)
		live = checkPorts(t, c, key, values)
		if slices.Equal(recorded, live) || t.Failed() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("recorded are %v, and Services have %v", recorded, live)
		}
	}
}

// work writes a Service with a port, and mostly deletes it again.
func work(ctx context.Context, client *clientv3.Client, store *etcdstore.Store, name string, written, refused, ended *atomic.Int64) error {
	a, err := store.AllocateNext(ctx)
	if err != nil {
		return err
	}
	switch rand.IntN(8) {
	case 0: // late
		time.Sleep(rand.N(6 * interval))
	case 1:
		ended.Add(1)
		return nil
	}
	object := serviceKey(name)
	put, err := writeService(ctx, client, name, a)
	if err != nil {
		return err
	}
	if !put.Succeeded {
		refused.Add(1)
		_, err := store.Release(ctx, a.Value, a.Owner())
		return err
	}
	written.Add(1)
	store.Written(a.Value)
	if rand.IntN(16) == 0 {
		return nil // it stays
	}
	time.Sleep(rand.N(interval))
	before := store.Known().Store
	deleted, err := client.Delete(ctx, object)
	if err != nil {
		return err
	}
	if rand.IntN(8) == 0 {
		ended.Add(1)
		return nil
	}
	_, err = store.Release(ctx, a.Value, rangekeeper.Ownership{AsOf: deleted.Header.Revision, Oldest: put.Header.Revision, Store: before})
	return err
}

func serviceKey(name string) string { return clusterstate.ServiceKeys("/red") + "default/" + name }

// writeService writes a Service of the tenant red on the conditions of its port.
func writeService(ctx context.Context, client *clientv3.Client, name string, a etcdstore.Allocation) (*clientv3.TxnResponse, error) {
	service := must(json.Marshal(&corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80, NodePort: int32(a.Value.Port())}},
		},
	}))
	return client.Txn(ctx).If(etcdstore.Conditions(a)...).Then(clientv3.OpPut(serviceKey(name), string(service))).Commit()
}

// checkPorts plays the history of the tenant red, and returns the ports of its Services.
func checkPorts(t *testing.T, c *cluster, key string, values rangekeeper.Range) (live []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	end := etcdtest.Revision(t, c.client)
	owners, recorded := map[string]string{}, map[string]bool{}
	var at int64
	check := func() {
		for port, owner := range owners {
			if !recorded[port] {
				t.Errorf("revision %d: port %s of %s is free", at, port, owner)
			}
		}
	}
	ports := map[string]string{}
	for response := range c.client.Watch(ctx, "/red/", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithCreatedNotify()) {
		if err := response.Err(); err != nil {
			t.Fatal(err)
		}
		for _, event := range response.Events {
			if event.Kv.ModRevision != at {
				check()
				at = event.Kv.ModRevision
			}
			name := string(event.Kv.Key)
			switch {
			case name == key:
				recorded = map[string]bool{}
				for _, port := range valuesIn(event.Kv.Value, values) {
					recorded[port] = true
				}
			case strings.HasPrefix(name, clusterstate.ServiceKeys("/red")):
				delete(owners, ports[name])
				if event.Type == clientv3.EventTypeDelete {
					continue
				}
				var service corev1.Service
				if err := json.Unmarshal(event.Kv.Value, &service); err != nil {
					t.Fatal(err)
				}
				port := fmt.Sprint(service.Spec.Ports[0].NodePort)
				if other := owners[port]; other != "" {
					t.Errorf("revision %d: %s has port %s of %s", at, name, port, other)
				}
				owners[port], ports[name] = name, port
			}
		}
		if response.IsProgressNotify() && response.Header.Revision >= end {
			break
		}
		if err := c.client.RequestProgress(ctx); err != nil {
			t.Fatal(err)
		}
	}
	check()
	for port := range owners {
		live = append(live, port)
	}
	slices.Sort(live)
	return live
}
