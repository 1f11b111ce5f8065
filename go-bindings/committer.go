package rangekeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Errors of a Committer and of its operations, for errors.Is.
var (
	// ErrNotInitialised: there is no stored object, or it was never initialised.
	ErrNotInitialised = errors.New("the stored range was never initialised")
	// ErrRefused: the store refused a request; the error around it has the store's message.
	ErrRefused = errors.New("the store refused the request")
	// ErrRangeInUse: a repair would replace a stored range, or create one, that Services need otherwise; see Replace.
	// The error around it names both ranges.
	ErrRangeInUse = errors.New("the range is in use")
	// ErrUnreadable: the stored object is not a RangeAllocation for values of this kind; it is not overwritten.
	ErrUnreadable = errors.New("the stored object cannot be decoded")
	// ErrStaleList: a list is older than what was read before it. What was allocated in between looks leaked, or free.
	ErrStaleList = errors.New("the list is older than what was read before it")
	// ErrDeadlineExceeded: the deadline of an operation passed before it was sent. It is a context.DeadlineExceeded.
	ErrDeadlineExceeded = fmt.Errorf("the operation was not sent before its deadline: %w", context.DeadlineExceeded)
	// ErrNoSwap: Value was called while no compare-and-swap was under way.
	ErrNoSwap = errors.New("no compare-and-swap is under way")
	// ErrCancelled: an operation was cancelled before it was sent.
	ErrCancelled = errors.New("the operation was cancelled before it was sent")
)

// Committer makes compare-and-swaps of one stored object out of the operations of many callers. It does no I/O:
// its driver gets the next step from Poll, carries it out, reports how it ended, and hands out what has Finished.
//
// Times are durations from a moment that the driver chooses, by a clock that never goes back; negative ones count as 0.
// All methods may be called from several goroutines at once. Memory: up to 1 MiB for a /12 beside the object.
type Committer struct {
	inner *object[*rk.Committer]
	r     Range
}

// CommitterConfig says how a Committer works.
type CommitterConfig struct {
	// Strategy says how values are chosen.
	Strategy Strategy
	// Grace is the time in which a Service has to be written once its values are allocated: two intervals of repair, 6
	// minutes in Kubernetes. A creator that takes longer may lose them. Where the write of a Service has no conditions
	// on the range, as etcdstore.Conditions returns them, all programs that share the range must have the same grace: a
	// shorter one takes values from owners who still have time.
	Grace time.Duration
	// Replace says which stored range a repair may replace by the configured one.
	Replace Replace
	// Seed starts the generator for choices, back-off and the numbers of stores (Known.Store): a random one for each
	// Committer.
	Seed uint64
}

// Replace says whether a repair replaces a stored object for another range of the same kind by one for the configured
// range. An API server whose range is the stored one can allocate nothing from then on.
type Replace uint8

const (
	// ReplaceIfUnused replaces it only if no value is recorded in it and no Service has one. Nor is a missing object
	// created while a Service has a value outside of the configured range. Else the repair is ErrRangeInUse.
	ReplaceIfUnused Replace = iota
	// ReplaceOnce is ReplaceAlways until the stored range was the configured one once, and then ReplaceIfUnused.
	ReplaceOnce
	// ReplaceAlways is what kube-apiserver does, whose flag is the operator's word.
	ReplaceAlways
)

// NewCommitter makes a committer that knows nothing of the store yet.
func NewCommitter(r Range, config CommitterConfig) (*Committer, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	var handle *rk.Committer
	var details rk.Error
	strategy := constantToC(config.Strategy, DynamicBandFirst, rk.StrategyContiguous)
	replace := constantToC(config.Replace, ReplaceAlways, rk.ReplaceIfUnused)
	code := rk.CommitterNew(r.pointer(), strategy, timeToC(config.Grace), replace, config.Seed, &handle, &details)
	if code != rk.ResultOK {
		return nil, detailedError(code, &details)
	}
	return &Committer{own(handle, rk.CommitterFree), r}, nil
}

func (c *Committer) pointer() *rk.Committer {
	if c == nil {
		return nil
	}
	return c.inner.pointer()
}

// Close drops the state; operations under way never end. It may be called again and beside other calls.
func (c *Committer) Close() error {
	rk.CommitterFree(c.pointer())
	runtime.KeepAlive(c)
	return nil
}

// Ticket is the number of a submitted operation.
type Ticket uint64

// NoDeadline is the deadline of an operation that may take any time.
const NoDeadline = time.Duration(math.MaxInt64)

func deadlineToC(deadline time.Duration) uint64 {
	if deadline == NoDeadline {
		return math.MaxUint64
	}
	return timeToC(deadline)
}

// timeToC returns a time in nanoseconds. There is none before zero: as a number without a sign it would be in the far
// future.
func timeToC(t time.Duration) uint64 { return uint64(max(t, 0)) }

// Operation is something to be done with the stored object; see AllocateOperation and the like.
type Operation struct {
	kind     uint32
	values   []rk.Value
	owner    Ownership
	deadline time.Duration
}

// AllocateOperation serves all of these requests or none. It ends by the deadline, as all operations do.
func AllocateOperation(deadline time.Duration, requests ...Request) Operation {
	return Operation{kind: rk.OperationAllocate, values: requestsToC(requests), deadline: deadline}
}

// Ownership says since when the owner of a value had it, in revisions of the range's etcd. A release frees the value
// only if it has been in use without a break since both: otherwise somebody else may own it by now. Where Services are
// kept in another etcd than the range, leave their values to repair.
type Ownership struct {
	// AsOf is the revision at which the owner stopped having the value: that of the Service's deletion, or of the
	// update that dropped the value.
	AsOf int64
	// Oldest is the revision at which the owner was last stored with the value: the Service's before its deletion or
	// update. It counts as far back as the history goes; 0, or less, means all of that.
	Oldest int64
	// Store is [Known.Store] as it was when the owner began the request by which it gave the value up, or
	// [Allocated.Store] for a rollback. If that is not the present store of this committer, the release is deferred:
	// the store before a restore, and those of other committers, may have had another history. 0 names none, as in a
	// release as of a read: then revisions count, but after a restore of etcd that the committer has noticed those do
	// not that etcd had reached before it.
	Store uint32
}

// OwnedSince is the Ownership of a caller that knows no owner and releases as of a read, with the revision of that.
func OwnedSince(revision int64) Ownership { return Ownership{AsOf: revision, Oldest: revision} }

// ReleaseOperation releases a value on behalf of its owner.
func ReleaseOperation(deadline time.Duration, value Value, owner Ownership) Operation {
	return Operation{kind: rk.OperationRelease, values: []rk.Value{*value.toC()}, owner: owner, deadline: deadline}
}

// ReadOperation reads the stored object.
func ReadOperation(deadline time.Duration) Operation {
	return Operation{kind: rk.OperationRead, deadline: deadline}
}

// CreateOperation makes the object if it is missing or was never initialised.
func CreateOperation(deadline time.Duration) Operation {
	return Operation{kind: rk.OperationCreate, deadline: deadline}
}

// Submit queues operations in one call of the library and returns their tickets. The error is of use only for a bug in
// the program: ErrClosed, ErrInvalidArgument.
func (c *Committer) Submit(operations ...Operation) ([]Ticket, error) {
	all := make([]rk.Operation, len(operations))
	var requests []rk.Value
	for i := range operations {
		all[i], requests = operations[i].toC(requests)
	}
	numbers := make([]uint64, len(operations))
	var details rk.Error
	code := rk.CommitterSubmit(c.pointer(), all, requests, numbers, &details)
	runtime.KeepAlive(c)
	tickets := make([]Ticket, len(numbers))
	for i, number := range numbers {
		tickets[i] = Ticket(number)
	}
	return tickets, detailedError(code, &details)
}

// ServiceList describes the list of Services of a repair pass. The zero value is for Services that were not read from
// the range's etcd itself: an API server's watch cache may have missed what a restored etcd has, though the revision of
// its list is current. With it nothing is changed once the committer has noticed a restore.
type ServiceList struct {
	// Revision is the list's revision. A list from before the pass's read ends the repair with ErrStaleList, and one
	// from before its fence cleans no leak.
	Revision int64
	// Guards: nothing is cleared once a Service was written after the list, so that a creator keeps its value
	// even if it took longer than the grace. Where Services never rest, leaks stay then.
	Guards bool
}

// Cancel ends an operation that its caller no longer waits for; one that has ended is left alone. Values that it
// allocates nevertheless are released again.
func (c *Committer) Cancel(ticket Ticket) error {
	code := rk.CommitterCancel(c.pointer(), uint64(ticket))
	runtime.KeepAlive(c)
	return resultError(code)
}

// Abandon releases the values of an allocation whose caller no longer waits for it.
func (c *Committer) Abandon(allocated Allocated) error {
	values := valuesToC(allocated.Values)
	code := rk.CommitterAbandon(c.pointer(), uint64(allocated.Revision), allocated.Store, values)
	runtime.KeepAlive(c)
	return resultError(code)
}

// Written records that the Services for which this committer allocated these values are stored. Until then a value is
// set again in an etcd that is restored from a backup.
func (c *Committer) Written(values ...Value) error {
	code := rk.CommitterWritten(c.pointer(), valuesToC(values))
	runtime.KeepAlive(c)
	return resultError(code)
}

// KeyState is the state of a key in etcd; all 0 if there is no key.
type KeyState struct {
	// ModRevision is the revision of the last change, Version how many changes there were since the creation, and
	// CreateRevision the revision of that.
	ModRevision, Version, CreateRevision int64
}

func (s KeyState) toC() rk.KeyState {
	return rk.KeyState{
		ModRevision: uint64(s.ModRevision), Version: uint64(s.Version), CreateRevision: uint64(s.CreateRevision),
	}
}

// Known is the newest state that the committer knows without asking the store: it may be out of date.
type Known struct {
	// Revision is the revision of this state; 0 if none was seen, or there is no key. A value that
	// is in use in it can be released with this as-of revision.
	Revision int64
	// Used is the number of values in use; 0 if the object was missing or never initialised.
	Used int
	// Initialised reports whether the object was there and initialised.
	Initialised bool
	// Store is which store the committer talks to: a release names it, see [Ownership]. No other committer has this
	// number, and it is never 0. It changes with the first answer, too, as a restore before that goes unnoticed: who
	// gives up a value before it, has its release deferred. So read first.
	Store uint32
	// Restores is how often another store has answered than before, or an older state of it, as after a restore from a
	// backup. What others remember of the store, such as the watch cache of an API server, is wrong from then on.
	Restores int
}

// Known returns the newest state that the committer knows. Cost: one crossing; after a change by others also some 10 us
// for a million values.
func (c *Committer) Known() Known {
	var known rk.Known
	rk.CommitterKnown(c.pointer(), &known)
	runtime.KeepAlive(c)
	return Known{int64(known.Revision), int(known.Used), known.Initialised, known.Store, int(known.Restores)}
}

// Poll returns the next step. Call it again when that is done, until it returns StepWait or StepIdle; and after
// each Submit, SubmitRepair, SubmitEdit, Cancel, Abandon and event. A request must be ended by Answered, Unknown or
// Refused, StepReadAt by Past or Compacted instead of Answered; until then there is no other.
func (c *Committer) Poll(now time.Duration) (Step, error) {
	var step rk.Step
	code := rk.CommitterPoll(c.pointer(), timeToC(now), &step)
	runtime.KeepAlive(c)
	if code != rk.ResultOK {
		return Step{}, resultError(code)
	}
	return c.step(&step)
}

// Value returns the value that the compare-and-swap under way puts; ErrNoSwap if there is none. It replaces the content
// of dst and reuses its capacity.
func (c *Committer) Value(dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(c)
	return readBytes(dst, func(buffer []byte, length *uint) rk.Result {
		return rk.CommitterValue(c.pointer(), buffer, length)
	})
}

// Answer is how the store answered a request.
type Answer struct {
	// ClusterID, Revision and RaftTerm are from the answer's header.
	ClusterID, RaftTerm uint64
	Revision            int64
	// Held reports whether the guard held; it is false for a read.
	Held bool
	// Key and Value are the key if the guard did not hold, or for a read; all 0 if there is none.
	Key   KeyState
	Value []byte
}

// Answered reports how the store answered the request.
func (c *Committer) Answered(now time.Duration, answer Answer) error {
	return c.handle(now, answer.event())
}

// Unknown reports that it is unknown whether the request took effect, or will.
func (c *Committer) Unknown(now time.Duration) error {
	return c.handle(now, eventOf(rk.EventUnknown))
}

// Refused reports that the store refuses the request and will not carry it out later, and the store's reason.
func (c *Committer) Refused(now time.Duration, reason string) error {
	return c.handle(now, refusal(reason))
}

// Reconnected reports that the connection to the store is a new one, before anything that came over it.
func (c *Committer) Reconnected(now time.Duration) error {
	return c.handle(now, eventOf(rk.EventReconnected))
}

// Change is one change of the key, as a watch reports it.
type Change struct {
	// Key is the key as it was written; for a deletion its revision as ModRevision, and Version 0.
	Key   KeyState
	Value []byte
}

// Watched reports changes of the key, in their order.
func (c *Committer) Watched(now time.Duration, changes ...Change) error {
	return c.handle(now, changed(changes))
}

// WatchEnded reports that the watch has ended, by no StepStopWatch, and can be started again.
func (c *Committer) WatchEnded(now time.Duration) error {
	return c.handle(now, eventOf(rk.EventWatchEnded))
}

// WatchFailed reports that the watch has ended and cannot see all changes: they are compacted.
func (c *Committer) WatchFailed(now time.Duration) error {
	return c.handle(now, eventOf(rk.EventWatchFailed))
}

func (c *Committer) handle(now time.Duration, event *rk.Event) error {
	code := rk.CommitterHandle(c.pointer(), event, timeToC(now))
	runtime.KeepAlive(c)
	return resultError(code)
}
