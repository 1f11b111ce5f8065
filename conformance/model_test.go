// Package upstream plays the same random operations on Rangekeeper and on the reference's own allocators,
// k8s.io/kubernetes at the version in go.mod, and compares every answer.
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
	// floor is the least number of sequences.
	floor = 200_000
	// stepsMost is the length of the longest sequence.
	stepsMost = 60
	// dense is the largest range that is filled up; in larger ones only a few offsets are set, as the
	// reference visits them one by one at 0.4 µs each.
	dense = 600
)

// TestMain silences the warnings that the reference logs for each port that is released outside of its range.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random sequences")

// outcome is how an operation ended: "" for success, else the kind of error.
// One that carries the valid range has it after the kind.
type outcome string

const (
	done       outcome = ""
	full       outcome = "full"
	allocated  outcome = "already allocated"
	mismatched outcome = "mismatched range"
	// bitsPastRange is reported by Rangekeeper only, see TestFaultRestoreTakesBitsPastTheRange.
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
	// all returns the values that for_each visits, in its order.
	all() []V
	snapshot() (rangeSpec string, data []byte)
	restore(rangeSpec string, data []byte) outcome
	dryRunAllocate(V) outcome
	dryRunAllocateNext() outcome
	dryRunRelease(V)
	close()
}

// layout is a range as the reference lays it out, with ways to name values in and around it.
type layout[V comparable] struct {
	spec string
	// otherSpec is a range of the same kind that is not this one.
	otherSpec  string
	size, band int
	// at is the value of an offset. Offsets below 0 and from size on lie around the range.
	at func(offset int) V
	// stray is any value, often one at an edge or of another family.
	stray func(*rand.Rand) V
}

func TestSameAsReference(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	var addresses, ports, steps int
	for addresses+ports < floor {
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
	if addresses < floor/2 || ports < floor/5 {
		t.Errorf("too few sequences of one kind for a floor of %d", floor)
	}
}

// game is one sequence on one range.
type game[V comparable] struct {
	t                      *testing.T
	rand                   *rand.Rand
	layout                 layout[V]
	reference, rangekeeper subject[V]
	// history is the sequence so far, printed with a difference.
	history []string
	// taken are snapshots made on the way, to be restored later.
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

// allocateNext lets one side pick and the other allocate that very value: the picks are random, so they
// cannot be equal, but each must be one that the other side could have picked.
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
			g.fail("allocate next took %v from the static band while the dynamic band had room", picked)
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

// restore restores a random snapshot, one taken earlier, or one that does not fit.
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

// restorePastTheRange restores bits that lie past the range: Rangekeeper refuses them and stays as it was.
// The reference is not asked, see TestFaultRestoreTakesBitsPastTheRange.
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
		// No one writes leading zero bytes, and both take them.
		data = append(make([]byte, 1+g.rand.IntN(2)), data...)
	}
	return data
}

// dryRun compares with real operations of the reference, as its dry runs do not look at the state; see
// TestFaultDryRunOfAddressesDoesNotLook and TestFaultDryRunOfPortsTakesAnyPort.
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

// tried is how an allocation by the reference ends; it is undone.
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

// value is mostly one in the range; small ranges are drawn from as a whole, large ones from a part, so that values meet.
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
