package storage

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore/storemetrics"
)

// committed carries out operations through an etcdstore, many of them in one compare-and-swap.
type committed struct {
	store *etcdstore.Store
	done  func()
}

func openCommitted(values rangekeeper.Range, key string, config *storagebackend.ConfigForResource) (backend, error) {
	client, err := Connect(config.Transport)
	if err != nil {
		return nil, err
	}
	store, err := etcdstore.Open(etcdstore.Config{
		Client: client, Key: key, Range: values, Strategy: rangekeeper.DynamicBandFirst,
		Replaced: func(err error) { klog.ErrorS(err, "Replacing a committer that failed", "key", key) },
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	observe(key, storemetrics.Of(store))
	return &committed{store, func() { client.Close() }}, nil
}

func (c *committed) allocate(ctx context.Context, offset int) (allocation, error) {
	value, ok := c.store.Range().ValueAt(uint32(offset))
	if !ok {
		return allocation{}, fmt.Errorf("%s has no offset %d", c.store.Range(), offset)
	}
	return c.allocation(c.store.Allocate(ctx, value))
}

func (c *committed) allocateNext(ctx context.Context) (allocation, error) {
	return c.allocation(c.store.AllocateNext(ctx))
}

func (c *committed) allocation(a etcdstore.Allocation, err error) (allocation, error) {
	if err != nil {
		return allocation{}, err
	}
	offset, _ := c.store.Range().OffsetOf(a.Value)
	return allocation{int(offset), a.Revision, a.UseUntil}, nil
}

func (c *committed) release(ctx context.Context, all []owned) error {
	values := make([]etcdstore.Owned, 0, len(all))
	for _, one := range all {
		if value, ok := c.store.Range().ValueAt(uint32(one.offset)); ok {
			values = append(values, etcdstore.Owned{Value: value, Owner: one.owner})
		}
	}
	_, err := c.store.ReleaseAll(ctx, values...)
	return err
}

func (c *committed) read(ctx context.Context) ([]byte, int64, error) {
	view, err := c.store.Read(ctx)
	return view.Snapshot, view.Revision, err
}

func (c *committed) memory(bitmap []byte) (allocator.Interface, error) {
	copied, err := allocator.NewMemory(c.store.Range())
	if err == nil {
		err = copied.Restore(c.store.Range().String(), bitmap)
	}
	return copied, err
}

func (c *committed) used() int {
	return c.store.Known().Used
}

func (c *committed) repairRange() repair.Range { return c.store }

func (c *committed) close() {
	ctx, cancel := operation()
	defer cancel()
	forget(c.store.Key(), storemetrics.Of(c.store))
	c.store.Close(ctx) // reports operations that have not ended by then as unknown
	c.done()
}
