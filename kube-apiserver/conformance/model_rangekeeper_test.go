package upstream

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ours is Rangekeeper's allocator as a subject. V is the type of the game's values.
type ours[V comparable] struct {
	t        *testing.T
	a        *rangekeeper.Allocator
	toOurs   func(V) rangekeeper.Value
	fromOurs func(rangekeeper.Value) V
}

func newRangekeeperIPs(t *testing.T, spec string, seed uint64) subject[netip.Addr] {
	r, err := rangekeeper.ParseCIDR(spec)
	noError(t, err)
	return newOurs(t, r, seed, rangekeeper.AddrValue, rangekeeper.Value.Addr)
}

func newRangekeeperPorts(t *testing.T, spec string, seed uint64) ours[int] {
	r, err := rangekeeper.ParsePortRange(spec)
	noError(t, err)
	return newOurs(t, r, seed, func(port int) rangekeeper.Value { return rangekeeper.PortValue(uint16(port)) },
		func(port rangekeeper.Value) int { return int(port.Port()) })
}

func newOurs[V comparable](t *testing.T, r rangekeeper.Range, seed uint64, toOurs func(V) rangekeeper.Value, fromOurs func(rangekeeper.Value) V) ours[V] {
	a, err := rangekeeper.NewAllocator(r, rangekeeper.DynamicBandFirst, seed)
	noError(t, err)
	return ours[V]{t, a, toOurs, fromOurs}
}

func (s ours[V]) allocate(value V) outcome { return ourOutcome(s.t, s.a.Allocate(s.toOurs(value))) }

func (s ours[V]) allocateNext() (V, outcome) {
	value, err := s.a.AllocateNext()
	return s.fromOurs(value), ourOutcome(s.t, err)
}

func (s ours[V]) release(value V) {
	_, err := s.a.Release(s.toOurs(value))
	noError(s.t, err)
}

func (s ours[V]) has(value V) bool {
	return s.a.Has(s.toOurs(value))
}

func (s ours[V]) free() int {
	return s.a.Free()
}

func (s ours[V]) used() int {
	return s.a.Used()
}

func (s ours[V]) all() []V {
	var all []V
	for value := range s.a.All() {
		all = append(all, s.fromOurs(value))
	}
	return all
}

func (s ours[V]) snapshot() (string, []byte) {
	data, err := s.a.Snapshot(nil)
	noError(s.t, err)
	r := s.a.Range()
	return r.String(), data
}

func (s ours[V]) restore(rangeSpec string, data []byte) outcome {
	given := slices.Clone(data)
	err := s.a.Restore(rangeSpec, data)
	if !slices.Equal(data, given) {
		s.t.Error("restore changed its argument")
	}
	return ourOutcome(s.t, err)
}

// dryRun returns a copy of the allocator, which the caller closes.
func (s ours[V]) dryRun() *rangekeeper.Allocator {
	copied, err := s.a.DryRun()
	noError(s.t, err)
	return copied
}

func (s ours[V]) dryRunAllocate(value V) outcome {
	copied := s.dryRun()
	defer func() { noError(s.t, copied.Close()) }()
	return ourOutcome(s.t, copied.Allocate(s.toOurs(value)))
}

func (s ours[V]) dryRunAllocateNext() outcome {
	copied := s.dryRun()
	defer func() { noError(s.t, copied.Close()) }()
	_, err := copied.AllocateNext()
	return ourOutcome(s.t, err)
}

func (s ours[V]) dryRunRelease(value V) {
	copied := s.dryRun()
	defer func() { noError(s.t, copied.Close()) }()
	_, err := copied.Release(s.toOurs(value))
	noError(s.t, err)
}

func (s ours[V]) close() { noError(s.t, s.a.Close()) }

func ourOutcome(t *testing.T, err error) outcome {
	var refused *rangekeeper.ValueError
	var mismatch *rangekeeper.MismatchedRangeError
	var past *rangekeeper.BitsPastRangeError
	switch {
	case err == nil:
		return done
	case errors.Is(err, rangekeeper.ErrFull):
		return full
	case errors.Is(err, rangekeeper.ErrAlreadyAllocated):
		return allocated
	case errors.Is(err, rangekeeper.ErrNotInRange) && errors.As(err, &refused):
		return notInRange(refused.Range.String())
	case errors.As(err, &mismatch):
		return mismatched
	case errors.As(err, &past):
		return bitsPastRange
	}
	t.Fatalf("Rangekeeper returned an unknown error: %v", err)
	return ""
}
