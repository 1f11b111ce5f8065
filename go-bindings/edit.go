package rangekeeper

import (
	"errors"
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Errors of an Edit, for errors.Is.
var (
	// ErrServicesWritten: a Service was written after those of the edit were listed, or its look is gone. List them
	// again.
	ErrServicesWritten = errors.New("a Service was written, or etcd restored, after Services were listed")
)

// EditKind is what an Edit demands of a value before it changes it.
type EditKind uint8

const (
	// EditChange demands of a value to record that it is free and that no Service uses it; of one to free that no
	// Service uses it. All is written or nothing; what is free already stays so.
	EditChange EditKind = iota
	// EditForce is EditChange, also of values that Services use.
	EditForce
	// EditPlan demands of a value to record that it is free and that a Service uses it; of one to free that it is
	// recorded, without a break since Edit.Since, and that no Service uses it. All is written or nothing.
	EditPlan
	// EditUndo demands nothing of a value to record; of one to free what EditPlan does. What can be changed is.
	EditUndo
)

// Edit is a change by hand: what an operator allocates and releases, carries out as planned, or takes back. It is
// written only if no Service has been written after the list.
type Edit struct {
	Kind EditKind
	// Set are the values to record, Clear those to free.
	Set, Clear []Value
	// Pick is how many more to record, chosen by the strategy. None of them is in use.
	Pick uint32
	// InUse are the values that Services use: Report.Snapshot with ValuesInUse.
	InUse []byte
	// Listed is the revision of the etcd of the range at which Services were listed: that of the look.
	Listed int64
	// Since is, for EditPlan and EditUndo, the revision from which on a value to free has to be recorded without a
	// break. Otherwise its record may be of a Service that is being created.
	Since int64
	// Look is the number of the look at the Services ([Committer.PassFenced]). With 0 it is a dry run: nothing is
	// picked or written, and the outcome says what would be done.
	Look uint64
}

// Fate is what became of a value of an Edit; if the edit is not done, what stands against it.
type Fate uint8

const (
	// FateSet: it is recorded now.
	FateSet Fate = rk.FateSet
	// FateCleared: it is free now.
	FateCleared Fate = rk.FateCleared
	// FateAlreadySet: it was recorded already.
	FateAlreadySet Fate = rk.FateAlreadySet
	// FateAlreadyClear: it was free already.
	FateAlreadyClear Fate = rk.FateAlreadyClear
	// FateInUse: a Service uses it.
	FateInUse Fate = rk.FateInUse
	// FateUnused: no Service uses it.
	FateUnused Fate = rk.FateUnused
	// FateReallocated: it was free for a moment, or this committer has just handed it out; its record may be of a
	// Service that is being created.
	FateReallocated Fate = rk.FateReallocated
	// FateUnsure: whether it was free for a moment is not known.
	FateUnsure Fate = rk.FateUnsure
)

// EditedValue is a value of an edit and what became of it.
type EditedValue struct {
	Value Value
	Fate  Fate
}

// Edited is the outcome of an Edit.
type Edited struct {
	// Revision is that of the write; if nothing had to be or could be written, that at which it was so.
	Revision int64
	// Done says that all was done that can be. Otherwise nothing was, as one of the values could not be changed; the
	// fates of the others say what they would have been.
	Done bool
	// Values are those to record, in their order, then those that were picked, then those to free.
	Values []EditedValue
}

func (Edited) outcome() {}

// SubmitEdit queues a change by hand, which ends as [Edited], or fails with a *BatchError, ErrStaleList,
// ErrServicesWritten and the errors of every operation. The error here is that of an argument: InUse has values that
// the range does not have.
func (c *Committer) SubmitEdit(deadline time.Duration, edit Edit) (Ticket, error) {
	var ticket uint64
	var details rk.Error
	code := rk.CommitterSubmitEdit(c.pointer(), edit.toC(), deadlineToC(deadline), &ticket, &details)
	runtime.KeepAlive(c)
	return Ticket(ticket), detailedError(code, &details)
}

func (e *Edit) toC() *rk.Edit {
	return &rk.Edit{
		Kind: constantToC(e.Kind, EditUndo, rk.EditChange), Pick: e.Pick,
		Set: valuesToC(e.Set), Clear: valuesToC(e.Clear), InUse: e.InUse,
		Listed: uint64(max(e.Listed, 0)), Since: uint64(max(e.Since, 0)), Look: e.Look,
	}
}

// Past reports the answer to StepReadAt: the key as it was.
func (c *Committer) Past(now time.Duration, answer Answer) error {
	event := answer.event()
	event.Kind = rk.EventPast
	return c.handle(now, event)
}

// Compacted reports that the store no longer has the state that StepReadAt asks for.
func (c *Committer) Compacted(now time.Duration) error {
	return c.handle(now, eventOf(rk.EventCompacted))
}

// edited reads an outcome.
func (c *Committer) edited(edited *rk.Edited, rest *contents) Edited {
	values, fates := rest.takeValues(edited.Values), rest.takeBytes(edited.Values)
	all := make([]EditedValue, len(values))
	for i := range values {
		all[i] = EditedValue{valueFromC(&values[i]), Fate(fates[i])}
	}
	return Edited{int64(edited.Revision), edited.IsDone, all}
}
