package etcdstore

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/embedded"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

const key = "/registry/ranges/serviceips"

func startEtcd(t *testing.T) *embedded.Etcd {
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	return etcd
}

func open(t *testing.T, etcd *embedded.Etcd, cidr string) *Store[netip.Addr] {
	s, err := Open(Config[netip.Addr]{Client: etcd.Client(), Key: key, Range: must(rangekeeper.ParseCIDR(cidr)), Strategy: rangekeeper.RandomScanSparingStaticBand})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestAllocateThroughEtcd(t *testing.T) {
	etcd := startEtcd(t)
	first, second := open(t, etcd, "10.0.0.0/24"), open(t, etcd, "10.0.0.0/24")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := first.AllocateNext(ctx); !errors.Is(err, rangekeeper.ErrNotInitialised) {
		t.Fatal(err)
	}
	if !must(first.Init(ctx)) || must(second.Init(ctx)) {
		t.Fatal("created not once")
	}
	var mu sync.Mutex
	owned := make(map[netip.Addr]Allocation[netip.Addr])
	var group sync.WaitGroup
	for _, s := range []*Store[netip.Addr]{first, second} {
		for range 127 {
			group.Go(func() {
				a, err := s.AllocateNext(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if _, twice := owned[a.Value]; twice {
					t.Errorf("%v was handed out twice", a.Value)
				}
				owned[a.Value] = a
			})
		}
	}
	group.Wait()
	if len(owned) != 254 {
		t.Fatal(len(owned))
	}
	if _, err := second.AllocateNext(ctx); !errors.Is(err, rangekeeper.ErrFull) {
		t.Error(err)
	}
	addr := netip.MustParseAddr("10.0.0.77")
	if _, err := first.Allocate(ctx, addr); !errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		t.Error(err)
	}
	// Released by the server that did not allocate it, at a time when both have gone on.
	if !must(second.Release(ctx, addr, owned[addr].Revision)) {
		t.Error("not released")
	}
	if must(first.Release(ctx, addr, owned[addr].Revision)) {
		t.Error("released twice")
	}
	if a := must(first.Allocate(ctx, addr)); a.Value != addr || time.Until(a.UseUntil) < 5*time.Minute {
		t.Error(a)
	}
	if swaps := first.Stats().Swaps + second.Stats().Swaps; swaps > 60 {
		t.Errorf("%d swaps: operations did not share them", swaps)
	}
	t.Logf("%+v, %+v", first.Stats(), second.Stats())
}
