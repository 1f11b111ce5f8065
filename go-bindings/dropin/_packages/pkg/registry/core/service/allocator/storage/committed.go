package storage

import (
	"context"
	"errors"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/etcdstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/repair"
)

// committed carries operations out through a Rangekeeper store: many of them in one compare-and-swap.
type committed[V rangekeeper.Value] struct {
	store  *etcdstore.Store[V]
	passes repair.Range
	done   func()
}

func openCommitted[V rangekeeper.Value](values rangekeeper.Range[V], passes func(*etcdstore.Store[V]) repair.Range, strategy rangekeeper.Strategy, key string, config *storagebackend.ConfigForResource) (backend, error) {
	client, err := connect(config.Transport)
	if err != nil {
		return nil, err
	}
	store, err := etcdstore.Open(etcdstore.Config[V]{Client: client, Key: key, Range: values, Strategy: strategy})
	if err != nil {
		client.Close()
		return nil, err
	}
	observe(key, store)
	return &committed[V]{store, passes(store), func() { client.Close() }}, nil
}

func (c *committed[V]) allocate(ctx context.Context, offset int) error {
	value, ok := c.store.Range().ValueAt(uint32(offset))
	if !ok {
		return fmt.Errorf("%s has no offset %d", c.store.Range(), offset)
	}
	_, err := c.store.Allocate(ctx, value)
	return err
}

func (c *committed[V]) allocateNext(ctx context.Context) (int, error) {
	allocation, err := c.store.AllocateNext(ctx)
	if err != nil {
		return 0, err
	}
	offset, _ := c.store.Range().OffsetOf(allocation.Value)
	return int(offset), nil
}

// release frees a value. Whoever wants it freed does not say since when it was theirs, so it is theirs if it is in use when they
// say so. A value that is left to the next repair is no reason for the caller to keep others.
func (c *committed[V]) release(ctx context.Context, offset int) error {
	value, ok := c.store.Range().ValueAt(uint32(offset))
	if !ok {
		return nil
	}
	err := c.releaseNow(ctx, value)
	if errors.Is(err, etcdstore.ErrDeferred) {
		utilruntime.HandleErrorWithContext(ctx, err, "A value is not freed before the next repair", "value", value)
		return nil
	}
	return err
}

// releaseNow mostly needs no read: the value was in use in the newest state that this server had seen, and has been since. Else
// that state may be of the owner before, or older than an allocation by another server; then a read tells of now. It does not
// after a request without an answer: that may have freed the value, and who has it now got it after that.
func (c *committed[V]) releaseNow(ctx context.Context, value V) error {
	known, err := c.store.Known()
	if err != nil {
		return err
	}
	if known.Initialised {
		unanswered := c.store.Stats().Unknown
		released, err := c.store.Release(ctx, value, known.Revision)
		isUnknownSince := errors.Is(err, etcdstore.ErrDeferred)
		if released || err != nil && !isUnknownSince || c.store.Stats().Unknown != unanswered {
			return err
		}
	}
	view, err := c.store.Read(ctx)
	if err != nil {
		return err
	}
	_, err = c.store.Release(ctx, value, view.Revision)
	return err
}

func (c *committed[V]) read(ctx context.Context) ([]byte, error) {
	view, err := c.store.Read(ctx)
	return view.Snapshot, err
}

func (c *committed[V]) used() int {
	known, _ := c.store.Known() // none after close
	return known.Used
}

func (c *committed[V]) repairRange() (repair.Range, bool) { return c.passes, true }

func (c *committed[V]) close() {
	ctx, cancel := operation()
	defer cancel()
	forget(c.store.Key(), c.store)
	c.store.Close(ctx) // what has not ended by then is told as unknown
	c.done()
}
