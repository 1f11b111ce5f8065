package etcdstoretest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestCheckersBite returns histories to explain and to Porcupine, wrong ones among them.
// An operation that nothing is said of is over before the next one begins.
func TestCheckersBite(t *testing.T) {
	const (
		fine    = "fine"
		against = "against the history"
		order   = "not linearizable"
	)
	set := func(revision int64, offset uint32) change { return change{revision, offset, true} }
	clear := func(revision int64, offset uint32) change { return change{revision, offset, false} }
	next := func(offset uint32, revision int64) *operation {
		return &operation{kind: allocateNext, outcome: done, offset: offset, revision: revision}
	}
	this := func(offset uint32, o outcome) *operation {
		return &operation{kind: allocate, outcome: o, offset: offset}
	}
	free := func(offset uint32, asOf int64, o outcome) *operation {
		return &operation{kind: release, outcome: o, offset: offset, asOf: asOf}
	}
	batch := func(revision int64, offsets ...uint32) *operation {
		return &operation{kind: allocateBatch, outcome: done, wanted: []uint32{anyOffset, offsets[1]}, given: offsets, revision: revision}
	}
	noBatch := func(place int, full bool, wanted ...uint32) *operation {
		return &operation{kind: allocateBatch, outcome: refused, wanted: wanted, place: place, full: full}
	}
	unknownNext := &operation{kind: allocateNext}
	unknownBatch := &operation{kind: allocateBatch, wanted: []uint32{anyOffset, 2}}
	cleaned := func(offset uint32, seen int64) *operation {
		return &operation{kind: clean, outcome: done, offset: offset, asOf: seen}
	}
	lost := func(o *operation) *operation {
		o.givenUp = map[uint32]time.Duration{o.offset: 0}
		return o
	}
	var fullChanges []change
	var fullOperations []*operation
	for offset := range uint32(values) {
		fullChanges = append(fullChanges, set(int64(offset)+2, offset))
		fullOperations = append(fullOperations, next(offset, int64(offset)+2))
	}
	full := &operation{kind: allocateNext, outcome: refused}

	for name, c := range map[string]struct {
		changes    []change
		operations []*operation
		lossy      bool
		verdict    string
	}{
		"hand-over": {
			changes:    []change{set(2, 1), clear(3, 1), set(4, 1)},
			operations: []*operation{next(1, 2), free(1, 2, done), free(1, 2, refused), next(1, 4), free(1, 2, refused), this(1, refused)},
			verdict:    fine,
		},
		"handed out twice": {
			changes: []change{set(2, 1)}, operations: []*operation{next(1, 2), next(1, 2)}, verdict: against,
		},
		"handed out and not stored": {
			changes: []change{set(2, 1)}, operations: []*operation{next(1, 2), next(1, 3)}, verdict: against,
		},
		"half a release": {
			changes: []change{set(2, 1)}, operations: []*operation{next(1, 2), free(1, 2, done)}, verdict: against,
		},
		"released twice": {
			changes: []change{set(2, 1), clear(3, 1)}, operations: []*operation{next(1, 2), free(1, 2, done), free(1, 2, done)},
			verdict: against,
		},
		"an old release takes it from its new owner": {
			changes:    []change{set(2, 1), clear(3, 1), set(4, 1), clear(5, 1)},
			operations: []*operation{next(1, 2), free(1, 2, done), next(1, 4), free(1, 2, refused)},
			verdict:    against,
		},
		"not released and said to be free": {
			changes: []change{set(2, 1)}, operations: []*operation{next(1, 2), free(1, 2, refused)}, verdict: against,
		},
		"expired and done": {
			changes: []change{set(2, 1)}, operations: []*operation{this(1, expired)}, verdict: against,
		},
		"deferred and done": {
			changes: []change{set(2, 1), clear(3, 1)}, operations: []*operation{next(1, 2), free(1, 2, deferred)}, verdict: against,
		},
		"unknown and done": {
			changes: []change{set(2, 1)}, operations: []*operation{this(1, unknown), this(1, refused)}, verdict: fine,
		},
		"unknown and not done": {
			operations: []*operation{this(1, unknown), {kind: allocateNext, outcome: unknown}}, verdict: fine,
		},
		"unknown, done and given back": {
			changes:    []change{set(2, 1), clear(3, 1), set(4, 1)},
			operations: []*operation{this(1, unknown), next(1, 4)}, verdict: fine,
		},
		"unknown, given back, and then looked for by a pass": {
			changes:    []change{set(2, 1), clear(3, 1), set(4, 1)},
			operations: []*operation{this(1, unknown), next(1, 4), {kind: clean, outcome: unknown, asOf: 2}}, verdict: fine,
		},
		"an unknown one has two effects": {
			changes: []change{set(2, 1), set(3, 2)}, operations: []*operation{{kind: allocateNext, outcome: unknown}}, verdict: against,
		},
		"seen before it was called": {
			changes: []change{set(2, 1)}, operations: []*operation{this(1, refused), this(1, unknown)}, verdict: order,
		},
		"leaked by a lost answer": {
			changes: []change{set(2, 1), set(3, 2)}, operations: []*operation{next(2, 3)}, lossy: true, verdict: fine,
		},
		"done by a lost answer, and said to be another's": {
			changes: []change{set(2, 1)}, operations: []*operation{this(1, refused)}, lossy: true, verdict: against,
		},
		"freed by a lost answer": {
			changes: []change{set(2, 1), clear(3, 1)}, operations: []*operation{next(1, 2), free(1, 2, refused)}, lossy: true,
			verdict: fine,
		},
		"leaked without one": {
			changes: []change{set(2, 1), set(3, 2)}, operations: []*operation{next(2, 3)}, verdict: against,
		},
		"full": {
			changes: fullChanges, operations: append(fullOperations[:values:values], full), verdict: fine,
		},
		"full from a stale cache": {
			changes:    append(fullChanges[:values:values], clear(20, 3)),
			operations: append(fullOperations[:values:values], full, free(3, 19, done), full), verdict: order,
		},
		"full too early": {
			changes: fullChanges, operations: append([]*operation{full}, fullOperations...), verdict: order,
		},
		"already allocated from a stale cache": {
			changes:    []change{set(2, 1), clear(3, 1)},
			operations: []*operation{next(1, 2), free(1, 2, done), this(1, refused)}, verdict: order,
		},
		"free from a stale cache": {
			changes:    []change{set(2, 1), clear(4, 1)},
			operations: []*operation{next(1, 2), free(1, 2, refused), free(1, 2, done)}, verdict: order,
		},
		"batch": {
			changes:    []change{set(2, 1), set(2, 2), clear(3, 1), set(4, 1)},
			operations: []*operation{batch(2, 1, 2), free(1, 2, done), noBatch(1, false, anyOffset, 2), next(1, 4)},
			verdict:    fine,
		},
		"half a batch": {
			changes: []change{set(2, 1)}, operations: []*operation{batch(2, 1, 2)}, verdict: against,
		},
		"a batch in two revisions": {
			changes: []change{set(2, 1), set(3, 2)}, operations: []*operation{batch(2, 1, 2)}, verdict: against,
		},
		"an unknown batch": {
			changes: []change{set(2, 1), set(2, 2)}, operations: []*operation{unknownBatch}, verdict: fine,
		},
		"an unknown batch in two revisions": {
			changes: []change{set(2, 1), set(3, 2)}, operations: []*operation{unknownBatch}, verdict: against,
		},
		"an unknown batch takes too much": {
			changes: []change{set(2, 1), set(2, 2), set(2, 3)}, operations: []*operation{unknownBatch}, verdict: against,
		},
		"unknown ones, the later effect called first": {
			changes:    []change{set(2, 1), set(2, 2), set(3, 3)},
			operations: []*operation{unknownNext, unknownBatch}, verdict: fine,
		},
		"unknown ones have one effect too many": {
			changes:    []change{set(2, 1), set(2, 2), set(3, 3), set(3, 4)},
			operations: []*operation{unknownNext, unknownBatch}, verdict: against,
		},
		"a refused batch took some of it": {
			changes:    []change{set(2, 1), set(3, 2)},
			operations: []*operation{next(1, 2), noBatch(0, false, 1, anyOffset)}, verdict: against,
		},
		"a batch refused by a value that is free": {
			changes: []change{set(2, 1)}, operations: []*operation{next(1, 2), noBatch(0, false, 2, 1)}, verdict: order,
		},
		"too large a batch": {
			changes:    fullChanges[1:],
			operations: append(fullOperations[1:values:values], noBatch(1, true, anyOffset, anyOffset), noBatch(0, true, anyOffset, 0)),
			verdict:    fine,
		},
		"a batch that would have fitted": {
			changes: fullChanges[2:], operations: append(fullOperations[2:values:values], noBatch(1, true, anyOffset, anyOffset)),
			verdict: order,
		},
		"leak cleaned": {
			changes:    []change{set(2, 1), clear(3, 1), set(4, 1)},
			operations: []*operation{lost(next(1, 2)), cleaned(1, 2), next(1, 4)}, verdict: fine,
		},
		"cleaned and still somebody's": {
			changes: []change{set(2, 1), clear(3, 1)}, operations: []*operation{next(1, 2), cleaned(1, 2)}, verdict: against,
		},
		"cleaned after it has changed hands": {
			changes:    []change{set(2, 1), clear(3, 1), set(4, 1), clear(5, 1)},
			operations: []*operation{next(1, 2), free(1, 2, done), lost(next(1, 4)), cleaned(1, 3)}, verdict: against,
		},
		"revisions against time": {
			changes: []change{set(2, 1), set(3, 2)}, operations: []*operation{next(2, 3), next(1, 2)}, verdict: order,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var operations []*operation
			for i, o := range c.operations {
				own := *o // the same one may stand there twice
				own.call, own.end = time.Duration(2*i+1), time.Duration(2*i+2)
				operations = append(operations, &own)
			}
			verdict := fine
			ghosts, _, err := explain(c.changes, operations, holders{}, c.lossy)
			if err != nil {
				verdict = against
			} else if !porcupine.CheckOperations(model(), checkable(ghosts, operations)) {
				verdict = order
			}
			if verdict != c.verdict {
				t.Errorf("%s, expected %s: %v", verdict, c.verdict, fmt.Sprint(operations, err))
			}
		})
	}
}

// TestManyAtOnce checks changes that were all under way at the same time, as after a pause of etcd. They have too many
// orders to try one after the other.
func TestManyAtOnce(t *testing.T) {
	var operations []*operation
	for revision := int64(65); revision >= 2; revision-- { // a value is allocated, and released in the next revision
		o := &operation{kind: allocateNext, outcome: done, offset: uint32(revision/2) % values, revision: revision, end: time.Second}
		if revision%2 == 1 {
			o.kind, o.asOf = release, revision
		}
		operations = append(operations, o)
	}
	if verdict := porcupine.CheckOperationsTimeout(model(), checkable(nil, operations), checkTime); verdict != porcupine.Ok {
		t.Errorf("Porcupine says %s", verdict)
	}
}
