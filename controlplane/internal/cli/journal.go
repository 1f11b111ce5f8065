package cli

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

// The outcomes of the write of a range.
const (
	// outcomePending is that of a range that no run has begun to write, or could not write.
	outcomePending = "pending"
	// outcomeUnknown is that of a write under way, or whose run was interrupted.
	outcomeUnknown = "unknown"
	outcomeWritten = "written"
)

// journal is the file that rangekeeper undo reads. It has all changes before the first write, and the outcome of each range.
type journal struct {
	plan *changes
	name string
	log  io.Writer
	// interrupted: the file is of another run, which seems to be interrupted: a range may be written though the file does not say so.
	interrupted bool
	// begun: the file is there for the next write.
	begun bool
	// created is when this run created the file, zero if another one did.
	created time.Time
}

// check refuses a plan that was applied already, or that another run may be applying. It takes over which ranges an interrupted run
// has written.
func (j *journal) check() error {
	there, err := readChanges(j.name, kindJournal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.interrupted = false
		return nil
	case err != nil:
		return err
	case there.Cluster != j.plan.Cluster || !isOfPlan(there.Ranges, j.plan.Ranges):
		return fmt.Errorf("%s: is the journal of another plan, which rangekeeper undo needs; rename the plan", j.name)
	case !slices.ContainsFunc(there.Ranges, func(one rangeChanges) bool { return !one.isDone() }):
		return fmt.Errorf("%s: the plan was applied already, to the cluster whose Namespace kube-system has the UID %s; rangekeeper undo %s reverses it", j.name, there.Cluster.UIDText(), j.name)
	case time.Since(there.Time) < leakAge:
		return fmt.Errorf("%s: another run may be writing the plan; run the command again in %s", j.name, leakAge)
	}
	j.interrupted = true
	for i, one := range there.Ranges {
		j.plan.Ranges[i].Outcome, j.plan.Ranges[i].WrittenRevision = one.Outcome, one.WrittenRevision
	}
	return nil
}

// isOfPlan reports whether these are the changes of a plan, whatever their outcomes.
func isOfPlan(ranges, plan []rangeChanges) bool {
	if len(ranges) != len(plan) {
		return false
	}
	for i, one := range ranges {
		one.Outcome, one.WrittenRevision = plan[i].Outcome, plan[i].WrittenRevision
		if !reflect.DeepEqual(one, plan[i]) {
			return false
		}
	}
	return true
}

// written returns the names of the ranges that are written.
func (c *changes) written() (names []string) {
	for _, one := range c.Ranges {
		if one.Outcome == outcomeWritten {
			names = append(names, one.Name)
		}
	}
	return names
}

// begin has a journal before the first write. The changes of a range that an interrupted run has not recorded as written are still
// due, so it has not written them. Several runs may find its journal; the one that writes says so in it.
func (j *journal) begin() error {
	if j.begun {
		return nil
	}
	if err := j.check(); err != nil {
		return err
	}
	if j.interrupted {
		fmt.Fprintf(j.log, "rangekeeper: %s is of a run that was interrupted; what it has not written is still due, and is written now\n", j.name)
	} else {
		now := time.Now().UTC().Round(0) // by the clock of the other runs, which goes on while this one is suspended
		for i := range j.plan.Ranges {
			j.plan.Ranges[i].Outcome = outcomePending
		}
		if err := j.write(now, false); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s: another run has begun to write the plan", j.name)
		} else if err != nil {
			return err
		}
		j.created = now
	}
	j.begun = true
	return nil
}

// record records the outcome of a range, and the revision of its write. What another run has written meanwhile stays recorded.
func (j *journal) record(one *rangeChanges, outcome string, revision int64) error {
	there, err := readChanges(j.name, kindJournal)
	if err != nil {
		return err
	}
	if outcome != outcomeWritten && slices.Contains(there.written(), one.Name) {
		return nil
	}
	one.Outcome, one.WrittenRevision = outcome, revision
	return j.write(time.Now().UTC(), true)
}

func (j *journal) write(now time.Time, replace bool) error {
	c := *j.plan
	c.Kind, c.Time = kindJournal, now
	return c.create(j.name, replace)
}

// end ends a run with an error or none, and returns it. A journal of nothing is removed, unless it is so old that another run may have
// taken it over.
func (j *journal) end(err error) error {
	written, isUnknown := j.plan.written(), errors.Is(err, errMayBeWritten)
	switch {
	case err == nil && j.begun:
		fmt.Fprintf(j.log, "rangekeeper: rangekeeper undo %s takes back %s for 24 hours\n", j.name, j.plan.undoable())
	case isUnknown:
		err = fmt.Errorf("%w; if it was written, rangekeeper undo %s reverses it", err, j.name)
	case err != nil && len(written) > 0:
		err = fmt.Errorf("%w; written before: %s, which rangekeeper undo %s reverses", err, strings.Join(written, ", "), j.name)
	case time.Since(j.created) < leakAge:
		err = errors.Join(err, os.Remove(j.name))
	case (j.begun || j.interrupted) && errors.Is(err, errChanged):
		err = fmt.Errorf("%w; another run may have written this: rangekeeper undo %s reverses it", err, j.name)
	}
	return err
}
