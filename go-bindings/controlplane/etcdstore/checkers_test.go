package etcdstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestCheckersBite gives histories to explain and to Porcupine, wrong ones among them.
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
	free := func(offset uint32, anchor int64, o outcome) *operation {
		return &operation{kind: release, outcome: o, offset: offset, anchor: anchor}
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
