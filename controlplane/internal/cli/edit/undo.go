package edit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// undoFor is how long a repair can be undone.
const undoFor = 24 * time.Hour

// UndoneSuffix is that of a journal whose changes are all undone.
const UndoneSuffix = ".undone"

// UndoneValue is what becomes of a value.
type UndoneValue struct {
	Range string `json:"range"`
	Value string `json:"value"`
	undone
}

// undone is what becomes of a value.
type undone struct {
	// Result is ValueAllocated, ValueReleased, valueRecorded, ValueFree or ValueKept.
	Result string `json:"result"`
	// Reason is why the value is kept.
	Reason string `json:"reason,omitempty"`
}

func kept(reason string) undone { return undone{ValueKept, reason} }

// UndoResult is the result of an undo.
type UndoResult struct {
	// Values are those that the repair has changed, by range and value.
	Values []UndoneValue
	// WrittenRevision is that of the last write, 0 if nothing was written.
	WrittenRevision int64
	// Seen is what was read last.
	Seen *clusterstate.State
}

// KeepsAny reports whether a value stays as it is.
func (u *UndoResult) KeepsAny() bool {
	return slices.ContainsFunc(u.Values, func(one UndoneValue) bool { return one.Result == ValueKept })
}

// Undoable is a journal that can be undone.
type Undoable struct {
	*Changes
	// dryRun says that nothing is to be written.
	dryRun bool
	// all are the names of all ranges, those of which nothing is to be undone too.
	all []string
	// unwritten is the name of a plan of which nothing is written yet, so there is no journal.
	unwritten string
}

// OpenJournal reads a journal, and refuses one that cannot be undone.
func OpenJournal(path string, dryRun bool) (*Undoable, error) {
	j, err := ReadDocument(path, KindJournal)
	_, missing := os.Stat(path + UndoneSuffix)
	if errors.Is(err, fs.ErrNotExist) && missing == nil {
		return nil, fmt.Errorf("%s: all of it was undone, so it is %s%s now", path, path, UndoneSuffix)
	}
	if plan, isName := strings.CutSuffix(path, JournalSuffix); isName && errors.Is(err, fs.ErrNotExist) {
		if c, err := ReadDocument(plan, KindReviewedPlan); err == nil {
			u := &Undoable{Changes: c, dryRun: dryRun, all: c.names(), unwritten: plan}
			u.file, u.Ranges = path, nil
			return u, nil
		}
	}
	if err != nil {
		return nil, err
	}
	switch age := time.Since(j.Time); {
	case strings.HasSuffix(path, UndoneSuffix):
		return nil, fmt.Errorf("%s: all of it was undone", path)
	case age > undoFor:
		return nil, fmt.Errorf("%s: is %s old; a repair can be undone for %s", path, age.Round(time.Minute), undoFor)
	case missing == nil && !dryRun:
		return nil, fmt.Errorf("%s%s: is of an earlier undo; rename it first", path, UndoneSuffix)
	}
	u := &Undoable{Changes: j, dryRun: dryRun, all: j.names()}
	// What was not written is not undone, and what may be is due.
	j.Ranges = slices.DeleteFunc(j.Ranges, func(one RangeChanges) bool { return one.Outcome == OutcomePending })
	for i := range j.Ranges {
		j.Ranges[i].Outcome = ""
	}
	return u, nil
}

// Undo reverses what the journal says, or says in a dry run what would become of it.
func (u *Undoable) Undo(ctx context.Context, stored *ranges.Store, log io.Writer) (*UndoResult, error) {
	d := &edits{store: stored, of: u.Changes, kind: rangekeeper.EditUndo, dryRun: u.dryRun, log: log}
	look := lookReadable(stored)
	d.read = func(ctx context.Context, at int64) (*clusterstate.State, error) {
		state, err := look(ctx, at)
		if err == nil {
			err = u.CheckCluster(ctx, stored, state)
		}
		return state, err
	}
	if !u.dryRun {
		if _, err := d.read(ctx, 0); err != nil { // of another cluster, maybe
			return nil, err
		}
		if err := u.begin(ctx, stored); err != nil {
			return nil, err
		}
	}
	if u.unwritten != "" {
		if err := u.checkUnwritten(log); err != nil {
			return nil, err
		}
	}
	if err := d.carryOut(ctx); err != nil {
		return nil, err
	}
	done := &UndoResult{Values: []UndoneValue{}, Seen: d.seen}
	for _, e := range d.ranges {
		done.WrittenRevision = max(done.WrittenRevision, e.written)
		for value, what := range e.fates {
			done.Values = append(done.Values, UndoneValue{e.name, value.String(), what.undone})
		}
	}
	slices.SortFunc(done.Values, func(a, b UndoneValue) int {
		return cmp.Or(cmp.Compare(a.Range, b.Range), audit.CompareValues(a.Value, b.Value))
	})
	return done, nil
}

// begin stops a run that may still be writing the plan. It may be suspended anywhere: before it looks, it finds the
// file; after that, its look is gone, and nothing that depends on it is written.
func (u *Undoable) begin(ctx context.Context, stored *ranges.Store) error {
	file, err := os.OpenFile(u.file+UndoingSuffix, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // else an undo has begun before
		return err
	}
	for _, name := range u.all {
		if err := etcdstore.EndLooks(ctx, stored.Client, stored.Key(name)); err != nil {
			return etcdflags.Explained(err)
		}
	}
	return nil
}

// checkUnwritten says that nothing is to be undone, and fails if a run has written meanwhile. After begin no run that
// has begun before can.
func (u *Undoable) checkUnwritten(log io.Writer) error {
	if _, err := os.Stat(u.file); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fmt.Errorf("%s: a run has begun to write the plan meanwhile; run the command again", u.file))
	}
	stops := "a run that waits to write it is stopped"
	if u.dryRun {
		stops = "without --dry-run, a run that waits to write it is stopped"
	}
	fmt.Fprintf(log, "rangekeeper: no repair has written %s yet, so nothing is to be undone; %s\n", u.unwritten, stops)
	return nil
}

// Close renames the journal, all of which is undone.
func (u *Undoable) Close() error {
	if u.unwritten != "" { // its mark stays for the run that waits
		return nil
	}
	if err := os.Rename(u.file, u.file+UndoneSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) { // else another undo has done it
		return err
	}
	if err := os.Remove(u.file + UndoingSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
