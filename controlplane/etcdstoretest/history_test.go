package etcdstoretest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// state is what the key holds in one revision, decoded without the library that is
// tested. The zero state is that of a key that was never written.
type state struct {
	revision, version int64
	used              *big.Int
}

// change is one offset that a revision set or cleared.
type change struct {
	revision int64
	offset   uint32
	set      bool
}

func (c change) String() string {
	if c.set {
		return fmt.Sprintf("offset %d was set in revision %d", c.offset, c.revision)
	}
	return fmt.Sprintf("offset %d was cleared in revision %d", c.offset, c.revision)
}

// readHistory returns every change of the stored object after a state, in order, and the
// state that it has now. Nothing may be missing between them, and every revision must
// hold an object for the range r.
func readHistory(ctx context.Context, client *clientv3.Client, key string, r rangekeeper.Range, after state) ([]change, state, error) {
	current, err := client.Get(ctx, key)
	if err != nil {
		return nil, after, err
	}
	if len(current.Kvs) == 0 {
		return nil, after, fmt.Errorf("%s: the key is gone", key)
	}
	end := current.Kvs[0].ModRevision
	first := max(after.revision+1, current.Kvs[0].CreateRevision)
	var changes []change
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	events := client.Watch(watch, key, clientv3.WithRev(first))
	for after.revision < end {
		answer, ok := <-events
		if !ok {
			return nil, after, fmt.Errorf("%s: the watch has ended: %w", key, context.Cause(ctx))
		}
		if err := answer.Err(); err != nil {
			return nil, after, fmt.Errorf("%s: %w", key, err)
		}
		for _, event := range answer.Events {
			kv := event.Kv
			if event.Type != clientv3.EventTypePut || kv.Version != after.version+1 {
				return nil, after, fmt.Errorf("%s: revision %d is a %s of version %d after version %d", key, kv.ModRevision, event.Type, kv.Version, after.version)
			}
			used, err := decode(kv.Value, r)
			if err != nil {
				return nil, after, fmt.Errorf("%s in revision %d: %w", key, kv.ModRevision, err)
			}
			for offset := range r.Size() {
				if is := used.Bit(int(offset)) == 1; is != (after.used != nil && after.used.Bit(int(offset)) == 1) {
					changes = append(changes, change{kv.ModRevision, offset, is})
				}
			}
			after = state{kv.ModRevision, kv.Version, used}
		}
	}
	return changes, after, nil
}

// decode reads a stored RangeAllocation as kube-apiserver does, with the API's own
// types.
func decode(value []byte, r rangekeeper.Range) (*big.Int, error) {
	raw, ok := bytes.CutPrefix(value, []byte("k8s\x00"))
	if !ok {
		return nil, fmt.Errorf("no protobuf object: %.20q", value)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(raw); err != nil {
		return nil, err
	}
	var object corev1.RangeAllocation
	if err := object.Unmarshal(envelope.Raw); err != nil {
		return nil, err
	}
	if envelope.Kind != "RangeAllocation" || object.Range != r.String() {
		return nil, fmt.Errorf("a %s for the range %q", envelope.Kind, object.Range)
	}
	used := new(big.Int).SetBytes(object.Data)
	if used.BitLen() > int(r.Size()) {
		return nil, fmt.Errorf("offset %d is set, the range has %d", used.BitLen()-1, r.Size())
	}
	return used, nil
}

// kind is what a caller asked for.
type kind int

const (
	allocateNext kind = iota
	allocate
	release
	allocateBatch // all or nothing
	clean         // a repair pass has freed an offset
	kinds         = 5
)

// anyOffset is what a batch asks for where it names none.
const anyOffset = ^uint32(0)

// outcome is the answer that its caller got.
type outcome int

const (
	unknown  outcome = iota // may have happened, may happen yet; also: killed before it was reported
	done                    // allocated, released
	refused                 // full, already allocated, was free
	deferred                // a release that did nothing
	expired                 // its deadline came before it was sent: it did nothing
	outcomes = 5
)

// operation is one call of a store.
type operation struct {
	kind    kind
	outcome outcome
	// offset is what was asked for, or what allocate next gave.
	offset uint32
	// wanted is what a batch asks for, and given what it was given; if it was refused, place is
	// that of what could not be had, because there was none left or because it was taken.
	wanted, given []uint32
	place         int
	full          bool
	// asOf is a release's as-of revision, or the revision that a repair pass has read.
	asOf int64
	// revision is the one in which it took effect, 0 if it did not. An allocation returns it, for a release it is
	// found in the history.
	revision int64
	// earlier is how many operations took effect in earlier revisions, and soFar in these and its own.
	earlier, soFar int
	// call and end are times on one clock.
	call, end time.Duration
	// ghost is set for what explain has added.
	ghost bool
	// useUntil is the end of an allocation's grace, givenUp says when its owner let go of an offset.
	useUntil time.Time
	givenUp  map[uint32]time.Duration
}

// offsets are those that an allocation was given.
func (o *operation) offsets() []uint32 {
	if o.kind == allocateBatch {
		return o.given
	}
	return []uint32{o.offset}
}

// most is how many offsets it may have changed, all in one revision unless it is a repair whose answer was lost.
func (o *operation) most() int {
	switch {
	case o.kind == allocateBatch:
		return len(o.wanted)
	case o.kind == clean && o.outcome == unknown:
		return math.MaxInt
	default:
		return 1
	}
}

func (o *operation) String() string {
	s := [kinds]string{
		"allocate next", fmt.Sprintf("allocate %d", o.offset), fmt.Sprintf("release %d from revision %d on", o.offset, o.asOf),
		fmt.Sprintf("allocate %d together (%d given)", o.wanted, o.given), fmt.Sprintf("clean %d, seen in revision %d", o.offset, o.asOf),
	}[o.kind]
	switch o.outcome {
	case unknown:
		s += ": unknown"
	case done:
		s += fmt.Sprintf(": done, offset %d, revision %d", o.offset, o.revision)
	case refused:
		s += ": refused"
		if o.kind == allocateBatch {
			s += fmt.Sprintf(" at %d, full: %t", o.place, o.full)
		}
	case deferred:
		s += ": deferred"
	case expired:
		s += ": expired"
	}
	if o.ghost {
		s += " (from the history)"
	}
	return s + fmt.Sprintf(" [%v, %v]", o.call, o.end)
}

// mayHaveSet reports whether it is an allocation without an answer that may have been given an offset.
func (o *operation) mayHaveSet(offset uint32) bool {
	if o.outcome != unknown {
		return false
	}
	switch o.kind {
	case allocateNext:
		return true
	case allocate:
		return o.offset == offset
	case allocateBatch:
		return slices.Contains(o.wanted, offset) || slices.Contains(o.wanted, anyOffset)
	default:
		return false
	}
}

// holders says of each offset in which revision it was set, if it is.
type holders map[uint32]int64

// explain pairs each change of the stored object with the operation that made it:
// each acknowledged operation has made exactly one, each unknown one at most one. It
// updates held, notes the revisions of releases, and returns an operation of its own for
// each change that no acknowledged one explains: it took effect at some time after the
// call of the first that may have made it.
//
// An answer of etcd may have been lost only where lossy says so. Then an allocate next
// may have leaked an offset before it took another one, and a release that found its
// offset free may have freed it itself.
func explain(changes []change, operations []*operation, held holders, lossy bool) (ghosts []*operation, leaks int, err error) {
	type place struct {
		revision int64
		offset   uint32
	}
	var faults []error
	acknowledged := map[place]*operation{}
	for _, o := range operations {
		if o.kind == release || o.kind == clean || o.outcome != done {
			continue
		}
		for _, offset := range o.offsets() {
			at := place{o.revision, offset}
			if other := acknowledged[at]; other != nil {
				faults = append(faults, fmt.Errorf("handed out twice: %v; %v", other, o))
			}
			acknowledged[at] = o
		}
	}
	// made is how many changes an operation has made, madeIn the revision of them.
	made, madeIn := map[*operation]int{}, map[*operation]int64{}
	// take returns an operation that fits and may have made one more change in this revision. A repair whose answer was
	// lost is planned again, and may then clear what was handed out too recently before: in another revision.
	take := func(revision int64, fits func(o *operation) bool) *operation {
		for _, o := range operations {
			repeats := o.kind == clean && o.outcome == unknown
			if made[o] < o.most() && (made[o] == 0 || madeIn[o] == revision || repeats) && fits(o) {
				made[o]++
				madeIn[o] = revision
				return o
			}
		}
		return nil
	}
	// earliest says when the first one was called that fits: which of several it was nobody knows.
	earliest := func(fits func(o *operation) bool) time.Duration {
		call := forever
		for _, o := range operations {
			if fits(o) {
				call = min(call, o.call)
			}
		}
		return call
	}
	mayLeak := lossy && slices.ContainsFunc(operations, func(o *operation) bool { return o.kind == allocateNext || o.kind == allocateBatch })
	var unacknowledged []change
	for _, c := range changes {
		if c.set && acknowledged[place{c.revision, c.offset}] == nil {
			unacknowledged = append(unacknowledged, c)
		}
	}
	makers, err := assign(unacknowledged, operations, mayLeak)
	if err != nil {
		faults = append(faults, err)
	}
	ghostAt := map[place]*operation{}
	for _, c := range changes {
		ghost := &operation{offset: c.offset, outcome: done, revision: c.revision, end: forever, ghost: true}
		if c.set {
			held[c.offset] = c.revision
			if o := acknowledged[place{c.revision, c.offset}]; o != nil {
				made[o]++
				continue
			}
			ghost.kind, ghost.call = allocate, earliest(func(o *operation) bool { return o.mayHaveSet(c.offset) })
			if makers[c] == nil {
				leaks++
			}
			if lossy {
				ghost.call = 0
			}
			ghostAt[place{c.revision, c.offset}] = ghost
			ghosts = append(ghosts, ghost)
			continue
		}
		set := held[c.offset]
		delete(held, c.offset)
		meant := func(o *operation) bool {
			one := o.offset == c.offset && (o.kind == release || o.kind == clean)
			return (one || o.kind == clean && o.outcome == unknown) && set <= o.asOf && o.asOf < c.revision
		}
		// A pass frees what nobody has.
		cleaned := func(o *operation) {
			owner := acknowledged[place{set, c.offset}]
			if o.kind != clean || owner == nil {
				return
			}
			if at, ok := owner.givenUp[c.offset]; !ok || o.outcome == done && at > o.end {
				faults = append(faults, fmt.Errorf("%v by %v, and belonged to %v", c, o, owner))
			}
		}
		if o := take(c.revision, func(o *operation) bool { return meant(o) && o.outcome == done }); o != nil {
			o.revision = c.revision
			cleaned(o)
			continue
		}
		fits := func(o *operation) bool { return meant(o) && (o.outcome == unknown || lossy && o.outcome == refused) }
		ghost.kind, ghost.asOf, ghost.call = release, c.revision-1, earliest(fits)
		if origin := ghostAt[place{set, c.offset}]; origin != nil {
			// The store gives back what its caller does not wait for any more, before any of those that fit or after.
			ghost.call = min(ghost.call, origin.call)
		} else if o := take(c.revision, fits); o != nil {
			cleaned(o)
		} else {
			faults = append(faults, fmt.Errorf("%v and nobody has released it", c))
			continue
		}
		ghosts = append(ghosts, ghost)
	}
	for _, o := range operations {
		if o.outcome == done && made[o] < len(o.offsets()) {
			faults = append(faults, fmt.Errorf("acknowledged but not in the store: %v", o))
		}
		if set, isHeld := held[o.offset]; isHeld && o.kind == release && (o.outcome == done || o.outcome == refused) && set <= o.asOf {
			faults = append(faults, fmt.Errorf("not free, set in revision %d: %v", set, o))
		}
	}
	return ghosts, leaks, errors.Join(faults...)
}

// assign finds an allocation without an answer for each change, and none for a leak. It tries every way: one that takes
// the first that fits may have nobody left for a later change, which only that one can have made.
func assign(changes []change, operations []*operation, mayLeak bool) (map[change]*operation, error) {
	const mostSteps = 1 << 20
	makers := map[change]*operation{}
	made, madeIn := map[*operation]int{}, map[*operation]int64{}
	steps, furthest := 0, 0
	var assignFrom func(i int) bool
	assignFrom = func(i int) bool {
		steps++
		furthest = max(furthest, i)
		if i == len(changes) || steps > mostSteps {
			return i == len(changes)
		}
		c := changes[i]
		// Those that ask for the same can stand for each other: one of them is tried.
		tried := map[string]bool{}
		for _, o := range operations {
			same := fmt.Sprint(o.kind, o.offset, o.wanted, made[o])
			if !o.mayHaveSet(c.offset) || made[o] == o.most() || made[o] > 0 && madeIn[o] != c.revision || tried[same] {
				continue
			}
			tried[same] = true
			made[o]++
			madeIn[o], makers[c] = c.revision, o
			if assignFrom(i + 1) {
				return true
			}
			made[o]--
			delete(makers, c)
		}
		return mayLeak && assignFrom(i+1)
	}
	if assignFrom(0) {
		return makers, nil
	}
	return makers, fmt.Errorf("%v and nobody has asked for it (after %d steps)", changes[furthest], steps)
}

// forever is the end of an operation that may take effect at any time.
const forever = time.Duration(1<<63 - 1)
