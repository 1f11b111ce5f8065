package storage

import (
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// request is an Etcd for one request to the API server.
type request struct {
	*Etcd
	// store is the one that was known when the request began.
	store     uint32
	allocated []allocation
	// released are the offsets that the Service gives up. A node port for TCP and UDP may be there twice.
	released []int
	// failure is the error of the last allocation that failed.
	failure error
}

var _ allocator.PerRequest = (*Etcd)(nil)

// ForRequest returns an allocator of the same offsets for one request.
func (e *Etcd) ForRequest() (allocator.Interface, allocator.Request) {
	r := &request{Etcd: e, store: e.backend.store()}
	return r, r
}

// Allocate allocates an offset, and returns whether it was free.
func (r *request) Allocate(offset int) (bool, error) {
	a, ok, err := r.allocate(offset)
	r.record(a, ok, err)
	return ok, err
}

// AllocateNext allocates a free offset, and returns whether there was one.
func (r *request) AllocateNext() (int, bool, error) {
	a, ok, err := r.allocateNext()
	r.record(a, ok, err)
	return a.offset, ok, err
}

// record records an allocation or its failure. An offset in use and a full range are none.
func (r *request) record(a allocation, ok bool, err error) {
	if ok {
		r.allocated = append(r.allocated, a)
	}
	if err != nil {
		r.failure = err
	}
}

// DryRun returns a copy in memory for a dry run.
func (r *request) DryRun() (allocator.Interface, error) {
	copied, err := r.Etcd.DryRun()
	if err != nil {
		r.failure = err
	}
	return copied, err
}

// Release records an offset that the Service gives up.
func (r *request) Release(offset int) error {
	if !slices.Contains(r.released, offset) {
		r.released = append(r.released, offset)
	}
	return nil
}

// UseUntil returns that of the first allocation.
func (r *request) UseUntil() (until time.Time) {
	if len(r.allocated) > 0 {
		until = r.allocated[0].useUntil
	}
	return until
}

// Conditions returns those of all allocations.
func (r *request) Conditions() []clientv3.Cmp {
	var all []etcdstore.Allocation
	for _, a := range r.allocated {
		if a.of != nil {
			all = append(all, *a.of)
		}
	}
	return etcdstore.Conditions(all...)
}

// Written records that the Service of all allocated offsets is stored.
func (r *request) Written() {
	offsets := make([]int, len(r.allocated))
	for i, a := range r.allocated {
		offsets[i] = a.offset
	}
	if len(offsets) > 0 {
		r.backend.written(offsets)
	}
}

// Failure returns the error of the last allocation that failed.
func (r *request) Failure() error { return r.failure }

// Undo releases all allocated offsets in one compare-and-swap.
func (r *request) Undo() error {
	owned := make([]owned, len(r.allocated))
	for i, a := range r.allocated {
		owned[i].offset, owned[i].owner = a.offset, a.owner
	}
	r.allocated, r.released = nil, nil
	return r.release(owned)
}

// Commit releases all recorded offsets in one compare-and-swap, except those that the request has allocated. A Service
// may give up a port for health checks that the range had lost, and be given the same one as a node port: then it still
// has it.
func (r *request) Commit(owner allocator.Owner) error {
	if owner.Store = r.store; owner.Late {
		owner.Store = 0
	}
	var given []owned
	for _, offset := range r.released {
		if !slices.ContainsFunc(r.allocated, func(a allocation) bool { return a.offset == offset }) {
			given = append(given, owned{offset: offset, owner: owner.Ownership})
		}
	}
	r.allocated, r.released = nil, nil
	return r.release(given)
}
