package etcdstore

import (
	"context"
	"testing"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// A zero Store has no key that an error could name.
func TestZeroStore(t *testing.T) {
	var s Store
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	pass := must(must(rangekeeper.NewLeakTracker(1, 0)).Start())
	for _, ctx := range []context.Context{t.Context(), cancelled} {
		_, initialised := s.Init(ctx)
		_, allocated := s.AllocateNext(ctx)
		_, released := s.Release(ctx, rangekeeper.PortValue(1), rangekeeper.OwnedSince(1))
		_, read := s.Read(ctx)
		_, _, readForPass := s.ReadForPass(ctx, pass)
		_, repaired := s.Repair(ctx, pass, nil, rangekeeper.ServiceList{Revision: 1, Guards: true})
		connections, known := s.Connections(ctx)
		_, written := connections.Txn(ctx, nil, nil, nil)
		for i, err := range []error{initialised, allocated, released, read, readForPass, repaired, known, written} {
			if err != rangekeeper.ErrClosed {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
}
