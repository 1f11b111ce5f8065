package rangekeeper

// The readers of the tagged unions that a committer writes. cgo has a union as an array of bytes; the kind beside it says
// which member is in there.

// #include <rangekeeper.h>
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"time"
	"unsafe"
)

// alignedStep is a step as C aligns it: cgo does not know that there are 64-bit numbers in the union.
type alignedStep struct {
	_ [0]C.uint64_t
	c C.rk_step
}

// StepKind is the kind of a Step.
type StepKind uint32

const (
	// StepIdle is nothing until something happens.
	StepIdle StepKind = C.RK_STEP_IDLE
	// StepWait is nothing before Step.Until, unless something happens.
	StepWait StepKind = C.RK_STEP_WAIT
	// StepRead is a linearizable read of the key.
	StepRead StepKind = C.RK_STEP_READ
	// StepSwap is a transaction: if the key is as in Step.Guard, put Value, else read the key.
	StepSwap StepKind = C.RK_STEP_SWAP
	// StepConfirm is a transaction: if the key is as in Step.Guard, nothing, else read the key.
	StepConfirm StepKind = C.RK_STEP_CONFIRM
	// StepFinished is to hand out Step.Finished. Operations that their callers submit next join the next batch.
	StepFinished StepKind = C.RK_STEP_FINISHED
	// StepWatch is to watch the key from Step.WatchFrom on.
	StepWatch StepKind = C.RK_STEP_WATCH
	// StepStopWatch is to end the watch and report nothing of it any more.
	StepStopWatch StepKind = C.RK_STEP_STOP_WATCH
)

// Step is the next action of a committer's driver.
type Step struct {
	Kind StepKind
	// Until is when to poll again, of StepWait.
	Until time.Duration
	// Guard is the required state of the key, of StepSwap and StepConfirm: all three numbers.
	Guard KeyState
	// ServicesUnchangedSince is a further condition of StepSwap, if not 0: no key of a Service has a later mod revision
	// (in etcd a compare with a range end). Only after a SubmitRepair whose ServiceList guards.
	ServicesUnchangedSince int64
	// WatchFrom is the revision of StepWatch.
	WatchFrom int64
	// Finished are the operations that have ended, of StepFinished, in that order.
	Finished []Finished
}

// step reads a step.
func (c *Committer) step(step *C.rk_step) (Step, error) {
	s := Step{Kind: StepKind(step.kind)}
	data := unsafe.Pointer(&step.data)
	switch s.Kind {
	case StepWait:
		s.Until = timeFromC((*C.rk_step_wait)(data).until)
	case StepSwap:
		swap := (*C.rk_step_swap)(data)
		s.Guard, s.ServicesUnchangedSince = keyState(swap.guard), int64(swap.services_unchanged_since)
	case StepConfirm:
		s.Guard = keyState((*C.rk_step_confirm)(data).guard)
	case StepWatch:
		s.WatchFrom = int64((*C.rk_step_watch)(data).from)
	case StepFinished:
		var err error
		s.Finished, err = c.fetch((*C.rk_step_finished)(data))
		return s, err
	}
	return s, nil
}

func timeFromC(nanoseconds C.uint64_t) time.Duration {
	return time.Duration(min(nanoseconds, math.MaxInt64))
}

func keyState(state C.rk_key_state) KeyState {
	return KeyState{int64(state.mod_revision), int64(state.version), int64(state.create_revision)}
}

// Finished is an operation that has ended.
type Finished struct {
	Ticket  Ticket
	Outcome Outcome
}

// Outcome is how an operation ended: [Allocated], [Released], [Deferred], [State] of a read, [Created], [Repaired], [Failed] or
// [Unknown].
type Outcome interface{ outcome() }

// Allocated: the caller owns the values.
type Allocated struct {
	// Values are in the order of the requests.
	Values []Value
	// Revision is the revision of the allocation, the as-of revision of a rollback.
	Revision int64
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
	// Duplicate is the reason: more than one Service had the value in the last pass. Otherwise the history since the as-of
	// revision is not known any more.
	Duplicate bool
}

// State is the state of the stored object.
type State struct {
	// Revision is the revision of the store at which the object had this state: the as-of revision of a release that is decided
	// by it.
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
	// Changed is the number of values that were left alone because they, or Services, had changed since the pass, or may have.
	Changed int
}

// Failed: nothing was changed.
type Failed struct {
	// Err is the reason: a *BatchError around a *ValueError; a *MismatchedRangeError; or wrapped in it ErrNotInitialised,
	// ErrUnreadable, ErrRefused, ErrStaleList, ErrDeadlineExceeded, ErrCancelled.
	Err error
}

// Unknown: the operation may have taken effect, or may yet do so. The values it allocated must not be used.
type Unknown struct{}

func (Allocated) outcome() {}
func (Released) outcome()  {}
func (Deferred) outcome()  {}
func (State) outcome()     {}
func (Created) outcome()   {}
func (Repaired) outcome()  {}
func (Failed) outcome()    {}
func (Unknown) outcome()   {}

// fetch reads the outcomes of a step, all in one crossing. There are none if another goroutine was faster.
func (c *Committer) fetch(step *C.rk_step_finished) ([]Finished, error) {
	flat := make([]C.rk_finished, step.outcomes)
	values, bytes := make([]C.rk_value, step.values), make([]byte, step.bytes)
	var n C.size_t
	code := C.rk_committer_finished(c.pointer(), unsafe.SliceData(flat), C.size_t(len(flat)),
		unsafe.SliceData(values), C.size_t(len(values)), cBytes(bytes), C.size_t(len(bytes)), &n)
	runtime.KeepAlive(c)
	if code != C.RK_RESULT_OK {
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
	values []C.rk_value
	bytes  []byte
}

func (c *contents) takeValues(n C.size_t) []C.rk_value {
	values := c.values[:n]
	c.values = c.values[n:]
	return values
}

func (c *contents) takeBytes(n C.size_t) []byte {
	bytes := c.bytes[:n:n]
	c.bytes = c.bytes[n:]
	return bytes
}

func (c *Committer) finished(flat *C.rk_finished, rest *contents) Finished {
	return Finished{Ticket(flat.ticket), c.outcome(flat, rest)}
}

func (c *Committer) outcome(flat *C.rk_finished, rest *contents) Outcome {
	data := unsafe.Pointer(&flat.data)
	switch flat.outcome {
	case C.RK_OUTCOME_ALLOCATED:
		allocated := (*C.rk_allocated)(data)
		return Allocated{valuesFromC(rest.takeValues(allocated.values)), int64(allocated.revision), timeFromC(allocated.use_until)}
	case C.RK_OUTCOME_RELEASED:
		return Released{bool((*C.rk_released)(data).freed)}
	case C.RK_OUTCOME_DEFERRED:
		return Deferred{(*C.rk_deferred)(data).reason == C.RK_DEFERRAL_DUPLICATE}
	case C.RK_OUTCOME_READ:
		view := (*C.rk_view)(data)
		return State{int64(view.revision), rest.takeBytes(view.bytes), bool(view.initialised)}
	case C.RK_OUTCOME_CREATED:
		return Created{bool((*C.rk_created)(data).created)}
	case C.RK_OUTCOME_REPAIRED:
		repaired := (*C.rk_repaired)(data)
		return Repaired{valuesFromC(rest.takeValues(repaired.set)), valuesFromC(rest.takeValues(repaired.cleared)), int(repaired.changed)}
	case C.RK_OUTCOME_FAILED:
		return Failed{c.failure((*C.rk_failed)(data), rest)}
	default: // RK_OUTCOME_UNKNOWN, and outcomes of a later library
		return Unknown{}
	}
}

func (c *Committer) failure(failed *C.rk_failed, rest *contents) error {
	values := rest.takeValues(failed.values)
	stored, reason := string(rest.takeBytes(failed.stored_range)), string(rest.takeBytes(failed.reason))
	switch failed.result {
	case C.RK_RESULT_NOT_INITIALISED:
		return ErrNotInitialised
	case C.RK_RESULT_MISMATCHED_RANGE:
		expected := c.r.String()
		return &MismatchedRangeError{Expected: expected, Found: stored, Message: fmt.Sprintf("the stored range is %q, expected %s", stored, expected)}
	case C.RK_RESULT_INVALID_OBJECT:
		return fmt.Errorf("%w: %s", ErrUnreadable, reason)
	case C.RK_RESULT_REFUSED:
		return fmt.Errorf("%w: %s", ErrRefused, reason)
	case C.RK_RESULT_STALE_LIST:
		return ErrStaleList
	case C.RK_RESULT_DEADLINE_EXCEEDED:
		return ErrDeadlineExceeded
	case C.RK_RESULT_CANCELLED:
		return ErrCancelled
	default:
		var value Value // none if no value is free, or none was given
		if len(values) > 0 && values[0].kind != C.RK_VALUE_KIND_NONE {
			value = valueFromC(&values[0])
		}
		return &BatchError{Index: int(failed.request), Err: valueError(failed.result, value, c.r)}
	}
}
