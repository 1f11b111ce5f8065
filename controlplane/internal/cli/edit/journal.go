package edit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
)

// JournalSuffix is added to the name of a plan.
const JournalSuffix = ".journal"

// The outcomes of the write of a range.
const (
	// OutcomePending is that of a range that no run has begun to write, or could not write.
	OutcomePending = "pending"
	// OutcomeUnknown is that of a write under way, or whose run was interrupted.
	OutcomeUnknown = "unknown"
	OutcomeWritten = "written"
)

// journal is the file that rangekeeper undo reads. It has all changes before the first write, and the outcome of each
// range.
type journal struct {
	plan *Changes
	name string
	log  io.Writer
	// isThere: there is the file of this run, or of one that seems to be interrupted: a range may be written though it
	// does not say so.
	isThere bool
	// begun: this run has an entry in it.
	begun bool
	// created is when this run created the file, zero if another one did.
	created time.Time
}

// UndoingSuffix is that of a file beside a journal which says that an undo has begun.
const UndoingSuffix = ".undoing"

// ErrUndoBegan: what a run would write next, an undo would not know of.
var ErrUndoBegan = errors.New("rangekeeper undo has begun to reverse the plan")

// checkUndo fails once an undo has begun. It comes after a look: the undo ends all looks once its file is there, so a
// write that depends on one that is not ended by then comes before the undo looks.
func (j *journal) checkUndo() error {
	if j == nil {
		return nil
	}
	_, noUndo := os.Stat(j.name + UndoingSuffix)
	_, err := os.Stat(j.name)
	if noUndo == nil || j.begun && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w; nothing more is written, make a new plan", j.name, ErrUndoBegan)
	}
	return nil
}

// ErrOtherRun is who writes a plan instead of this run: nothing is wrong with the plan, which is still to be written.
var ErrOtherRun = errors.New("another run")

// check refuses a plan that was applied already, or that another run may be applying. It takes over which ranges an
// interrupted run has written.
func (j *journal) check() error {
	there, err := ReadDocument(j.name, KindJournal)
	j.isThere = !errors.Is(err, fs.ErrNotExist)
	undoBegan := j.checkUndo()
	switch {
	case !j.isThere && undoBegan != nil:
		return undoBegan
	case !j.isThere:
		for i := range j.plan.Ranges {
			j.plan.Ranges[i].Outcome, j.plan.Ranges[i].WrittenRevision = OutcomePending, 0
		}
		return nil
	case err != nil:
		return err
	case there.Cluster != j.plan.Cluster || !slices.EqualFunc(there.Ranges, j.plan.Ranges, hasChangesOf):
		return fmt.Errorf("%s: is the journal of another plan, which rangekeeper undo needs; rename the plan", j.name)
	case undoBegan != nil:
		return undoBegan
	case !slices.ContainsFunc(there.Ranges, func(one RangeChanges) bool { return !one.isDone() }):
		return fmt.Errorf("%s: the plan was applied already, to the cluster whose Namespace kube-system has the UID %s; rangekeeper undo %s reverses it", j.name, there.Cluster.UIDText(), j.name)
	case time.Since(there.Time) < LeakAge:
		left := max(LeakAge-time.Since(there.Time), time.Second).Round(time.Second)
		return fmt.Errorf("%s: %w may be writing the plan; run the command again in %s", j.name, ErrOtherRun, left)
	}
	copy(j.plan.Ranges, there.Ranges)
	j.plan.Mark = there.Mark
	return nil
}

// hasChangesOf reports whether two ranges have the same changes, whatever their outcomes.
func hasChangesOf(a, b RangeChanges) bool {
	a.Outcome, a.WrittenRevision = b.Outcome, b.WrittenRevision
	return reflect.DeepEqual(a, b)
}

// written returns the names of the ranges that are written.
func (c *Changes) written() (names []string) {
	for _, one := range c.Ranges {
		if one.Outcome == OutcomeWritten {
			names = append(names, one.Name)
		}
	}
	return names
}

// outcomeOf returns the outcome of a write that has ended with an error or none.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return OutcomeWritten
	case errors.Is(err, ErrMayBeWritten):
		return OutcomeUnknown
	}
	return OutcomePending
}

// enter enters the outcome of a range, before and after its write. What another run has written meanwhile stays.
// Several runs may find the journal of an interrupted one; the one that writes says so in it.
func (j *journal) enter(e *rangeEdit, outcome string) (err error) {
	if j == nil { // an undo has none
		return nil
	}
	there := j.plan
	if !j.begun {
		err = j.check()
	} else if err = j.checkUndo(); err == nil {
		there, err = ReadDocument(j.name, KindJournal)
	} else if outcome == OutcomeWritten {
		err = fmt.Errorf("%w; %s was written before that", err, e.name)
	}
	if err != nil || outcome != OutcomeWritten && slices.Contains(there.written(), e.name) {
		return err
	}
	if j.isThere && !j.begun { // what it has not entered as written is still due, so it has not written it
		fmt.Fprintf(j.log, "rangekeeper: %s is of a run that was interrupted; what it has not written is still due, and is written now\n", j.name)
	}
	e.of.Outcome, e.of.WrittenRevision = outcome, e.written
	c := *j.plan
	c.Kind, c.Time = KindJournal, time.Now().UTC().Round(0) // by the clock of other runs, which goes on while this one is suspended
	if err := c.Create(j.name, j.isThere); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w has begun to write the plan", j.name, ErrOtherRun)
	} else if err != nil {
		return err
	}
	if !j.isThere {
		j.created = c.Time
	}
	j.isThere, j.begun = true, true
	return nil
}

// end ends a run with an error or none, and returns it. A journal of nothing is removed, unless it is so old that
// another run may have taken it over.
func (j *journal) end(err error) error {
	written := j.plan.written()
	switch {
	case errors.Is(err, ErrUndoBegan): // the journal is the undo's
	case err == nil && j.isThere:
		fmt.Fprintf(j.log, "rangekeeper: for 24 hours, rangekeeper undo %s takes back %s\n", j.name, j.plan.undoableText())
	case errors.Is(err, ErrMayBeWritten):
		err = fmt.Errorf("%w; if it was written, rangekeeper undo %s reverses it", err, j.name)
	case err != nil && len(written) > 0:
		err = fmt.Errorf("%w; written before: %s, which rangekeeper undo %s reverses", err, strings.Join(written, ", "), j.name)
	case time.Since(j.created) < LeakAge:
		err = errors.Join(err, os.Remove(j.name))
	case j.isThere && errors.Is(err, ErrChanged):
		err = fmt.Errorf("%w; another run may have written this: rangekeeper undo %s reverses it", err, j.name)
	}
	return err
}
