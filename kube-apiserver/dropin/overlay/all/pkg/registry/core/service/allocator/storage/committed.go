package storage

import (
	"context"
	"fmt"
	"path"

	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// committed carries out operations through an etcdstore, many of them in one compare-and-swap.
type committed struct {
	values *etcdstore.Store
	done   func()
}

func openCommitted(values rangekeeper.Range, key string, config *storagebackend.ConfigForResource) (backend, error) {
	client, err := Connect(config.Transport, nil)
	if err != nil {
		return nil, err
	}
	store, err := etcdstore.Open(etcdstore.Config{
		// The flag of the server is the operator's word, as in the reference.
		Replace: rangekeeper.ReplaceAlways,
		Client:  client, Key: key, Range: values, Strategy: rangekeeper.DynamicBandFirst,
		Services: path.Join("/", config.Prefix) + "/services/specs/",
		Replaced: func(err error) { klog.ErrorS(err, "Replacing a committer that failed", "key", key) },
		Restored: func() {
			klog.ErrorS(nil, restored, "key", key)
			restoredRange.CompareAndSwap(nil, &key)
		},
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	observe(store)
	return &committed{store, func() {
		restoredRange.CompareAndSwap(&key, nil)
		client.Close()
	}}, nil
}

func (c *committed) allocate(ctx context.Context, offset int) (allocation, error) {
	value, ok := allocator.ValueAt(c.values.Range(), offset)
	if !ok {
		return allocation{}, fmt.Errorf("%s has no offset %d", c.values.Range(), offset)
	}
	return c.allocation(c.values.Allocate(ctx, value))
}

func (c *committed) allocateNext(ctx context.Context) (allocation, error) {
	return c.allocation(c.values.AllocateNext(ctx))
}

func (c *committed) allocation(a etcdstore.Allocation, err error) (allocation, error) {
	if err != nil {
		return allocation{}, err
	}
	offset, _ := c.values.Range().OffsetOf(a.Value)
	return allocation{int(offset), a.Owner(), a.UseUntil, &a}, nil
}

func (c *committed) release(ctx context.Context, all []owned) error {
	values := make([]etcdstore.Owned, 0, len(all))
	for _, one := range all {
		if value, ok := allocator.ValueAt(c.values.Range(), one.offset); ok {
			values = append(values, etcdstore.Owned{Value: value, Owner: one.owner})
		}
	}
	_, err := c.values.ReleaseAll(ctx, values...)
	return err
}

func (c *committed) written(offsets []int) {
	values := make([]rangekeeper.Value, 0, len(offsets))
	for _, offset := range offsets {
		if value, ok := allocator.ValueAt(c.values.Range(), offset); ok {
			values = append(values, value)
		}
	}
	c.values.Written(values...)
}

func (c *committed) store() uint32 { return c.values.Known().Store }

func (c *committed) read(ctx context.Context) ([]byte, int64, error) {
	view, err := c.values.Read(ctx)
	return view.Snapshot, view.Revision, err
}

func (c *committed) memory(bitmap []byte) (allocator.Interface, error) {
	copied, err := allocator.NewMemory(c.values.Range())
	if err == nil {
		err = copied.Restore(c.values.Range().String(), bitmap)
	}
	return copied, err
}

func (c *committed) used() int {
	return c.values.Known().Used
}

func (c *committed) repairRange() repair.Range { return c.values }

func (c *committed) close() {
	ctx, cancel := operation()
	defer cancel()
	forget(c.values)
	c.values.Close(ctx) // reports operations that have not ended by then as unknown
	c.done()
}
