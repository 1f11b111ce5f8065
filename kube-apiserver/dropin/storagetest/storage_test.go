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

// servers creates a stored range and opens it like n API servers.
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

// stored returns the stored range.
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

// TestConcurrent allocates all addresses of a range through two servers concurrently, with readers beside them, and
// releases half of the addresses. Concurrent operations must share writes.
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
				// Often by the server that did not allocate the address.
				if err := both[i/2%2].Release(net.ParseIP(ip)); err != nil {
					t.Errorf("release %s: %v", ip, err)
				}
			})
		}
	}
	group.Wait()
	for i, ip := range taken {
		if both[0].Has(net.ParseIP(ip)) != (i%2 == 1) {
			t.Errorf("%s is in use: %v, want %v", ip, i%2 == 0, i%2 == 1)
		}
	}
	writes := stored(t, &config.Config).Version
	t.Logf("%d writes for %d operations", writes, 254+127)
	if writes >= 254+127 {
		t.Errorf("%d writes, want fewer than operations", writes)
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

// TestRequest allocates in one request and releases in another. A request releases nothing before its end, and then all
// values in one write, each of them once.
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

	// Another Service gets an address. A second release by the same owner, as after a second deletion, must not release
	// it.
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

// TestAllocatedAndReleased gives up an address and allocates it in one request, as a Service does that is given the
// value which the range had lost. It must keep the address.
func TestAllocatedAndReleased(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	r := servers(t, config.ForResource(api.Resource("serviceipallocations")), 1)[0]
	allocateBoth(t, r)
	own, request := r.ForRequest()
	lost := net.IPv4(10, 0, 0, 102)
	if err := errors.Join(own.Release(first), own.Release(lost), own.Allocate(lost)); err != nil {
		t.Fatal(err)
	}
	if err := request.Commit(allocator.Owner{Ownership: rangekeeper.OwnedSince(stored(t, &config.Config).ModRevision)}); err != nil {
		t.Fatal(err)
	}
	if r.Has(first) || !r.Has(lost) {
		t.Errorf("released address in use: %v, allocated address in use: %v", r.Has(first), r.Has(lost))
	}
}

// TestDryRun allocates in a dry run after another server has allocated. The results must be those of real allocations,
// and nothing may be stored.
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

// TestUndo undoes a request. It must release the values that the request allocated, but none that has another owner by
// then.
func TestUndo(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	r := servers(t, config.ForResource(api.Resource("serviceipallocations")), 1)[0]
	own, request := r.ForRequest()
	allocateBoth(t, own)
	if until := request.UseUntil(); time.Until(until) < time.Minute || time.Until(until) > etcdstore.DefaultGrace {
		t.Errorf("the Service must be written by %s", until)
	}
	// A repair releases the first address, and another Service gets it.
	if err := errors.Join(r.Release(first), r.Allocate(first)); err != nil {
		t.Fatal(err)
	}
	if err := request.Undo(); err != nil {
		t.Fatal(err)
	}
	if !r.Has(first) || r.Has(second) {
		t.Errorf("address of another Service in use: %v, address of the request in use: %v", r.Has(first), r.Has(second))
	}
}

// TestUseUntil allocates two addresses in one request. The Service must be written in the time of the first one.
func TestUseUntil(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	r := servers(t, config.ForResource(api.Resource("serviceipallocations")), 1)[0]
	own, request := r.ForRequest()
	if until := request.UseUntil(); !until.IsZero() {
		t.Errorf("before any allocation the Service must be written by %s", until)
	}
	if err := own.Allocate(first); err != nil {
		t.Fatal(err)
	}
	earliest := request.UseUntil()
	if _, err := own.AllocateNext(); err != nil {
		t.Fatal(err)
	}
	if until := request.UseUntil(); !until.Equal(earliest) {
		t.Errorf("after another allocation the Service must be written by %s, want %s", until, earliest)
	}
}

// TestNoAnswer asks whether an address is in use when the store is closed. It may be, so the answer must not be that it
// is free.
func TestNoAnswer(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	r := servers(t, config.ForResource(api.Resource("serviceipallocations")), 1)[0]
	if r.Has(first) {
		t.Error("a free address is in use")
	}
	r.Destroy()
	if !r.Has(first) {
		t.Error("an address is free, and the store has not answered")
	}
	if err := r.DryRun().Allocate(first); err == nil {
		t.Error("a dry run succeeded, and the store has not answered")
	}
}

// TestStaticBand allocates all addresses of a range, in which those of the static band (KEP-3070), the lowest 16 of a
// /24, come last.
func TestStaticBand(t *testing.T) {
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	r := servers(t, config.ForResource(api.Resource("serviceipallocations")), 1)[0]
	const addresses, band = 254, 16
	for i := range addresses {
		ip, err := r.AllocateNext()
		if err != nil {
			t.Fatal(err)
		}
		if inBand := ip.To4()[3] <= band; inBand != (i >= addresses-band) {
			t.Fatalf("allocation %d is %v", i, ip)
		}
	}
}
