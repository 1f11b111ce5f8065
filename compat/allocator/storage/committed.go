package storage

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	api "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"

	"github.com/rangekeeper/rangekeeper/compat/allocator"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// committed carries out operations through an etcdstore, many of them in one compare-and-swap.
type committed struct {
	values *etcdstore.Store
	client *clientv3.Client
	given  allocator.Snapshottable
}

func openCommitted(given allocator.Snapshottable, values rangekeeper.Range, key string, config *storagebackend.ConfigForResource) (*committed, error) {
	proxy, err := proxyOf(config.Transport)
	if err != nil {
		return nil, err
	}
	client, err := connect(config.Transport, proxy)
	if err != nil {
		return nil, err
	}
	store, err := etcdstore.Open(etcdstore.Config{
		// The range that the caller names is the operator's word, as in the reference.
		Replace: rangekeeper.ReplaceAlways,
		Client:  client, Key: key, Range: values, Strategy: rangekeeper.DynamicBandFirst,
		Replaced: func(err error) { klog.ErrorS(err, "Replacing a committer that failed", "key", key) },
		Restored: func() {
			klog.ErrorS(nil, "etcd was restored under this program: its watch caches are wrong until it restarts", "key", key)
		},
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &committed{store, client, given}, nil
}

func (c *committed) allocate(ctx context.Context, offset int) error {
	value, ok := allocator.ValueAt(c.values.Range(), offset)
	if !ok {
		return fmt.Errorf("%s has no offset %d", c.values.Range(), offset)
	}
	if _, err := c.values.Allocate(ctx, value); err != nil {
		return err
	}
	c.given.Allocate(offset)
	return nil
}

func (c *committed) allocateNext(ctx context.Context) (int, error) {
	allocated, err := c.values.AllocateNext(ctx)
	if err != nil {
		return 0, err
	}
	offset, _ := c.values.Range().OffsetOf(allocated.Value)
	c.given.Allocate(int(offset))
	return int(offset), nil
}

func (c *committed) release(ctx context.Context, offset int) error {
	value, ok := allocator.ValueAt(c.values.Range(), offset)
	if !ok {
		return nil
	}
	now, err := c.values.Read(ctx)
	if err == nil {
		_, err = c.values.Release(ctx, value, rangekeeper.OwnedSince(now.Revision))
	}
	if err != nil {
		return err
	}
	return c.given.Release(offset)
}

func (c *committed) restored(object *api.RangeAllocation) error {
	return c.given.Restore(object.Range, object.Data)
}

func (c *committed) now(ctx context.Context) (allocator.Interface, error) {
	view, err := c.values.Read(ctx)
	if err != nil {
		return nil, err
	}
	copied, err := allocator.NewMemory(c.values.Range())
	if err == nil {
		err = copied.Restore(c.values.Range().String(), view.Snapshot)
	}
	return copied, err
}

func (c *committed) used() int { return c.values.Known().Used }

func (c *committed) repairRange(string) repair.Range { return c.values }

func (c *committed) close() {
	ctx, cancel := operation()
	defer cancel()
	c.values.Close(ctx) // reports operations that have not ended by then as unknown
	c.client.Close()
}
