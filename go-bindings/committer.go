package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"
	"unsafe"
)

// Reasons for which an operation of a Committer fails, for errors.Is.
var (
	// ErrNotInitialised: there is no stored object, or it was never initialised.
	ErrNotInitialised = errors.New("the stored range was never initialised")
	// ErrRefused: the store refused a request; the error around it has the store's message.
	ErrRefused = errors.New("the store refused the request")
	// ErrUnreadable: the stored object is not a RangeAllocation for values of this kind; it is not overwritten.
	ErrUnreadable = errors.New("the stored object cannot be decoded")
	// ErrStaleList: the Services of a repair were listed before its range was read; what was allocated in between looks
	// leaked.
	ErrStaleList = errors.New("the list of Services is older than the range that was read before it")
	// ErrDeadlineExceeded: the deadline of an operation passed before it was sent. It is a context.DeadlineExceeded.
	ErrDeadlineExceeded = fmt.Errorf("the operation was not sent before its deadline: %w", context.DeadlineExceeded)
	// ErrCancelled: an operation was cancelled before it was sent.
	ErrCancelled = errors.New("the operation was cancelled before it was sent")
)

// Committer makes compare-and-swaps of one stored object out of the operations of many callers. It does no I/O: whoever
// drives it asks it by Poll what to send, tells it how that ended, and hands out what has Finished.
//
// Times are durations from a moment that the driver chooses, by a clock that never goes back; negative ones count as 0. All methods may be called
// from several goroutines at once. Memory: up to 1 MiB for a /12 beside the object, outside the Go heap.
type Committer struct {
	inner *owned[*C.rk_committer]
	r     Range
}

// CommitterConfig says how a Committer works.
type CommitterConfig struct {
	// Strategy says how values are chosen.
	Strategy Strategy
	// Grace is the time in which a Service has to be written once its values are allocated: two intervals of repair, 6
	// minutes in Kubernetes. A creator that takes longer may lose them.
	Grace time.Duration
	// Seed starts the generator for choices and back-off.
	Seed uint64
}

// NewCommitter makes a committer that knows nothing of the store yet.
func NewCommitter(r Range, config CommitterConfig) (*Committer, error) {
	var handle *C.rk_committer
	code := C.rk_committer_new(r.pointer(), config.Strategy.toC(), timeToC(config.Grace), C.uint64_t(config.Seed),
		&handle)
	runtime.KeepAlive(r.inner)
	if code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return &Committer{own(handle, func(c *C.rk_committer) { C.rk_committer_free(c) }), r}, nil
}

func (c *Committer) pointer() *C.rk_committer {
	if c == nil {
		return nil
	}
	return c.inner.pointer()
}

// Close drops the state; what has not ended never will. It may be called again and beside other calls.
func (c *Committer) Close() error {
	C.rk_committer_close(c.pointer())
	runtime.KeepAlive(c)
	return nil
}

// Ticket is the number of a submitted operation.
type Ticket uint64

// NoDeadline is the deadline of an operation that may take any time.
const NoDeadline = time.Duration(math.MaxInt64)

func deadlineToC(deadline time.Duration) C.uint64_t {
	if deadline == NoDeadline {
		return math.MaxUint64
	}
	return timeToC(deadline)
}

// timeToC gives a time in nanoseconds. There is none before zero: as a number without a sign it would be in the far future.
func timeToC(t time.Duration) C.uint64_t { return C.uint64_t(max(t, 0)) }

// Operation is something to be done with the stored object; see AllocateOperation and the like.
type Operation struct {
	kind     C.uint32_t
	values   []C.rk_value
	owner    Ownership
	deadline time.Duration
}

// AllocateOperation serves all of these requests or none. It ends by the deadline, as all operations do.
func AllocateOperation(deadline time.Duration, requests ...Request) Operation {
	return Operation{kind: C.RK_OPERATION_ALLOCATE, values: requestsToC(requests), deadline: deadline}
}

// Ownership says since when the owner of a value had it, in revisions of the range's etcd. A release frees the value only if
// it has been in use without a break since both: otherwise somebody else may own it by now. Where Services are kept in
// another etcd than the range, leave their values to repair.
type Ownership struct {
	// Anchor is the revision at which the owner stopped having the value: that of the Service's deletion, or of the update
	// that dropped the value.
	Anchor int64
	// Oldest is the revision at which the owner was last stored with the value: the Service's before its deletion or update.
	// It counts as far back as the history goes; 0 means all of that.
	Oldest int64
}

// OwnedSince is the Ownership of a rollback, with the revision of the allocation, and of a caller that knows no owner and
// releases as of a read, with the revision of that.
func OwnedSince(revision int64) Ownership { return Ownership{Anchor: revision, Oldest: revision} }

// ReleaseOperation releases a value on behalf of its owner.
func ReleaseOperation(deadline time.Duration, value Value, owner Ownership) Operation {
	return Operation{kind: C.RK_OPERATION_RELEASE, values: []C.rk_value{*value.toC()}, owner: owner, deadline: deadline}
}

// ReadOperation tells what is stored.
func ReadOperation(deadline time.Duration) Operation {
	return Operation{kind: C.RK_OPERATION_READ, deadline: deadline}
}

// CreateOperation makes the object if it is missing or was never initialised.
func CreateOperation(deadline time.Duration) Operation {
	return Operation{kind: C.RK_OPERATION_CREATE, deadline: deadline}
}

// Submit takes operations on, in one crossing, and gives the ticket of each. The error is of use only for a bug in the
// program: ErrClosed, ErrInvalidArgument.
func (c *Committer) Submit(operations ...Operation) ([]Ticket, error) {
	all := make([]C.rk_operation, len(operations))
	var values []C.rk_value
	for i, operation := range operations {
		all[i] = C.rk_operation{
			kind: operation.kind, values: C.uint32_t(len(operation.values)),
			deadline: deadlineToC(operation.deadline), anchor: C.uint64_t(operation.owner.Anchor), oldest: C.uint64_t(operation.owner.Oldest),
		}
		values = append(values, operation.values...)
	}
	tickets := make([]Ticket, len(operations))
	code := C.rk_committer_submit(c.pointer(), unsafe.SliceData(all), C.size_t(len(all)),
		unsafe.SliceData(values), C.size_t(len(values)), (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(tickets))))
	runtime.KeepAlive(c)
	return tickets, resultError(code)
}

// ServiceList says when the Services of a repair pass were listed; the zero value, that they are in another etcd than the
// range.
type ServiceList struct {
	// Revision is that of the list. A list from before the pass's read ends the repair with ErrStaleList.
	Revision int64
	// Guards says that nothing is cleared once a Service was written after the list, so that a creator keeps its value
	// even if it took longer than the grace. Where Services never rest, leaks stay then.
	Guards bool
}

// Cancel ends an operation that nobody wants any more; one that has ended is left alone. What it allocates if it takes
// place nevertheless is released again.
func (c *Committer) Cancel(ticket Ticket) error {
	code := C.rk_committer_cancel(c.pointer(), C.uint64_t(ticket))
	runtime.KeepAlive(c)
	return resultError(code)
}

// KeyState is the state of a key in etcd; all 0 if there is no key.
type KeyState struct {
	// ModRevision is the revision of the last change, Version how many changes there were since the creation, and
	// CreateRevision the revision of that.
	ModRevision, Version, CreateRevision int64
}

func (s KeyState) toC() C.rk_key_state {
	return C.rk_key_state{
		mod_revision: C.uint64_t(s.ModRevision), version: C.uint64_t(s.Version), create_revision: C.uint64_t(s.CreateRevision),
	}
}

// StepKind is what there is to do.
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
)

// Step is what to do next.
type Step struct {
	Kind StepKind
	// Until is when to poll again, of StepWait.
	Until time.Duration
	// Guard is what the key must be: all three numbers.
	Guard KeyState
	// ServicesUnchangedSince is a further condition of StepSwap, if not 0: no key of a Service has a later mod revision
	// (in etcd a compare with a range end). Only after a SubmitRepair whose ServiceList guards.
	ServicesUnchangedSince int64
	// WatchFrom is the revision from which on the key is to be watched; 0 for not at all. A watch that runs goes on
	// until this is 0.
	WatchFrom int64
	// Finished is how many operations have ended. They should be handed out before the next poll, so that their callers
	// join the next swap.
	Finished int
}

// KnownState is what is known of the object without asking the store: it may be out of date.
type KnownState struct {
	// Revision is that of the newest state of the key that was seen; 0 if none was, or there is no key. What is in use in
	// it can be released from this anchor on.
	Revision int64
	// Used is how many values were in use; 0 if the object was missing or never initialised.
	Used int
	// Initialised says that the object was there and initialised.
	Initialised bool
}

// Known returns what is known of the object without asking the store. Cost: one crossing; after a change by others also
// some 10 us for a million values.
func (c *Committer) Known() KnownState {
	var known C.rk_known
	C.rk_committer_known(c.pointer(), &known)
	runtime.KeepAlive(c)
	return KnownState{int64(known.revision), int(known.used), bool(known.initialised)}
}

// Poll tells what to do next. A request must be ended by Answered, Unknown or Refused; until then Poll gives no other.
func (c *Committer) Poll(now time.Duration) (Step, error) {
	var step C.rk_step
	code := C.rk_committer_poll(c.pointer(), timeToC(now), &step)
	runtime.KeepAlive(c)
	guard := KeyState{int64(step.guard.mod_revision), int64(step.guard.version), int64(step.guard.create_revision)}
	return Step{
		Kind: StepKind(step.kind), Until: time.Duration(min(step.wait_until, math.MaxInt64)), Guard: guard,
		ServicesUnchangedSince: int64(step.services_unchanged_since),
		WatchFrom:              int64(step.watch_from), Finished: int(step.finished),
	}, resultError(code)
}

// Value gives what the swap under way puts. It replaces the content of dst and reuses its capacity.
func (c *Committer) Value(dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(c)
	return readBytes(dst, func(buffer *C.uint8_t, capacity C.size_t, length *C.size_t) C.rk_result {
		return C.rk_committer_value(c.pointer(), buffer, capacity, length)
	})
}

// Answer is how the store answered a request.
type Answer struct {
	// ClusterID, Revision and RaftTerm are those of the answer's header.
	ClusterID, RaftTerm uint64
	Revision            int64
	// Held says that the guard held; it is false for a read.
	Held bool
	// Key and Value are the key if the guard did not hold, or for a read; all 0 if there is none.
	Key   KeyState
	Value []byte
}

// Answered tells how the store answered the request.
func (c *Committer) Answered(now time.Duration, answer Answer) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	a := C.rk_answer{
		cluster_id: C.uint64_t(answer.ClusterID), revision: C.uint64_t(answer.Revision), raft_term: C.uint64_t(answer.RaftTerm),
		held: C.bool(answer.Held), key: answer.Key.toC(),
	}
	a.value, a.value_len = pinned(&pinner, answer.Value)
	code := C.rk_committer_answered(c.pointer(), timeToC(now), &a)
	runtime.KeepAlive(c)
	return resultError(code)
}

// Unknown tells that it is not known whether the request took place, or will.
func (c *Committer) Unknown(now time.Duration) error {
	code := C.rk_committer_unknown(c.pointer(), timeToC(now))
	runtime.KeepAlive(c)
	return resultError(code)
}

// Refused tells that the store refuses the request and will not carry it out later, and the store's reason.
func (c *Committer) Refused(now time.Duration, reason string) error {
	code := C.rk_committer_refused(c.pointer(), timeToC(now), cText(reason), C.size_t(len(reason)))
	runtime.KeepAlive(c)
	return resultError(code)
}

// Reconnected tells that the connection to the store was recreated.
func (c *Committer) Reconnected() error {
	code := C.rk_committer_reconnected(c.pointer())
	runtime.KeepAlive(c)
	return resultError(code)
}

// Change is one change of the key, as a watch tells it.
type Change struct {
	// Key is the key as it was written; for a deletion its revision as ModRevision, and Version 0.
	Key   KeyState
	Value []byte
}

// Watched tells changes of the key, in their order.
func (c *Committer) Watched(changes ...Change) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	all := make([]C.rk_change, len(changes))
	for i, change := range changes {
		all[i].key = change.Key.toC()
		all[i].value, all[i].value_len = pinned(&pinner, change.Value)
	}
	code := C.rk_committer_watched(c.pointer(), unsafe.SliceData(all), C.size_t(len(all)))
	runtime.KeepAlive(c)
	return resultError(code)
}

// WatchFailed tells that the watch cannot tell all changes from Step.WatchFrom on: they are compacted.
func (c *Committer) WatchFailed() error {
	code := C.rk_committer_watch_failed(c.pointer())
	runtime.KeepAlive(c)
	return resultError(code)
}

// pinned lets a C struct in Go memory point to bytes.
func pinned(pinner *runtime.Pinner, bytes []byte) (*C.uint8_t, C.size_t) {
	if len(bytes) == 0 {
		return nil, 0
	}
	pinner.Pin(unsafe.SliceData(bytes))
	return cBytes(bytes), C.size_t(len(bytes))
}

// OutcomeKind is how an operation ended.
type OutcomeKind uint32

const (
	// OutcomeAllocated: the Values are the caller's.
	OutcomeAllocated OutcomeKind = C.RK_OUTCOME_ALLOCATED
	// OutcomeReleased: the value is free.
	OutcomeReleased OutcomeKind = C.RK_OUTCOME_RELEASED
	// OutcomeDeferred: the value was not freed; a repair pass has to look at it.
	OutcomeDeferred OutcomeKind = C.RK_OUTCOME_DEFERRED
	// OutcomeRead: Snapshot is what is stored.
	OutcomeRead OutcomeKind = C.RK_OUTCOME_READ
	// OutcomeCreated: the object is there.
	OutcomeCreated OutcomeKind = C.RK_OUTCOME_CREATED
	// OutcomeRepaired: as much of the diff as was still right was applied.
	OutcomeRepaired OutcomeKind = C.RK_OUTCOME_REPAIRED
	// OutcomeFailed: nothing was changed, for the reason in Err.
	OutcomeFailed OutcomeKind = C.RK_OUTCOME_FAILED
	// OutcomeUnknown: it may have happened or may yet happen. What it allocated must not be used.
	OutcomeUnknown OutcomeKind = C.RK_OUTCOME_UNKNOWN
)

// Finished is an operation that has ended.
type Finished struct {
	Ticket  Ticket
	Outcome OutcomeKind
	// Values are in the order of the requests, of OutcomeAllocated.
	Values []Value
	// Revision is that of the allocation, the anchor of a rollback; of OutcomeRead the one that it is the state of.
	Revision int64
	// UseUntil is when a Service with the Values must be written.
	UseUntil time.Duration
	// Yes says of OutcomeReleased and OutcomeCreated that this operation did it, and not another one before; of
	// OutcomeRead that the object is there and was initialised; of OutcomeDeferred that more than one Service had the
	// value in the last pass (else what happened since the anchor is not known any more).
	Yes bool
	// Snapshot is what is stored, of OutcomeRead, as Allocator.Snapshot gives it.
	Snapshot []byte
	// Set and Cleared are the values that were set and cleared, ascending, of OutcomeRepaired. Changed is how many were
	// left alone because they, or Services, had changed or may have.
	Set, Cleared []Value
	Changed      int
	// Err is the reason of OutcomeFailed: a *BatchError around a *ValueError; a
	// *MismatchedRangeError; or wrapped in it ErrNotInitialised, ErrUnreadable, ErrRefused, ErrStaleList,
	// ErrDeadlineExceeded, ErrCancelled.
	Err error
}

// Finished gives the operations that have ended since the last call, some 100 in one crossing.
func (c *Committer) Finished() ([]Finished, error) {
	const perCrossing = 128
	flat := make([]C.rk_finished, perCrossing)
	values, bytes := make([]C.rk_value, 2*perCrossing), make([]byte, 1024)
	var all []Finished
	for {
		var n C.size_t
		code := C.rk_committer_finished(c.pointer(), unsafe.SliceData(flat), C.size_t(len(flat)),
			unsafe.SliceData(values), C.size_t(len(values)), cBytes(bytes), C.size_t(len(bytes)), &n)
		runtime.KeepAlive(c)
		switch {
		case code == C.RK_RESULT_BUFFER_TOO_SMALL:
			values, bytes = make([]C.rk_value, 4*len(values)), make([]byte, 4*len(bytes))
			continue
		case code != C.RK_RESULT_OK:
			return all, resultError(code)
		case n == 0:
			return all, nil
		}
		ownValues, ownBytes := values, bytes
		for i := range flat[:n] {
			one := &flat[i]
			all = append(all, c.finished(one, ownValues[:one.values], ownBytes[:one.bytes]))
			ownValues, ownBytes = ownValues[one.values:], ownBytes[one.bytes:]
		}
	}
}

func (c *Committer) finished(flat *C.rk_finished, values []C.rk_value, bytes []byte) Finished {
	f := Finished{
		Ticket: Ticket(flat.ticket), Outcome: OutcomeKind(flat.outcome), Revision: int64(flat.revision),
		UseUntil: time.Duration(min(flat.use_until, math.MaxInt64)), Yes: bool(flat.yes),
	}
	switch f.Outcome {
	case OutcomeAllocated:
		f.Values = valuesFromC(values)
	case OutcomeRead:
		f.Snapshot = append([]byte(nil), bytes...)
	case OutcomeRepaired:
		f.Set, f.Cleared, f.Changed = valuesFromC(values[:flat.set]), valuesFromC(values[flat.set:]), int(flat.number)
	case OutcomeFailed:
		f.Err = c.failure(flat, values, string(bytes))
	}
	return f
}

func (c *Committer) failure(flat *C.rk_finished, values []C.rk_value, text string) error {
	switch flat.result {
	case C.RK_RESULT_NOT_INITIALISED:
		return ErrNotInitialised
	case C.RK_RESULT_MISMATCHED_RANGE:
		expected := c.r.String()
		return &MismatchedRangeError{Expected: expected, Found: text, Message: fmt.Sprintf("the stored range is %q, expected %s", text, expected)}
	case C.RK_RESULT_INVALID_OBJECT:
		return fmt.Errorf("%w: %s", ErrUnreadable, text)
	case C.RK_RESULT_REFUSED:
		return fmt.Errorf("%w: %s", ErrRefused, text)
	case C.RK_RESULT_STALE_LIST:
		return ErrStaleList
	case C.RK_RESULT_DEADLINE_EXCEEDED:
		return ErrDeadlineExceeded
	case C.RK_RESULT_CANCELLED:
		return ErrCancelled
	default:
		var value Value // none if no value is free
		if len(values) > 0 {
			value = Value{values[0]}
		}
		return &BatchError{Index: int(flat.number), Err: valueError(flat.result, value, c.r)}
	}
}
