package etcdstoretest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// A caller that gives up gets nothing, and nothing stays allocated for it.
func TestWhatNobodyWaitsForIsReleased(t *testing.T) {
	etcd := startEtcd(t)
	s := open(t, etcd, "10.0.0.0/20")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(s.Init(ctx))

	var mu sync.Mutex
	owned, givenUp := make(map[rangekeeper.Value]bool), 0
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			// The caller's last allocation took as long: half of those that follow do not get it. It is more after each
			// that was given up, as the machine may have become slower.
			took := time.Millisecond
			for enough := false; !enough && ctx.Err() == nil; {
				ctx, cancel := context.WithCancel(ctx)
				began := time.Now()
				timer := time.AfterFunc(rand.N(2*took), cancel)
				allocation, err := s.AllocateNext(ctx)
				timer.Stop()
				cancel()
				mu.Lock()
				if err == nil {
					owned[allocation.Value] = true
					took = time.Since(began)
				} else {
					givenUp++
					took += took / 8
				}
				enough = givenUp >= 200 && len(owned) >= 200
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if givenUp < 200 || len(owned) < 200 {
		t.Fatalf("%d were given up and %d allocated: this tests too little", givenUp, len(owned))
	}

	stored := must(rangekeeper.NewAllocator(s.Range(), rangekeeper.Contiguous, 0))
	defer stored.Close()
	for used := -1; used != len(owned); { // what is released may be on its way
		view, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("%d values stay in use, of which %d are anybody's, after %d were given up", used, len(owned), givenUp)
		}
		if err := stored.Restore(s.Range().String(), view.Snapshot); err != nil {
			t.Fatal(err)
		}
		used = stored.Used()
	}
	for value := range stored.All() {
		if !owned[value] {
			t.Errorf("%v is in use, and nobody has it", value)
		}
	}
}
