package edit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ErrChanged: a plan or a journal does not fit the cluster any more.
var ErrChanged = errors.New("the cluster has changed")

// edits change the ranges of a document: as a plan says, or back to what they were before a journal.
type edits struct {
	store *ranges.Store
	of    *Changes
	// kind is EditPlan, or EditUndo, which takes back what the document says.
	kind    rangekeeper.EditKind
	dryRun  bool
	journal *journal // nil for an undo
	log     io.Writer
	// read reads the cluster, at a revision if that is not 0, and refuses one that is not to be changed.
	read func(ctx context.Context, at int64) (*clusterstate.State, error)

	// seen is what was read last.
	seen   *clusterstate.State
	ranges []*rangeEdit
}

// rangeEdit is the edit of one range.
type rangeEdit struct {
	*editor
	of     *RangeChanges
	change rangekeeper.Edit
	// fates are what the looks and the write have made of each value.
	fates map[rangekeeper.Value]fate
	// written is the revision of the write, 0 if there was none.
	written int64
	// wasWritten: a run that was interrupted has written the range, and not its outcome. written is the revision at
	// which that was seen.
	wasWritten bool
}

// fate is what became of a value, in words: what stands against a plan, if anything, and the result of an undo.
type fate struct {
	against string
	undone
}

const mayBeUsed = ", so a Service that is being created may have it; run the command again"

// fatesInWords are all fates. After the words for a value in use come its Services.
var fatesInWords = map[rangekeeper.Fate]fate{
	rangekeeper.FateSet:          {"", undone{Result: ValueAllocated}},
	rangekeeper.FateCleared:      {"", undone{Result: ValueReleased}},
	rangekeeper.FateAlreadySet:   {"is recorded already", undone{Result: valueRecorded}},
	rangekeeper.FateAlreadyClear: {"is free already", undone{Result: ValueFree}},
	rangekeeper.FateInUse:        {"is used by ", kept("used by ")},
	rangekeeper.FateUnused:       {"is used by no Service any more", undone{}}, // never of an undo
	rangekeeper.FateReallocated:  {"was free for a moment" + mayBeUsed, kept("allocated again")},
	rangekeeper.FateUnsure:       {"may have been free for a moment" + mayBeUsed, kept("may have been allocated again")},
}

// carryOut looks at all ranges, and again after [LeakAge] if values are to be cleared: a request that creates a Service
// may have them. Only then it writes, one range after the other.
func (d *edits) carryOut(ctx context.Context) error {
	for i := range d.of.Ranges {
		one := &d.of.Ranges[i]
		if one.isDone() {
			continue
		}
		e, err := newEditor(d.store, one.Name, one.values, func(ctx context.Context, at int64) (_ *clusterstate.State, err error) {
			if at != 0 { // else a look has just seen the cluster, for all ranges
				d.seen, err = d.read(ctx, at)
			}
			return d.seen, err
		})
		if err != nil {
			return err
		}
		defer ranges.CloseRange(e.ranged) // nothing of it is under way
		change := rangekeeper.Edit{Kind: d.kind, Set: one.set, Clear: one.clear, Since: one.WrittenRevision}
		if d.kind == rangekeeper.EditUndo {
			change.Set, change.Clear = change.Clear, change.Set
		}
		d.ranges = append(d.ranges, &rangeEdit{editor: e, of: one, change: change, fates: map[rangekeeper.Value]fate{}})
	}
	if err := d.edit(ctx, true, d.ranges...); err != nil || d.dryRun {
		return err
	}
	clears := 0
	for _, e := range d.ranges {
		clears += len(e.clears())
	}
	if clears > 0 {
		fmt.Fprintf(d.log, "rangekeeper: waiting %.0f s to look again at %s to clear: a request that creates a Service may be under way\n", LeakAge.Seconds(), screen.Count(clears, "value"))
		select {
		case <-time.After(LeakAge):
		case <-ctx.Done():
			return fmt.Errorf("interrupted before anything is written: %w", ctx.Err())
		}
		if err := d.edit(ctx, true, d.ranges...); err != nil {
			return err
		}
	}
	for _, e := range d.ranges {
		if e.wasWritten {
			if err := d.journal.enter(e, OutcomeWritten); err != nil {
				return err
			}
			continue
		}
		if d.journal != nil && d.of.Mark == "" {
			if err := d.of.putMark(ctx, d.store); err != nil {
				return err
			}
		}
		if err := d.journal.enter(e, OutcomeUnknown); err != nil {
			return err
		}
		e.change.Clear = e.clears()
		err := d.edit(ctx, false, e)
		outcome := outcomeOf(err)
		if err == nil && d.journal != nil { // an etcd of before the write can have the mark of before it
			err = d.of.putMark(ctx, d.store)
		}
		if !errors.Is(err, ErrUndoBegan) { // the journal is the undo's
			err = errors.Join(err, d.journal.enter(e, outcome))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasAll reports whether a range is as an edit would make it.
func hasAll(edited rangekeeper.Edited) bool {
	return !slices.ContainsFunc(edited.Values, func(one rangekeeper.EditedValue) bool {
		return one.Fate != rangekeeper.FateAlreadySet && one.Fate != rangekeeper.FateAlreadyClear
	})
}

// clears returns the values that each look would have cleared.
func (e *rangeEdit) clears() []rangekeeper.Value {
	return slices.DeleteFunc(slices.Clone(e.change.Clear), func(value rangekeeper.Value) bool { return e.fates[value].Result != ValueReleased })
}

// edit writes ranges, or says in a dry run what would become of them. It fails if anything stands against that. Against
// an undo that is only a range that is gone: it keeps single values.
func (d *edits) edit(ctx context.Context, dryRun bool, some ...*rangeEdit) (err error) {
	if dryRun {
		if d.seen, err = d.read(ctx, 0); err != nil {
			return err
		}
	}
	isPlan, since := d.kind == rangekeeper.EditPlan, d.of.Revision
	var against []string
	for _, e := range some {
		since = max(since, e.change.Since)
		if isPlan && e.change.Since == 0 { // the first look, which later ones look back to
			e.change.Since = d.seen.Revision
		}
		edited, state, err := e.run(ctx, e.change, dryRun, func(*clusterstate.State) error { return d.journal.checkUndo() })
		other := (*rangekeeper.MismatchedRangeError)(nil)
		switch isOther, isMissing := errors.As(err, &other), errors.Is(err, rangekeeper.ErrNotInitialised); {
		case isPlan && (isOther || isMissing):
			against = append(against, fmt.Sprintf("there is no range %s %s", e.name, e.of.Range))
			continue
		case isOther:
			return fmt.Errorf("%s: %w: %s is %s, not %s", d.of.file, ErrChanged, e.name, other.Found, e.of.Range)
		case isMissing:
			return d.store.Missing(ctx, e.name)
		case err != nil:
			return err
		}
		if e.wasWritten = dryRun && isPlan && e.of.Outcome == OutcomeUnknown && hasAll(edited); e.wasWritten {
			e.written = edited.Revision
			continue
		}
		users, err := audit.Users(state)
		if err != nil {
			return err
		}
		for _, one := range edited.Values {
			now := fatesInWords[one.Fate]
			if one.Fate == rangekeeper.FateInUse {
				services := strings.Join(users[one.Value], ", ")
				now.against, now.Reason = now.against+services, now.Reason+services
			}
			if isPlan && now.against != "" {
				against = append(against, one.Value.String()+" "+now.against)
			}
			// What a look would not clear, a later one does not.
			if _, isKnown := e.fates[one.Value]; !isKnown || now.Result != ValueReleased {
				e.fates[one.Value] = now
			}
		}
		if !dryRun && edited.Revision > state.Revision {
			e.written = edited.Revision
		}
	}
	if len(against) > 0 {
		return d.changed(since, against)
	}
	return nil
}

// mostNamed is the number of differences that an error names.
const mostNamed = 5

// changed is the error about differences between a plan and the cluster, the first of which it has.
func (d *edits) changed(since int64, against []string) error {
	nothing, rest := "nothing", ""
	if len(d.of.written()) > 0 {
		nothing = "nothing more"
	}
	if n := len(against) - mostNamed; n > 0 {
		against, rest = against[:mostNamed], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("%s: %w since revision %d, so %s was written: %s%s", d.of.file, ErrChanged, since, nothing, strings.Join(against, "; "), rest)
}
