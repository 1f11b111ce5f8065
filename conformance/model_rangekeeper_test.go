package upstream

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ours is a subject on Rangekeeper's allocator. Its values are the game's V; W are the binding's.
type ours[V comparable, W rangekeeper.Value] struct {
	t        *testing.T
	a        *rangekeeper.Allocator[W]
	toOurs   func(V) W
	fromOurs func(W) V
}

func newRangekeeperIPs(t *testing.T, spec string, seed uint64) subject[netip.Addr] {
	r, err := rangekeeper.ParseCIDR(spec)
	noError(t, err)
	same := func(address netip.Addr) netip.Addr { return address }
	return newOurs(t, r, seed, same, same)
}

func newRangekeeperPorts(t *testing.T, spec string, seed uint64) ours[int, uint16] {
	r, err := rangekeeper.ParsePortRange(spec)
	noError(t, err)
	return newOurs(t, r, seed, func(port int) uint16 { return uint16(port) }, func(port uint16) int { return int(port) })
}

func newOurs[V comparable, W rangekeeper.Value](t *testing.T, r rangekeeper.Range[W], seed uint64, toOurs func(V) W, fromOurs func(W) V) ours[V, W] {
	a, err := rangekeeper.NewAllocator(r, rangekeeper.DynamicBandFirst, seed)
	noError(t, err)
	return ours[V, W]{t, a, toOurs, fromOurs}
}

func (s ours[V, W]) allocate(value V) outcome { return ourOutcome(s.t, s.a.Allocate(s.toOurs(value))) }

func (s ours[V, W]) allocateNext() (V, outcome) {
	value, err := s.a.AllocateNext()
	return s.fromOurs(value), ourOutcome(s.t, err)
}

func (s ours[V, W]) release(value V) {
	_, err := s.a.Release(s.toOurs(value))
	noError(s.t, err)
}

func (s ours[V, W]) has(value V) bool {
	has, err := s.a.Has(s.toOurs(value))
	noError(s.t, err)
	return has
}

func (s ours[V, W]) free() int {
	free, err := s.a.Free()
	noError(s.t, err)
	return free
}

func (s ours[V, W]) used() int {
	used, err := s.a.Used()
	noError(s.t, err)
	return used
}

func (s ours[V, W]) all() []V {
	var all []V
	for value := range s.a.All() {
		all = append(all, s.fromOurs(value))
	}
	return all
}

func (s ours[V, W]) snapshot() (string, []byte) {
	data, err := s.a.Snapshot(nil)
	noError(s.t, err)
	r := s.a.Range()
	return r.String(), data
}

func (s ours[V, W]) restore(rangeSpec string, data []byte) outcome {
	given := slices.Clone(data)
	err := s.a.Restore(rangeSpec, data)
	if !slices.Equal(data, given) {
		s.t.Errorf("restore changed the bytes it was given")
	}
	return ourOutcome(s.t, err)
}

// dryRun is a copy of the allocator, to be closed by the caller.
func (s ours[V, W]) dryRun() *rangekeeper.Allocator[W] {
	copied, err := s.a.DryRun()
	noError(s.t, err)
	return copied
}

func (s ours[V, W]) dryRunAllocate(value V) outcome {
	copied := s.dryRun()
	defer func() { noError(s.t, copied.Close()) }()
	return ourOutcome(s.t, copied.Allocate(s.toOurs(value)))
}

func (s ours[V, W]) dryRunAllocateNext() outcome {
	copied := s.dryRun()
	defer func() { noError(s.t, copied.Close()) }()
	_, err := copied.AllocateNext()
	return ourOutcome(s.t, err)
}

func (s ours[V, W]) dryRunRelease(value V) {
	copied := s.dryRun()
	defer func() { noError(s.t, copied.Close()) }()
	_, err := copied.Release(s.toOurs(value))
	noError(s.t, err)
}

func (s ours[V, W]) close() { noError(s.t, s.a.Close()) }

func ourOutcome(t *testing.T, err error) outcome {
	var outside *rangekeeper.NotInRangeError
	var mismatch *rangekeeper.MismatchedRangeError
	var past *rangekeeper.BitsPastRangeError
	switch {
	case err == nil:
		return done
	case errors.Is(err, rangekeeper.ErrFull):
		return full
	case errors.Is(err, rangekeeper.ErrAlreadyAllocated):
		return allocated
	case errors.As(err, &outside):
		return notInRange(outside.Range)
	case errors.As(err, &mismatch):
		return mismatched
	case errors.As(err, &past):
		return bitsPastRange
	}
	t.Fatalf("Rangekeeper ended with an error of no known kind: %v", err)
	return ""
}
