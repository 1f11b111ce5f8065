package rangekeeper

import (
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// StepKind is the kind of a Step.
type StepKind uint32

const (
	// StepIdle is nothing until something happens.
	StepIdle StepKind = rk.StepKindIdle
	// StepWait is nothing before Step.Until, unless something happens.
	StepWait StepKind = rk.StepKindWait
	// StepRead is a linearizable read of the key.
	StepRead StepKind = rk.StepKindRead
	// StepSwap is a transaction: if the key is as in Step.Guard, put Value, else read the key.
	StepSwap StepKind = rk.StepKindSwap
	// StepConfirm is a transaction: if the key is as in Step.Guard, nothing, else read the key.
	StepConfirm StepKind = rk.StepKindConfirm
	// StepFinished is to hand out Step.Finished. Operations that their callers submit next join the next batch.
	StepFinished StepKind = rk.StepKindFinished
	// StepWatch is to watch the key from Step.WatchFrom on.
	StepWatch StepKind = rk.StepKindWatch
	// StepStopWatch is to end the watch and report nothing of it any more.
	StepStopWatch StepKind = rk.StepKindStopWatch
	// StepReadAt is a read of the key as it was at Step.At.
	StepReadAt StepKind = rk.StepKindReadAt
)

// Witness is what the transaction of a StepSwap does with the witness of the range; see [Committer.PassFenced].
type Witness uint32

const (
	// KeepWitness is to leave it: the swap allocates nothing.
	KeepWitness Witness = rk.WitnessKeep
	// PutWitness is to put it, with any value.
	PutWitness Witness = rk.WitnessPut
	// DeleteWitness is to delete it: the swap creates the range, in which no value that was allocated before is
	// recorded.
	DeleteWitness Witness = rk.WitnessDelete
)

// Step is the next action of a committer's driver.
type Step struct {
	Kind StepKind
	// Until is when to poll again, of StepWait.
	Until time.Duration
	// Guard is the required state of the key, of StepSwap and StepConfirm: all three numbers.
	Guard KeyState
	// ServicesUnchangedSince is a further condition of StepSwap, if not 0: no key of a Service has a later mod revision
	// (in etcd a compare with a range end).
	ServicesUnchangedSince int64
	// Look is a further condition of StepSwap, if not 0: the look of this number is there ([Committer.PassFenced]).
	Look uint64
	// Witness says what the transaction of StepSwap does with the witness.
	Witness Witness
	// WatchFrom is the revision of StepWatch.
	WatchFrom int64
	// At is the revision of StepReadAt, which may be compacted.
	At int64
	// Finished are the operations that have ended, of StepFinished, in that order.
	Finished []Finished
}

// step reads a step.
func (c *Committer) step(step *rk.Step) (Step, error) {
	s := Step{Kind: StepKind(step.Kind)}
	switch s.Kind {
	case StepWait:
		s.Until = timeFromC(step.Data.Wait.Until)
	case StepSwap:
		swap := &step.Data.Swap
		s.Guard, s.ServicesUnchangedSince = keyState(swap.Guard), int64(swap.ServicesUnchangedSince)
		s.Witness, s.Look = Witness(swap.Witness), swap.Look
	case StepConfirm:
		s.Guard = keyState(step.Data.Confirm.Guard)
	case StepWatch:
		s.WatchFrom = int64(step.Data.Watch.From)
	case StepReadAt:
		s.At = int64(step.Data.ReadAt.Revision)
	case StepFinished:
		var err error
		s.Finished, err = c.fetch(&step.Data.Finished)
		return s, err
	}
	return s, nil
}

func timeFromC(nanoseconds uint64) time.Duration {
	return time.Duration(min(nanoseconds, math.MaxInt64))
}

func keyState(state rk.KeyState) KeyState {
	return KeyState{int64(state.ModRevision), int64(state.Version), int64(state.CreateRevision)}
}

// Finished is an operation that has ended.
type Finished struct {
	Ticket  Ticket
	Outcome Outcome
}

// Outcome is how an operation ended: [Allocated], [Released], [Deferred], [View] of a read, [Created], [Repaired],
// [Edited], [Failed] or [Unknown].
type Outcome interface{ outcome() }

// Allocated: the caller owns the values.
type Allocated struct {
	// Values are in the order of the requests.
	Values []Value
	// Revision is the revision of the allocation, the as-of revision of a rollback.
	Revision int64
	// Store is which store that was: that of [Known] then.
	Store uint32
	// UseUntil is when a Service with the values must be written.
	UseUntil time.Duration
}

// Released: the value is free, or has another owner by now.
type Released struct {
	// Freed reports whether this operation freed it.
	Freed bool
}

// Deferred: the value was not released, and is left to a repair pass.
type Deferred struct {
	// Duplicate is the reason: more than one Service had the value in the last pass. Otherwise the history since the
	// as-of revision is not known any more.
	Duplicate bool
}

// View is the state of the stored object.
type View struct {
	// Revision is the revision of the store at which the object had this state: the as-of revision of a release that is
	// decided by it.
	Revision int64
	// Snapshot has the values in use, as Allocator.Snapshot returns them.
	Snapshot []byte
	// Initialised reports whether the object exists and was initialised.
	Initialised bool
}

// Created: the object exists.
type Created struct {
	// Created reports whether this operation created it.
	Created bool
}

// Repaired: as much of the diff as was still right was applied.
type Repaired struct {
	// Set and Cleared are the values that were set and cleared, ascending.
	Set, Cleared []Value
	// Changed is the number of values that were left alone because they, or Services, had changed since the pass, or
	// may have.
	Changed int
}

// Failed: nothing was changed.
type Failed struct {
	// Err is the reason: a *BatchError around a *ValueError; a *MismatchedRangeError; or wrapped in it
	// ErrNotInitialised, ErrUnreadable, ErrRangeInUse, ErrRefused, ErrStaleList, ErrServicesWritten,
	// ErrDeadlineExceeded, ErrCancelled.
	Err error
}

// Unknown: the operation may have taken effect, or may yet do so. The values it allocated must not be used.
type Unknown struct{}

func (Allocated) outcome() {}
func (Released) outcome()  {}
func (Deferred) outcome()  {}
func (View) outcome()      {}
func (Created) outcome()   {}
func (Repaired) outcome()  {}
func (Failed) outcome()    {}
func (Unknown) outcome()   {}

// fetch reads the outcomes of a step, all in one crossing. There are none if another goroutine was faster.
func (c *Committer) fetch(step *rk.StepFinished) ([]Finished, error) {
	flat := make([]rk.Finished, step.Outcomes)
	values, bytes := make([]rk.Value, step.Values), make([]byte, step.Bytes)
	var n uint
	code := rk.CommitterFinished(c.pointer(), flat,
		values, bytes, &n)
	runtime.KeepAlive(c)
	if code != rk.ResultOK {
		return nil, resultError(code)
	}
	all := make([]Finished, n)
	rest := contents{values, bytes}
	for i := range all {
		all[i] = c.finished(&flat[i], &rest)
	}
	return all, nil
}

// contents are the values and bytes of outcomes, back to back.
type contents struct {
	values []rk.Value
	bytes  []byte
}

func (c *contents) takeValues(n uint) []rk.Value {
	values := c.values[:n]
	c.values = c.values[n:]
	return values
}

func (c *contents) takeBytes(n uint) []byte {
	bytes := c.bytes[:n:n]
	c.bytes = c.bytes[n:]
	return bytes
}

func (c *Committer) finished(flat *rk.Finished, rest *contents) Finished {
	return Finished{Ticket(flat.Ticket), c.outcome(flat, rest)}
}

func (c *Committer) outcome(flat *rk.Finished, rest *contents) Outcome {
	data := &flat.Data
	switch flat.Outcome {
	case rk.OutcomeAllocated:
		allocated := &data.Allocated
		return Allocated{
			valuesFromC(rest.takeValues(allocated.Values)), int64(allocated.Revision), allocated.Store,
			timeFromC(allocated.UseUntil),
		}
	case rk.OutcomeReleased:
		return Released{data.Released.Freed}
	case rk.OutcomeDeferred:
		return Deferred{data.Deferred.Reason == rk.DeferralDuplicate}
	case rk.OutcomeRead:
		view := &data.Read
		return View{int64(view.Revision), rest.takeBytes(view.Bytes), view.Initialised}
	case rk.OutcomeCreated:
		return Created{data.Created.Created}
	case rk.OutcomeRepaired:
		repaired := &data.Repaired
		return Repaired{valuesFromC(rest.takeValues(repaired.Set)), valuesFromC(rest.takeValues(repaired.Cleared)), int(repaired.Changed)}
	case rk.OutcomeEdited:
		return c.edited(&data.Edited, rest)
	case rk.OutcomeFailed:
		return Failed{c.failure(&data.Failed, rest)}
	default: // RK_OUTCOME_UNKNOWN, and outcomes of a later library
		return Unknown{}
	}
}

func (c *Committer) failure(failed *rk.Failed, rest *contents) error {
	values := rest.takeValues(failed.Values)
	stored, reason := string(rest.takeBytes(failed.StoredRange)), string(rest.takeBytes(failed.Reason))
	switch failed.Result {
	case rk.ResultNotInitialised:
		return ErrNotInitialised
	case rk.ResultMismatchedRange:
		expected := c.r.String()
		return &MismatchedRangeError{Expected: expected, Found: stored, Message: fmt.Sprintf("the stored range is %q, expected %s", stored, expected)}
	case rk.ResultInvalidObject:
		return fmt.Errorf("%w: %s", ErrUnreadable, reason)
	case rk.ResultRangeInUse:
		return fmt.Errorf("%w: %s", ErrRangeInUse, reason)
	case rk.ResultRefused:
		return fmt.Errorf("%w: %s", ErrRefused, reason)
	case rk.ResultStaleList:
		return ErrStaleList
	case rk.ResultServicesWritten:
		return ErrServicesWritten
	case rk.ResultDeadlineExceeded:
		return ErrDeadlineExceeded
	case rk.ResultCancelled:
		return ErrCancelled
	default:
		var value Value // none if no value is free, or none was given
		if len(values) > 0 && values[0].Kind != rk.ValueKindNone {
			value = valueFromC(&values[0])
		}
		return &BatchError{Index: int(failed.Request), Err: valueError(failed.Result, value, c.r)}
	}
}
