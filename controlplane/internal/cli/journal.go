package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"time"
)

// The outcomes of the transaction of a journal.
const (
	// outcomeUnknown is that of a run which has not ended, or was interrupted.
	outcomeUnknown = "unknown"
	outcomeWritten = "written"
)

// journal is the file that rangekeeper undo reads. It is complete before the transaction that it is about.
type journal struct {
	plan *changes
	name string
	log  io.Writer
	// interrupted: the file is of another run, which seems to be interrupted: it does not know whether its transaction took effect.
	interrupted bool
	// begun: the file is there for the transaction.
	begun bool
	// created is when this run created the file, zero if another one did.
	created time.Time
	// sent: the transaction may have taken effect.
	sent bool
	// written is the revision of the transaction, once it is known that it took effect.
	written int64
}

// check refuses a plan that was applied already, or that another run may be applying.
func (j *journal) check() error {
	there, err := readChanges(j.name, kindJournal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.interrupted = false
		return nil
	case err != nil:
		return err
	case there.Cluster != j.plan.Cluster || !reflect.DeepEqual(there.Ranges, j.plan.Ranges):
		return fmt.Errorf("%s: is the journal of another plan, which rangekeeper undo needs; rename the plan", j.name)
	case there.Outcome == outcomeWritten:
		return fmt.Errorf("%s: the plan was applied already, to the cluster whose Namespace kube-system has the UID %s; rangekeeper undo %s reverses it", j.name, there.Cluster.UIDText(), j.name)
	case time.Since(there.Time) < leakAge:
		return fmt.Errorf("%s: another run may be writing the plan; run the command again in %s", j.name, leakAge)
	}
	j.interrupted = true
	return nil
}

// begin has a journal before the transaction. All changes are still due, so an interrupted run wrote nothing. Its journal has the
// same changes and stays as it is: several runs may find it, and the one that writes says so in it.
func (j *journal) begin() error {
	if j.begun {
		return nil
	}
	if err := j.check(); err != nil {
		return err
	}
	if j.interrupted {
		fmt.Fprintf(j.log, "rangekeeper: %s is of a run that was interrupted; all changes are still due, so they are written now\n", j.name)
	} else {
		now := time.Now().UTC().Round(0) // by the clock of the other runs, which goes on while this one is suspended
		if err := j.write(now, false); err != nil {
			return err
		}
		j.created = now
	}
	j.begun = true
	return nil
}

func (j *journal) write(now time.Time, replace bool) error {
	c := *j.plan
	c.Kind, c.Time, c.Outcome, c.WrittenRevision = kindJournal, now, outcomeUnknown, j.written
	if j.written > 0 {
		c.Outcome = outcomeWritten
	}
	return c.create(j.name, replace)
}

// end records the outcome of the run, whose error it returns. A journal of nothing is removed, unless it is so old that another run
// may have taken it over.
func (j *journal) end(err error) error {
	switch {
	case err == nil && j.begun:
		if err = j.write(time.Now().UTC(), true); err == nil {
			fmt.Fprintf(j.log, "rangekeeper: rangekeeper undo %s takes back %s for 24 hours\n", j.name, j.plan.undoable())
		}
	case j.sent:
		err = fmt.Errorf("%w; if it was written, rangekeeper undo %s reverses it", err, j.name)
	case time.Since(j.created) < leakAge:
		err = errors.Join(err, os.Remove(j.name))
	case (j.begun || j.interrupted) && errors.Is(err, errChanged):
		err = fmt.Errorf("%w; another run may have written this: rangekeeper undo %s reverses it", err, j.name)
	}
	return err
}
