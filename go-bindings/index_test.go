package rangekeeper

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

const later = time.Minute

func newIndex(t testing.TB, cidrs ...string) (*Index, []ServiceCIDR) {
	index := must(NewIndex(7))
	t.Cleanup(func() { index.Close() })
	var all []ServiceCIDR
	for _, cidr := range cidrs {
		all = append(all, must(ParseServiceCIDR(cidr)))
		if !must(index.InsertCIDR(all[len(all)-1])) {
			t.Fatal(cidr, "is there already")
		}
	}
	return index, all
}

func usage(t *testing.T, index *Index, cidr ServiceCIDR, used, free uint64) {
	t.Helper()
	if u, f := index.Usage(cidr); u != used || f != free {
		t.Errorf("%d used, %d free, want %d and %d", u, f, used, free)
	}
}

func TestIndex(t *testing.T) {
	index, cidrs := newIndex(t, "10.96.0.0/24", "fd00::/64")
	v4, v6 := cidrs[0], cidrs[1]
	one, ten, outside := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("10.97.0.1")
	if added, removed, err := index.Replace([]netip.Addr{one}, 100); added != 1 || removed != 0 || err != nil {
		t.Error(added, removed, err)
	}
	if _, _, err := index.Replace(nil, 99); !errors.Is(err, ErrStaleList) || !index.IsTaken(one) {
		t.Error("an old list was taken:", err)
	}

	named := must(index.ReserveAddr(ten, later))
	if _, err := index.ReserveAddr(ten, later); !errors.Is(err, ErrAlreadyAllocated) {
		t.Error(err)
	}
	if _, err := index.ReserveAddr(outside, later); !errors.Is(err, ErrNotInRange) {
		t.Error(err)
	}
	first, second := must(index.Reserve(cidrs[:1], later)), must(index.Reserve([]ServiceCIDR{v6}, later))
	if !first.Addr.Is4() || !second.Addr.Is6() || first.Addr == ten {
		t.Error(first, second)
	}
	usage(t, index, v4, 3, 251)

	// The object of the first is created at 101, the answer for the second never comes, and the third is refused.
	if err := errors.Join(index.Confirm(named, 101), index.Abort(first)); err != nil {
		t.Error(err)
	}
	if n := must(index.Expire(later)); n != 1 || index.IsTaken(second.Addr) || index.IsTaken(first.Addr) {
		t.Error(n, "reservations expired")
	}
	if err := index.Removed(ten, 90); err != nil || !index.IsTaken(ten) {
		t.Error("an older object's removal freed the address", err)
	}
	if err := errors.Join(index.Added(ten, 101), index.Removed(ten, 105)); err != nil || index.IsTaken(ten) {
		t.Error("it is not free", err)
	}
	if err := errors.Join(index.Created(ten, 106), index.Removed(ten, 105)); err != nil || !index.IsTaken(ten) {
		t.Error("it was created without a reservation, and is free:", err)
	}
	if err := index.Removed(ten, 106); err != nil || index.IsTaken(ten) {
		t.Error("it is not free", err)
	}
	usage(t, index, v4, 1, 253)

	if !must(index.RemoveCIDR(v4)) || must(index.RemoveCIDR(v4)) || !index.IsTaken(one) {
		t.Error("the CIDR is not gone, or what was taken in it is forgotten")
	}
	if _, err := index.Reserve(cidrs[:1], later); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	index.Close()
	if _, err := index.Reserve(cidrs[1:], later); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Everybody who reserves at the same time is offered another address, down to the last one.
func TestIndexConcurrently(t *testing.T) {
	index, cidrs := newIndex(t, "10.96.0.0/22")
	var mutex sync.Mutex
	var all sync.WaitGroup
	owners := map[netip.Addr]bool{}
	for range 8 {
		all.Go(func() {
			for {
				reservation, err := index.Reserve(cidrs[:1], later)
				if errors.Is(err, ErrFull) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				if owners[reservation.Addr] {
					t.Error(reservation.Addr, "was reserved twice")
				}
				owners[reservation.Addr] = true
				revision := uint64(len(owners))
				mutex.Unlock()
				if err := index.Confirm(reservation, revision); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(owners) != 1022 {
		t.Error(len(owners), "addresses")
	}
	usage(t, index, cidrs[0], 1022, 0)
}

// filledIndex has a million addresses at random places of a CIDR.
func filledIndex(b *testing.B, cidr string) (*Index, []ServiceCIDR, []netip.Addr) {
	index, cidrs := newIndex(b, cidr)
	prefix := netip.MustParsePrefix(cidr)
	rng := rand.New(rand.NewPCG(4, 2))
	all := make(map[netip.Addr]struct{})
	for len(all) < 1_000_000 {
		address := prefix.Addr().As16()
		host := rng.Uint64() >> (64 - min(prefix.Addr().BitLen()-prefix.Bits(), 64))
		binary.BigEndian.PutUint64(address[8:], binary.BigEndian.Uint64(address[8:])|host)
		all[netip.AddrFrom16(address).Unmap()] = struct{}{}
	}
	addrs := slices.Collect(maps.Keys(all))
	must3(index.Replace(addrs, 1))
	b.ResetTimer()
	return index, cidrs, addrs
}

func must3[A, B any](a A, b B, err error) {
	if err != nil {
		panic(err)
	}
}

func BenchmarkIndex(b *testing.B) {
	for _, cidr := range []string{"10.0.0.0/8", "fd00::/64"} {
		b.Run(cidr+"/reserve, confirm, remove", func(b *testing.B) {
			index, cidrs, _ := filledIndex(b, cidr)
			for revision := uint64(2); b.Loop(); revision += 2 {
				reservation := must(index.Reserve(cidrs, later))
				must(0, index.Confirm(reservation, revision))
				must(0, index.Removed(reservation.Addr, revision+1))
			}
		})
		b.Run(cidr+"/counts", func(b *testing.B) {
			index, cidrs, _ := filledIndex(b, cidr)
			for b.Loop() {
				index.Usage(cidrs[0])
			}
		})
		b.Run(cidr+"/list", func(b *testing.B) {
			index, _, addrs := filledIndex(b, cidr)
			for b.Loop() {
				must3(index.Replace(addrs, 1))
			}
		})
	}
}
