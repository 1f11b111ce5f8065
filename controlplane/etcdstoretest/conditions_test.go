package etcdstoretest_test

import (
	"context"
	"errors"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// TestConditions writes a Service with the conditions of its value, after something has happened to the range.
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		name  string
		event func(ctx context.Context, s *server)
		holds bool
	}{
		{"nothing", func(context.Context, *server) {}, true},
		{"other allocations and releases", func(ctx context.Context, s *server) {
			one := must(s.AllocateNext(ctx))
			must(s.AllocateNext(ctx))
			must(s.Release(ctx, one.Value, one.Owner()))
		}, true},
		{"a fence", func(ctx context.Context, s *server) {
			must(s.client.Do(ctx, clientv3.OpDelete(etcdstore.WitnessKey(faultKey))))
		}, false},
		{"the key was deleted, and created by a store", func(ctx context.Context, s *server) {
			must(s.client.Delete(ctx, faultKey))
			must(openRange(t, s.client, s.Range()).Init(ctx))
		}, false},
		{"the key was deleted, and a pass has begun to recreate it", func(ctx context.Context, s *server) {
			must(s.client.Delete(ctx, faultKey))
			passes := must(rangekeeper.NewLeakTracker(3, time.Minute))
			defer passes.Close()
			pass := must(passes.Start())
			defer pass.Close()
			if _, needsFence, err := s.ReadForPass(ctx, pass); err != nil || !needsFence {
				t.Fatal(needsFence, err)
			}
			must(s.Fence(ctx, pass, nil))
		}, false},
		{"a fence, and another allocation", func(ctx context.Context, s *server) {
			must(s.client.Do(ctx, clientv3.OpDelete(etcdstore.WitnessKey(faultKey))))
			must(s.AllocateNext(ctx))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			client := etcdtest.StartCluster(t, 1).Client()
			s := startServer(t, client)
			must(client.Do(ctx, clientv3.OpDelete(etcdstore.WitnessKey(faultKey)))) // an earlier one
			mine := must(s.AllocateNext(ctx))
			c.event(ctx, s)
			if written := writeService(ctx, client, mine); written != c.holds {
				t.Errorf("written: %v, want %v", written, c.holds)
			}
		})
	}
}

// writeService writes a Service with a value, and returns whether the value is certainly its own.
func writeService(ctx context.Context, client *clientv3.Client, a etcdstore.Allocation) bool {
	const key = "/registry/services/specs/default/web"
	return must(client.Txn(ctx).If(etcdstore.Conditions(a)...).Then(clientv3.OpPut(key, a.Value.String())).Commit()).Succeeded
}

// TestConditionsOfManyValues writes a Service with more values than a transaction of etcd may have conditions.
func TestConditionsOfManyValues(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := etcdtest.StartCluster(t, 1).Client()
	store := openRange(t, client, must(rangekeeper.ParsePortRange("30000-30999")))
	must(store.Init(ctx))
	var all []etcdstore.Allocation
	for range 3 {
		requests := make([]rangekeeper.Request, 100)
		for i := range requests {
			requests[i] = rangekeeper.Any()
		}
		all = append(all, must(store.AllocateBatch(ctx, requests...))...)
	}
	write := func() bool {
		return must(client.Txn(ctx).If(etcdstore.Conditions(all...)...).Then(clientv3.OpPut("/service", "")).Commit()).Succeeded
	}
	if !write() {
		t.Error("the values are allocated")
	}
	// A fence between the allocations concerns the first of them only.
	must(client.Do(ctx, clientv3.OpDelete(etcdstore.WitnessKey(faultKey))))
	all = append(all, must(store.AllocateNext(ctx)))
	if write() {
		t.Error("a pass may have cleaned the first values")
	}
	all = all[300:]
	if !write() {
		t.Error("the last value was allocated after the fence")
	}
}

func usedIn(view rangekeeper.View) int { return bitCount(new(big.Int).SetBytes(view.Snapshot)) }

// TestLivelyAfterRestore restores etcd under a server that has handed out all values. Those whose Services were
// written, and are lost with the old state, are free at once, and a value that is given up after that is free at once,
// too. Only the value whose Service may yet be written is recorded again, and its Service is refused.
func TestLivelyAfterRestore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cluster := etcdtest.StartCluster(t, 1)
	client := cluster.Client()
	var noticed atomic.Int64
	store := must(etcdstore.Open(etcdstore.Config{
		Client: client, Key: faultKey, Range: must(rangekeeper.ParsePortRange(ports)), Strategy: rangekeeper.DynamicBandFirst,
		Restored: func() { noticed.Add(1) },
	}))
	defer store.Close(context.Background())
	must(store.Init(ctx))
	kept := must(store.AllocateNext(ctx))
	store.Written(kept.Value)
	backup := etcdtest.Save(t, client)
	for range values - 2 {
		store.Written(must(store.AllocateNext(ctx)).Value)
	}
	creating := must(store.AllocateNext(ctx))
	before := store.Known()
	if before.Used != values || before.Restores != 0 || store.Stats().Restores != 0 {
		t.Fatalf("%+v", before)
	}
	cluster.Restore(backup, etcdtest.Restoration{}, func() {})

	used := usedIn(must(store.Read(ctx)))
	for used == 1 { // the value of the Service that is being created is recorded by a write of its own
		used = usedIn(must(store.Read(ctx)))
	}
	after := store.Known()
	if used != 2 || after.Restores != 1 || after.Store == before.Store || store.Stats().Restores != 1 || noticed.Load() != 1 {
		t.Errorf("%d values are in use, %+v, noticed %d times", used, after, noticed.Load())
	}
	if writeService(ctx, client, creating) {
		t.Error("a Service was written with a value that was allocated before the restore")
	}
	gaveUp := header(t, client).Revision
	if gaveUp >= creating.Revision {
		t.Fatalf("the restored etcd has revision %d: that of the old one would count, too", gaveUp)
	}
	owner := rangekeeper.Ownership{AsOf: gaveUp, Oldest: kept.Revision, Store: after.Store}
	if freed, err := store.Release(ctx, kept.Value, owner); err != nil || !freed {
		t.Errorf("release after the restore: %v, %v", freed, err)
	}
	if _, err := store.Allocate(ctx, kept.Value); err != nil {
		t.Error(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestFenceThatIsNotConfirmed writes a fence that etcd refuses, and one that it does not answer.
func TestFenceThatIsNotConfirmed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cluster := etcdtest.StartCluster(t, 1)
	client := cluster.Client()
	store := openRange(t, client, must(rangekeeper.ParsePortRange(ports)))
	must(store.Init(ctx))
	passes := must(rangekeeper.NewLeakTracker(3, time.Minute))
	defer passes.Close()
	pass := must(passes.Start())
	defer pass.Close()
	if _, _, err := store.ReadForPass(ctx, pass); err != nil {
		t.Fatal(err)
	}
	must(client.UserAddWithOptions(ctx, "root", "", &clientv3.UserAddOptions{NoPassword: true}))
	must(client.UserGrantRole(ctx, "root", "root"))
	must(client.AuthEnable(ctx))
	if _, err := store.Fence(ctx, pass, nil); !errors.Is(err, rangekeeper.ErrRefused) {
		t.Errorf("without a user: %v", err)
	}
	cluster.Kill(0)
	if _, err := store.Fence(ctx, pass, nil); !errors.Is(err, etcdstore.ErrUnknown) {
		t.Errorf("without etcd: %v", err)
	}
}
