// Package storagetest tests the storage of ranges inside a kube-apiserver, beside the release's own tests of it.
package storagetest

import (
	"bytes"
	"context"
	"net"
	"path"
	"slices"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/registrytest"
)

const baseKey = "/ranges/serviceips"

// inverted stands for encryption: nobody can read what it has written without it.
type inverted struct{}

func (inverted) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	return invert(data), false, nil
}

func (inverted) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return invert(data), nil
}

func invert(data []byte) []byte {
	out := bytes.Clone(data)
	for i := range out {
		out[i] ^= 0xff
	}
	return out
}

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

// TestConcurrent allocates all addresses of a range through two servers at once, while others look, and gives half of them
// back: plain, where the operations of many share a write, and encrypted, where none do.
func TestConcurrent(t *testing.T) {
	for name, transformer := range map[string]value.Transformer{"plain": nil, "encrypted": inverted{}} {
		t.Run(name, func(t *testing.T) {
			config, server := registrytest.NewEtcdStorage(t, "")
			defer server.Terminate(t)
			config.Transformer = transformer
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

			client, err := clientv3.New(clientv3.Config{Endpoints: config.Transport.ServerList})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			answer, err := client.Get(t.Context(), path.Join("/", config.Prefix, baseKey))
			if err != nil || len(answer.Kvs) != 1 {
				t.Fatal(answer, err)
			}
			writes, isPlain := answer.Kvs[0].Version, bytes.Contains(answer.Kvs[0].Value, []byte("10.0.0.0/24"))
			t.Logf("%d writes for %d operations", writes, 254+127)
			if isPlain != (transformer == nil) {
				t.Errorf("the range is stored plainly: %v", isPlain)
			}
			if shared := writes < 254+127; shared != (transformer == nil) {
				t.Errorf("%d writes", writes)
			}
		})
	}
}
