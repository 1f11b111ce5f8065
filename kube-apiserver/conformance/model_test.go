// Package upstream performs the same random operations on Rangekeeper and on the reference's allocators,
// k8s.io/kubernetes at the version in go.mod, and compares every result.
package upstream

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

const (
	// stepsMost is the length of the longest sequence.
	stepsMost = 60
	// dense is the size of the largest range that is filled. Snapshots of larger ones have few offsets in use, as the
	// reference visits each in 0.4 µs.
	dense = 600
)

// sequences is the number of sequences; with RANGEKEEPER_NIGHTLY set, as `make nightly` does, there are five times as
// many.
func sequences() int {
	if os.Getenv("RANGEKEEPER_NIGHTLY") != "" {
		return 200_000
	}
	return 40_000
}

// TestMain discards the reference's log, which has a warning for each release of a port outside of its range.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random sequences")

// outcome is the result of an operation: "" for success, else the kind of error, with the valid range if the error has
// one.
type outcome string

const (
	done       outcome = ""
	full       outcome = "full"
	allocated  outcome = "already allocated"
	mismatched outcome = "mismatched range"
	// bitsPastRange is an error of Rangekeeper only, see TestFaultRestoreAcceptsBitsPastTheRange.
	bitsPastRange outcome = "bits past the range"
)

func notInRange(validRange string) outcome { return outcome("not in range: " + validRange) }

// subject is an allocator under test; V is an address or a port.
type subject[V comparable] interface {
	allocate(V) outcome
	allocateNext() (V, outcome)
	release(V)
	has(V) bool
	free() int
	used() int
	// all returns the values in use, in the order of for_each.
	all() []V
	snapshot() (rangeSpec string, data []byte)
	restore(rangeSpec string, data []byte) outcome
	dryRunAllocate(V) outcome
	dryRunAllocateNext() outcome
	dryRunRelease(V)
	close()
}

// layout describes the reference's range, and finds values inside and outside of it.
type layout[V comparable] struct {
	spec string
	// otherSpec is another range of the same kind.
	otherSpec  string
	size, band int
	// at returns the value of an offset. Offsets below 0 and from size on are outside of the range.
	at func(offset int) V
	// stray returns a random value, often at an edge of the range or of the other family.
	stray func(*rand.Rand) V
}

func TestSameAsReference(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	want := sequences()
	var addresses, ports, steps int
	for addresses+ports < want {
		sequence := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		if sequence.IntN(3) == 0 {
			ports++
			steps += playPorts(t, sequence)
		} else {
			addresses++
			steps += playAddresses(t, sequence)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d sequences played: %d on address ranges, %d on port ranges, %d operations", addresses+ports, addresses, ports, steps)
	if addresses < want/2 || ports < want/5 {
		t.Errorf("fewer sequences of one kind than a half or a fifth of %d", want)
	}
}

// game is one sequence on one range.
type game[V comparable] struct {
	t                      *testing.T
	rand                   *rand.Rand
	layout                 layout[V]
	reference, rangekeeper subject[V]
	// history is the log of the sequence, which is printed with a difference.
	history []string
	// taken are earlier snapshots, to be restored later.
	taken [][]byte
}

func (g *game[V]) play() (steps int) {
	defer g.rangekeeper.close()
	if g.rand.IntN(2) == 0 {
		g.restore()
	}
	steps = 1 + g.rand.IntN(stepsMost)
	for range steps {
		g.step()
		if g.t.Failed() {
			return steps
		}
	}
	g.compareState()
	return steps
}

func (g *game[V]) step() {
	switch p := g.rand.IntN(100); {
	case p < 25:
		value := g.value()
		g.did("allocate %v", value)
		g.same("allocate", g.reference.allocate(value), g.rangekeeper.allocate(value))
	case p < 40:
		g.did("allocate next")
		g.allocateNext()
	case p < 55:
		value := g.value()
		g.did("release %v", value)
		g.reference.release(value)
		g.rangekeeper.release(value)
	case p < 67:
		value := g.value()
		g.did("has %v", value)
		g.same("has", g.reference.has(value), g.rangekeeper.has(value))
	case p < 72:
		g.did("free and used")
		g.same("free", g.reference.free(), g.rangekeeper.free())
		g.same("used", g.reference.used(), g.rangekeeper.used())
	case p < 76:
		g.did("for each")
		g.compareAll()
	case p < 81:
		g.did("snapshot")
		g.compareSnapshots()
	case p < 86:
		g.restore()
	default:
		g.dryRun()
	}
}

// allocateNext allocates the next value on one side and the same value by name on the other. The choice is random, so
// the sides differ, but each must be able to allocate the other's choice.
func (g *game[V]) allocateNext() {
	if g.rand.IntN(2) == 0 {
		picked, outcome := g.reference.allocateNext()
		if outcome != done {
			_, ours := g.rangekeeper.allocateNext()
			g.same("allocate next", outcome, ours)
			return
		}
		g.did("  the reference picked %v", picked)
		g.same("has, before the value is taken", false, g.rangekeeper.has(picked))
		g.same("allocate of the reference's pick", done, g.rangekeeper.allocate(picked))
		return
	}
	wasFull := g.reference.free() == 0
	dynamicBandFull := g.dynamicBandFull()
	picked, outcome := g.rangekeeper.allocateNext()
	if wasFull {
		g.same("allocate next", full, outcome)
		return
	}
	g.same("allocate next", done, outcome)
	g.did("  Rangekeeper picked %v", picked)
	g.same("allocate of Rangekeeper's pick", g.reference.allocate(picked), done)
	for offset := range g.layout.band {
		if !dynamicBandFull && picked == g.layout.at(offset) {
			g.fail("allocate next returned %v of the static band, but the dynamic band is not full", picked)
		}
	}
}

func (g *game[V]) dynamicBandFull() bool {
	for offset := g.layout.band; offset < g.layout.size; offset++ {
		if !g.reference.has(g.layout.at(offset)) {
			return false
		}
	}
	return true
}

// restore restores a random snapshot, an earlier one, or one of another range.
func (g *game[V]) restore() {
	switch p := g.rand.IntN(10); {
	case p == 0:
		spec := g.layout.otherSpec
		g.did("restore a snapshot of %s", spec)
		data := []byte{1}
		g.same("restore", g.reference.restore(spec, data), g.rangekeeper.restore(spec, data))
		g.compareState()
	case p == 1:
		g.restorePastTheRange()
	case p <= 3 && len(g.taken) > 0:
		data := g.taken[g.rand.IntN(len(g.taken))]
		g.restoreBoth(data)
	default:
		g.restoreBoth(g.randomSnapshot())
	}
}

func (g *game[V]) restoreBoth(data []byte) {
	g.did("restore %d bytes: %x", len(data), data[:min(len(data), 80)])
	g.same("restore", g.reference.restore(g.layout.spec, data), g.rangekeeper.restore(g.layout.spec, data))
	g.compareState()
}

// restorePastTheRange restores bits past the range on Rangekeeper only, which refuses them and does not change its
// state. For the reference see TestFaultRestoreAcceptsBitsPastTheRange.
func (g *game[V]) restorePastTheRange() {
	set := new(big.Int).SetBytes(g.randomSnapshot())
	set.SetBit(set, g.layout.size+g.rand.IntN(100), 1)
	g.did("restore with a bit past the range: %x", set)
	g.same("restore", bitsPastRange, g.rangekeeper.restore(g.layout.spec, set.Bytes()))
	g.compareState()
}

func (g *game[V]) randomSnapshot() []byte {
	set := new(big.Int)
	size := g.layout.size
	if size == 0 {
		return nil
	}
	if size > dense {
		for range g.rand.IntN(20) {
			set.SetBit(set, g.rand.IntN(size), 1)
		}
	} else {
		percent := []int{0, 10, 50, 95, 100}[g.rand.IntN(5)]
		for offset := range size {
			if g.rand.IntN(100) < percent {
				set.SetBit(set, offset, 1)
			}
		}
	}
	data := set.Bytes()
	if g.rand.IntN(4) == 0 {
		// Neither side writes leading zero bytes, but both accept them.
		data = append(make([]byte, 1+g.rand.IntN(2)), data...)
	}
	return data
}

// dryRun compares with real operations of the reference, as its dry runs ignore the state: see
// TestFaultDryRunOfAddressesIgnoresState and TestFaultDryRunOfPortsAcceptsAnyPort.
func (g *game[V]) dryRun() {
	before := g.reference.used()
	value := g.value()
	switch g.rand.IntN(3) {
	case 0:
		g.did("dry run: allocate %v", value)
		g.same("dry run of allocate", g.tried(value), g.rangekeeper.dryRunAllocate(value))
	case 1:
		g.did("dry run: allocate next")
		want := done
		if g.reference.free() == 0 {
			want = full
		}
		g.same("dry run of allocate next", want, g.rangekeeper.dryRunAllocateNext())
	case 2:
		g.did("dry run: release %v", value)
		g.reference.dryRunRelease(value)
		g.rangekeeper.dryRunRelease(value)
	}
	g.same("used after a dry run", before, g.rangekeeper.used())
}

// tried returns the outcome of an allocation by the reference, and undoes it.
func (g *game[V]) tried(value V) outcome {
	outcome := g.reference.allocate(value)
	if outcome == done {
		g.reference.release(value)
	}
	return outcome
}

func (g *game[V]) compareState() {
	g.same("free", g.reference.free(), g.rangekeeper.free())
	g.same("used", g.reference.used(), g.rangekeeper.used())
	g.compareSnapshots()
	g.compareAll()
}

func (g *game[V]) compareSnapshots() {
	wantSpec, want := g.reference.snapshot()
	gotSpec, got := g.rangekeeper.snapshot()
	g.same("range of the snapshot", wantSpec, gotSpec)
	if !bytes.Equal(got, want) {
		g.fail("snapshot %x, want %x", got, want)
	}
	if len(g.taken) < 4 {
		g.taken = append(g.taken, slices.Clone(want))
	}
}

func (g *game[V]) compareAll() {
	if want, got := g.reference.all(), g.rangekeeper.all(); !slices.Equal(got, want) {
		g.fail("for each visits %v, want %v", got, want)
	}
}

// value returns a random value, mostly in the range. In a large range it is from a part, so that operations share
// values.
func (g *game[V]) value() V {
	if g.layout.size == 0 || g.rand.IntN(6) == 0 {
		return g.layout.stray(g.rand)
	}
	offset := g.rand.IntN(min(g.layout.size, 40))
	if g.rand.IntN(2) == 0 {
		offset = g.layout.size - 1 - offset
	}
	return g.layout.at(offset)
}

func (g *game[V]) same(what string, want, got any) {
	if got != want {
		g.fail("%s: Rangekeeper %#v, reference %#v", what, got, want)
	}
}

func (g *game[V]) did(format string, args ...any) {
	g.history = append(g.history, fmt.Sprintf(format, args...))
}

func (g *game[V]) fail(format string, args ...any) {
	g.t.Helper()
	g.t.Errorf("%s: %s", g.layout.spec, fmt.Sprintf(format, args...))
	for _, line := range g.history {
		g.t.Log(line)
	}
	g.history = nil
}
