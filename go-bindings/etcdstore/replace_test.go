package etcdstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestCommitterReplaced has the committer fail while callers allocate, as after a panic inside of it: what is under way
// ends as unknown, the store goes on with a new committer, and no address is handed out twice.
func TestCommitterReplaced(t *testing.T) {
	const failures = 5
	key := keyOf(t)
	var reasons atomic.Int64
	s, err := Open(Config{
		Client: connect(t, endpoint(t)), Key: key, Range: must(rangekeeper.ParseCIDR("10.0.0.0/20")), Strategy: rangekeeper.RandomScan,
		Replaced: func(err error) {
			if errors.Is(err, rangekeeper.ErrClosed) && strings.Contains(err.Error(), key) {
				reasons.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	ctx := t.Context()
	must(s.Init(ctx))
	if err := s.Health(); err != nil {
		t.Errorf("before the first failure: %v", err)
	}
	var mutex sync.Mutex
	owned := make(map[rangekeeper.Value]bool)
	unknown := 0
	allocate := func() error {
		a, err := s.AllocateNext(ctx)
		mutex.Lock()
		defer mutex.Unlock()
		switch {
		case err == nil && owned[a.Value]:
			t.Errorf("%s is handed out twice", a.Value)
		case err == nil:
			owned[a.Value] = true
		case errors.Is(err, ErrUnknown), errors.Is(err, rangekeeper.ErrClosed):
			unknown++
			err = nil
		}
		return err
	}
	for failure := range failures {
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() {
				for range 8 {
					if err := allocate(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		s.committer.Load().Close()
		group.Wait()
		for s.Stats().Replaced <= int64(failure) { // the store may be idle, and notices with the next operation
			if err := allocate(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if replaced := s.Stats().Replaced; replaced != failures {
		t.Errorf("%d committers replaced after %d failures", replaced, failures)
	}
	if reasons.Load() != failures {
		t.Errorf("%d of %d failures are reported", reasons.Load(), failures)
	}
	if err := s.Health(); err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("after a failure: %v", err)
	}
	if len(owned)+unknown < failures*32*8 || len(owned) == 0 {
		t.Errorf("%d allocated, %d unknown", len(owned), unknown)
	}
	view := must(s.Read(ctx))
	stored := must(rangekeeper.NewAllocator(s.Range(), rangekeeper.RandomScan, 0))
	defer stored.Close()
	if err := stored.Restore(s.Range().String(), view.Snapshot); err != nil {
		t.Fatal(err)
	}
	for address := range owned {
		if !stored.Has(address) {
			t.Errorf("%s was allocated, and is not stored", address)
		}
	}
	t.Logf("%d allocated, %d unknown, %d committers replaced", len(owned), unknown, s.Stats().Replaced)
}
