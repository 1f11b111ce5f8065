// Package storagetest tests the storage of ranges inside a kube-apiserver, beside the release's own tests of it.
package storagetest

import (
	"errors"
	"net"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/registrytest"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const baseKey = "/ranges/serviceips"

// servers open one stored range as several API servers do, and make it.
func servers(t *testing.T, config *storagebackend.ConfigForResource, n int) (all []*ipallocator.Range) {
	t.Helper()
	_, cidr, _ := net.ParseCIDR("10.0.0.0/24")
	for i := range n {
		r, err := ipallocator.New(cidr, func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
			etcd, err := storage.NewEtcd(allocator.NewAllocationMapWithOffset(max, rangeSpec, offset), baseKey, config)
			if err == nil && i == 0 {
				err = etcd.CreateOrUpdate(&api.RangeAllocation{Range: rangeSpec})
			}
			return etcd, err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Destroy)
		all = append(all, r)
	}
	return all
}

// stored reads the stored range: its value, and how often it was written.
func stored(t *testing.T, config *storagebackend.Config) *mvccpb.KeyValue {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: config.Transport.ServerList})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answer, err := client.Get(t.Context(), path.Join("/", config.Prefix, baseKey))
	if err != nil || len(answer.Kvs) != 1 {
		t.Fatal(answer, err)
	}
	return answer.Kvs[0]
}

// TestConcurrent allocates all addresses of a range through two servers at once, while others look, and releases half of
// them: the operations of many share a write.
func TestConcurrent(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	both := servers(t, config.ForResource(api.Resource("serviceipallocations")), 2)
	var lock sync.Mutex
	var taken []string
	var group sync.WaitGroup
	for i := range 254 {
		r := both[i%2]
		group.Go(func() {
			ip, err := r.AllocateNext()
			if err != nil {
				t.Error(err)
				return
			}
			lock.Lock()
			defer lock.Unlock()
			taken = append(taken, ip.String())
		})
		if i%16 == 0 {
			group.Go(func() { r.ForEach(func(net.IP) {}) })
		}
	}
	group.Wait()
	slices.Sort(taken)
	if distinct := len(slices.Compact(slices.Clone(taken))); distinct != 254 {
		t.Fatalf("%d distinct addresses of %d", distinct, len(taken))
	}
	if _, err := both[0].AllocateNext(); err != ipallocator.ErrFull {
		t.Error(err)
	}
	for i, ip := range taken {
		if i%2 == 0 {
			group.Go(func() {
				// By another server than the one that knows of the allocation, often.
				if err := both[i/2%2].Release(net.ParseIP(ip)); err != nil {
					t.Errorf("release %s: %v", ip, err)
				}
			})
		}
	}
	group.Wait()
	for i, ip := range taken {
		if both[0].Has(net.ParseIP(ip)) != (i%2 == 1) {
			t.Errorf("%s is in use: %v", ip, i%2 == 0)
		}
	}
	writes := stored(t, &config.Config).Version
	t.Logf("%d writes for %d operations", writes, 254+127)
	if writes >= 254+127 {
		t.Errorf("%d writes", writes)
	}
}

var (
	first  = net.IPv4(10, 0, 0, 100)
	second = net.IPv4(10, 0, 0, 101)
)

func allocateBoth(t *testing.T, r ipallocator.Interface) {
	t.Helper()
	for _, ip := range []net.IP{first, second} {
		if err := r.Allocate(ip); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRequest has one request allocate and another one release: nothing is released before the end of the request, and then
// all in one write, each value once.
func TestRequest(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	r := servers(t, config.ForResource(api.Resource("serviceipallocations")), 1)[0]
	creating, _ := r.ForRequest()
	allocateBoth(t, creating)
	written := stored(t, &config.Config)

	deleting, request := r.ForRequest()
	for _, ip := range []net.IP{first, second, first} {
		if err := deleting.Release(ip); err != nil {
			t.Fatal(err)
		}
	}
	if !r.Has(first) || !r.Has(second) {
		t.Fatal("released before the end of the request")
	}
	owner := allocator.Owner{Ownership: rangekeeper.OwnedSince(written.ModRevision)}
	if err := request.Commit(owner); err != nil {
		t.Fatal(err)
	}
	if r.Has(first) || r.Has(second) {
		t.Error("not released")
	}
	if writes := stored(t, &config.Config).Version - written.Version; writes != 1 {
		t.Errorf("%d writes for one deletion", writes)
	}

	// Another Service gets an address. The same deletion once more, as by the second of two clients, keeps it.
	if err := r.Allocate(first); err != nil {
		t.Fatal(err)
	}
	again, request := r.ForRequest()
	if err := errors.Join(again.Release(first), request.Commit(owner)); err != nil {
		t.Fatal(err)
	}
	if !r.Has(first) {
		t.Error("an address of another Service was released")
	}
}

// TestDryRun tries allocations on a copy of what another server has stored: they end as real ones would, and store nothing.
func TestDryRun(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	both := servers(t, config.ForResource(api.Resource("serviceipallocations")), 2)
	allocateBoth(t, both[0])
	before := stored(t, &config.Config)
	dry := both[1].DryRun()
	if err := dry.Allocate(first); err != ipallocator.ErrAllocated {
		t.Error(err)
	}
	for range both[1].Free() {
		if ip, err := dry.AllocateNext(); err != nil || ip.Equal(first) || ip.Equal(second) {
			t.Fatal(ip, err)
		}
	}
	if _, err := dry.AllocateNext(); err != ipallocator.ErrFull {
		t.Error(err)
	}
	if err := errors.Join(dry.Release(first), dry.Allocate(first)); err != nil {
		t.Error(err)
	}
	if after := stored(t, &config.Config); after.ModRevision != before.ModRevision {
		t.Error("a dry run was stored")
	}
}

// TestUndo has requests give back what they allocated, and nothing that is somebody else's by then.
func TestUndo(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	r := servers(t, config.ForResource(api.Resource("serviceipallocations")), 1)[0]
	own, request := r.ForRequest()
	allocateBoth(t, own)
	if until := request.UseUntil(); time.Until(until) < time.Minute || time.Until(until) > etcdstore.DefaultGrace {
		t.Errorf("to be used until %s", until)
	}
	// A repair finds the first address leaked, and another Service gets it.
	if err := errors.Join(r.Release(first), r.Allocate(first)); err != nil {
		t.Fatal(err)
	}
	if err := request.Undo(); err != nil {
		t.Fatal(err)
	}
	if !r.Has(first) || r.Has(second) {
		t.Errorf("the address of another Service is in use: %v; the own one: %v", r.Has(first), r.Has(second))
	}
}
