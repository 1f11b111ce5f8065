// Package etcdstore allocates through etcd: the operations of many callers become compare-and-swaps of one key, which
// holds a RangeAllocation as kube-apiserver stores it. All decisions are made by a [rangekeeper.Committer]; this
// package does its I/O.
package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// DefaultGrace is two intervals of kube-apiserver's repair controllers.
const DefaultGrace = 6 * time.Minute

var (
	// ErrUnknown: an operation may have taken effect, or may yet do so. The values it allocated must not be used; a
	// repair pass frees them.
	ErrUnknown = errors.New("the outcome of the operation is unknown")
	// ErrDeferred: a value was not released, and is left to a repair pass.
	ErrDeferred = errors.New("not released, and left to a repair pass")
)

// Config configures a Store.
type Config struct {
	Client *clientv3.Client
	// Key is where the object is stored: /registry/ranges/serviceips and the like.
	Key      string
	Range    rangekeeper.Range
	Strategy rangekeeper.Strategy
	// Services is the prefix of the keys of Services if they are in the same etcd, such as /registry/services/specs/. A
	// Repair whose list guards, and an Edit, need it.
	Services string
	// Grace is the time in which the Service of an allocation must be written; 0 for DefaultGrace. Where Services are
	// written without Conditions, all programs that share the range must have the same.
	Grace time.Duration
	// Replace says which stored range a Repair may replace by Range.
	Replace rangekeeper.Replace
	// Replaced, if not nil, is called with the reason when the committer has failed and a new one takes its place: a
	// fault of Rangekeeper, to be logged. The operations under way end as ErrUnknown, and the new committer reads the
	// object again.
	Replaced func(error)
	// Restored, if not nil, is called when another etcd, or an older state of it, answers than before, as after a
	// restore from a backup: to be logged. The Store goes on by itself. What others remember of etcd, such as the watch
	// cache of an API server, is wrong from then on.
	Restored func()
}

// Store allocates from one stored object. All methods may be called from several goroutines at once; their operations
// share requests to etcd.
//
// An operation whose context ends before it is done returns the context's error, and ErrUnknown if it was under way.
// Values that it then still allocates are released again. Operations of a zero Store return rangekeeper.ErrClosed.
type Store struct {
	config    Config
	committer atomic.Pointer[rangekeeper.Committer]
	started   time.Time
	wake      chan struct{}
	stopped   chan struct{}
	stop      context.CancelFunc
	counters  counters

	connections *connections
	kv          clientv3.KV

	mu        sync.Mutex
	closed    bool
	submitted []*call
	cancelled []*call
	written   []rangekeeper.Value
	pending   int           // calls that have not ended
	drained   chan struct{} // closed when the store is closed and nothing is pending
	failure   failure
}

// call is one operation of a caller.
type call struct {
	operation rangekeeper.Operation
	repair    *repair // instead of operation
	edit      *edit   // instead of operation
	look      *Look   // of repair or edit, if it has one
	ticket    rangekeeper.Ticket
	taken     bool // whether the committer has it
	ended     bool // whether done has its outcome
	givenUp   bool // whether nobody waits for it any more
	done      chan rangekeeper.Outcome
}

// Check returns rangekeeper.ErrInvalidArgument for a Config that Open refuses.
func (c *Config) Check() error {
	var reason string
	switch {
	case c.Client == nil:
		reason = "the client is nil"
	case c.Key == "":
		reason = "the key is empty"
	case c.Range == rangekeeper.Range{}:
		reason = "the range is missing"
	case c.Grace < 0:
		reason = fmt.Sprintf("the grace of %s is negative", c.Grace)
	default:
		return nil
	}
	// No etcd could serve it: the store would retry for ever.
	return fmt.Errorf("%w: %s", rangekeeper.ErrInvalidArgument, reason)
}

// Open begins to keep the object; nothing is read or written before the first operation. A Config that cannot work is
// rangekeeper.ErrInvalidArgument.
func Open(config Config) (*Store, error) {
	if config.Grace == 0 {
		config.Grace = DefaultGrace
	}
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("open %q: %w", config.Key, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	connections := newConnections()
	s := &Store{
		config: config, started: time.Now(), connections: connections, kv: connections.kv(config.Client),
		wake: make(chan struct{}, 1), stopped: make(chan struct{}), stop: stop,
		drained: make(chan struct{}),
	}
	if err := s.newCommitter(); err != nil {
		stop()
		return nil, fmt.Errorf("open %s: %w", config.Key, err)
	}
	go s.run(ctx)
	return s, nil
}

// isZero reports whether the Store was not opened. Like the other zero values of the binding it is as good as closed.
func (s *Store) isZero() bool { return s.committer.Load() == nil }

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Key is where the object is stored.
func (s *Store) Key() string { return s.config.Key }

// Range is the configured range.
func (s *Store) Range() rangekeeper.Range { return s.config.Range }

// Close waits for operations under way until the context is done; those that have not ended return ErrUnknown. Later
// calls return rangekeeper.ErrClosed. The client stays open.
func (s *Store) Close(ctx context.Context) error {
	if s.isZero() {
		return nil
	}
	s.mu.Lock()
	s.refuse()
	s.mu.Unlock()
	var err error
	select {
	case <-s.drained:
	case <-ctx.Done():
		err = fmt.Errorf("close %s: %w", s.config.Key, ctx.Err())
	}
	s.stop()
	<-s.stopped
	return errors.Join(err, s.committer.Load().Close())
}

// Allocation is a value that was allocated.
type Allocation struct {
	Value rangekeeper.Value
	// Revision is the allocation's revision: the as-of revision of a rollback.
	Revision int64
	// Store is which store that was; see [rangekeeper.Ownership].
	Store uint32
	// UseUntil is when a Service with the value must be written.
	UseUntil time.Time
	// key is that of the range.
	key string
}

// Owner returns the Ownership of a rollback: the Service was certainly not written.
func (a Allocation) Owner() rangekeeper.Ownership {
	return rangekeeper.Ownership{AsOf: a.Revision, Oldest: a.Revision, Store: a.Store}
}

// Conditions returns the conditions under which values that one Store allocated are certainly still allocated: few,
// however many values there are, as etcd bounds the size of a transaction. The one that writes their Service has them,
// if Services are in the etcd of the range: then a write that reaches etcd late cannot give the Service a value that
// has another owner by then. They can fail though the values are still allocated: if a repair pass, or a restore of
// etcd, came between. Then nothing is written, and the caller releases the values and tries again.
//
// They compare revisions. An etcd that was restored to a state before an allocation, and has been written as often
// since, can meet them though the value has another owner there. So a program that may outlive a restore makes its
// write with [Connections.Txn]; one that does not ends before.
func Conditions(all ...Allocation) []clientv3.Cmp {
	if len(all) == 0 {
		return nil
	}
	byRevision := func(a, b Allocation) int { return cmp.Compare(a.Revision, b.Revision) }
	first, last := slices.MinFunc(all, byRevision), slices.MaxFunc(all, byRevision)
	// Not of the range itself: etcd reads the value of each key that is compared, 128 KiB for a /12.
	witness := WitnessKey(first.key)
	return []clientv3.Cmp{
		// No pass that may clean one of the values has begun to list Services, nor was the range recreated.
		clientv3.Compare(clientv3.CreateRevision(witness), "<", first.Revision+1),
		// etcd was not restored to a state before the last allocation.
		clientv3.Compare(clientv3.ModRevision(witness), ">", last.Revision-1),
	}
}

// WitnessKey returns the key of the witness beside a range: each write of a Store that allocates puts it, and a fence
// deletes it, as does the write that creates the range.
func WitnessKey(key string) string { return key + "/witness" }

// fenceOp returns the fence of the range with this key, the deletion of its witness.
func fenceOp(key string) clientv3.Op { return clientv3.OpDelete(WitnessKey(key)) }

// Init makes the object if it is missing or was never initialised, and reports whether it did. An object for another
// range is a *rangekeeper.MismatchedRangeError.
func (s *Store) Init(ctx context.Context) (created bool, err error) {
	outcome, err := s.do(ctx, rangekeeper.CreateOperation(s.deadline(ctx)))
	of, _ := outcome.(rangekeeper.Created)
	return of.Created, err
}

// AllocateNext takes a free value. Errors: rangekeeper.ErrFull, rangekeeper.ErrNotInitialised and those of every
// operation (see rangekeeper.Failed).
func (s *Store) AllocateNext(ctx context.Context) (Allocation, error) {
	return s.allocate(ctx, rangekeeper.Any())
}

// Allocate takes this value. Errors: rangekeeper.ErrAlreadyAllocated, rangekeeper.ErrNotInRange, and as of
// AllocateNext.
func (s *Store) Allocate(ctx context.Context, value rangekeeper.Value) (Allocation, error) {
	return s.allocate(ctx, rangekeeper.Named(value))
}

func (s *Store) allocate(ctx context.Context, request rangekeeper.Request) (Allocation, error) {
	all, err := s.AllocateBatch(ctx, request)
	var batch *rangekeeper.BatchError
	if errors.As(err, &batch) {
		err = batch.Err
	}
	if err != nil {
		return Allocation{}, err
	}
	return all[0], nil
}

// AllocateBatch serves all requests or none. The error of a request that could not be served is a
// *rangekeeper.BatchError.
func (s *Store) AllocateBatch(ctx context.Context, requests ...rangekeeper.Request) ([]Allocation, error) {
	outcome, err := s.do(ctx, rangekeeper.AllocateOperation(s.deadline(ctx), requests...))
	if err != nil {
		return nil, err
	}
	allocated, _ := outcome.(rangekeeper.Allocated)
	all := make([]Allocation, len(allocated.Values))
	for i, value := range allocated.Values {
		all[i] = Allocation{
			Value: value, Revision: allocated.Revision, Store: allocated.Store, UseUntil: s.started.Add(allocated.UseUntil),
			key: s.config.Key,
		}
	}
	return all, nil
}

// Written records that the Services of values that this Store allocated are stored. Until then a value is set again in
// an etcd that is restored from a backup.
func (s *Store) Written(values ...rangekeeper.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && !s.isZero() {
		s.written = append(s.written, values...)
	}
}

// Owned is a value that is to be released on behalf of its owner.
type Owned struct {
	Value rangekeeper.Value
	Owner rangekeeper.Ownership
}

// Release releases a value on behalf of its owner, and returns whether this call freed it: otherwise it was free
// already, or is somebody else's by now. ErrDeferred means that a repair pass has to look at it.
func (s *Store) Release(ctx context.Context, value rangekeeper.Value, owner rangekeeper.Ownership) (released bool, err error) {
	all, err := s.ReleaseAll(ctx, Owned{value, owner})
	return all[0], err
}

// ReleaseAll releases values, all in one batch, and returns for each of them what Release returns. An error names the
// value that it is about; the other values are released all the same.
func (s *Store) ReleaseAll(ctx context.Context, owned ...Owned) (released []bool, err error) {
	released = make([]bool, len(owned))
	calls := make([]*call, len(owned))
	for i, one := range owned {
		calls[i] = &call{operation: rangekeeper.ReleaseOperation(s.deadline(ctx), one.Value, one.Owner)}
	}
	if err := s.submit(ctx, calls...); err != nil {
		return released, err
	}
	var errs []error
	for i, c := range calls {
		outcome, err := s.await(ctx, c)
		of, _ := outcome.(rangekeeper.Released)
		released[i] = of.Freed
		if err != nil {
			errs = append(errs, fmt.Errorf("release %v: %w", owned[i].Value, err))
		}
	}
	return released, errors.Join(errs...)
}

// Read returns the stored state, confirmed by etcd after the call began.
func (s *Store) Read(ctx context.Context) (rangekeeper.View, error) {
	outcome, err := s.do(ctx, rangekeeper.ReadOperation(s.deadline(ctx)))
	state, _ := outcome.(rangekeeper.View)
	return state, err
}

// Known returns the state that is known without asking etcd: it may be out of date. After Close it is zero. A Store
// that was opened again has other numbers ([rangekeeper.Known.Store]): it defers releases that name one of before.
func (s *Store) Known() rangekeeper.Known { return s.committer.Load().Known() }

type repair struct {
	pass     *rangekeeper.RepairPass
	listed   rangekeeper.ServiceList
	deadline time.Duration
}

// ReadForPass reads the range for a pass that has started. If it returns that the pass needs the fence, [Store.Fence]
// comes next, once all ranges of the pass are read. Services are to be listed after that, from the etcd of the range,
// at the revision of the last look.
func (s *Store) ReadForPass(ctx context.Context, pass *rangekeeper.RepairPass) (view rangekeeper.View, needsFence bool, err error) {
	if s.isZero() {
		return view, false, rangekeeper.ErrClosed
	}
	err = s.committer.Load().BeginPass(pass)
	if err == nil {
		if view, err = s.Read(ctx); err != nil {
			return rangekeeper.View{}, false, err
		}
		needsFence, err = s.committer.Load().PassRead(pass, view.Revision, view.Snapshot, s.now())
	}
	if err != nil {
		return rangekeeper.View{}, false, fmt.Errorf("read %s for a repair pass: %w", s.config.Key, err)
	}
	return view, needsFence, nil
}

// CheckRepair looks whether Repair of a finished pass would refuse its range as it was read: for a dry run. The error
// is [rangekeeper.ErrRangeInUse], which [rangekeeper.ReplaceOnce] overrides, or [rangekeeper.ErrUnreadable].
func (s *Store) CheckRepair(pass *rangekeeper.RepairPass) error {
	if s.isZero() {
		return rangekeeper.ErrClosed
	}
	if err := s.committer.Load().CheckPass(pass); err != nil {
		return fmt.Errorf("%s: %w", s.config.Key, err)
	}
	return nil
}

// Repair applies the result of a finished pass, which has read the range by ReadForPass: as much of it as is still
// right when it is written. Repair is called even if the pass found nothing: the store learns from it which values more
// than one Service claims.
//
// A list of Services from before ReadForPass is rangekeeper.ErrStaleList, and with one of another revision than
// that of the pass's last look, which is given too, no leak is cleaned. One that guards needs Config.Services.
func (s *Store) Repair(ctx context.Context, pass *rangekeeper.RepairPass, look *Look, listed rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	if s.isZero() {
		return rangekeeper.Repaired{}, rangekeeper.ErrClosed
	}
	if listed.Guards && s.config.Services == "" {
		return rangekeeper.Repaired{}, fmt.Errorf("%s: %w: a list of Services that guards needs Config.Services", s.config.Key, rangekeeper.ErrInvalidArgument)
	}
	c := &call{repair: &repair{pass: pass, listed: listed, deadline: s.deadline(ctx)}, look: look}
	outcome, err := s.wait(ctx, c)
	repaired, _ := outcome.(rangekeeper.Repaired)
	return repaired, err
}

// deadline is when an operation with this context ends at the latest, by the committer's clock.
func (s *Store) deadline(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return at.Sub(s.started)
	}
	return rangekeeper.NoDeadline
}

func (s *Store) now() time.Duration { return time.Since(s.started) }

// do hands an operation to the committer and waits until it has ended.
func (s *Store) do(ctx context.Context, operation rangekeeper.Operation) (rangekeeper.Outcome, error) {
	return s.wait(ctx, &call{operation: operation})
}

func (s *Store) wait(ctx context.Context, c *call) (rangekeeper.Outcome, error) {
	if err := s.submit(ctx, c); err != nil {
		return nil, err
	}
	return s.await(ctx, c)
}

// submit queues calls for the committer, which takes them on together.
func (s *Store) submit(ctx context.Context, calls ...*call) error {
	if s.isZero() {
		return rangekeeper.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", s.config.Key, err)
	}
	for _, c := range calls {
		c.done = make(chan rangekeeper.Outcome, 1)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("%s: %w", s.config.Key, rangekeeper.ErrClosed)
	}
	s.pending += len(calls)
	s.submitted = append(s.submitted, calls...)
	s.mu.Unlock()
	s.signal()
	return nil
}

// await returns when a call has ended.
func (s *Store) await(ctx context.Context, c *call) (rangekeeper.Outcome, error) {
	select {
	case outcome := <-c.done:
		return outcome, s.err(outcome)
	case <-ctx.Done():
	}
	return s.giveUp(ctx, c)
}

// giveUp has the committer cancel a call if it was submitted; else it returns the result of the call.
func (s *Store) giveUp(ctx context.Context, c *call) (rangekeeper.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.ended { // at the same time
		outcome := <-c.done
		return outcome, s.err(outcome)
	}
	c.givenUp = true
	if c.taken {
		s.cancelled = append(s.cancelled, c)
		s.signal()
	} else if i := slices.Index(s.submitted, c); i >= 0 {
		s.submitted = slices.Delete(s.submitted, i, i+1)
		s.ended(1)
		return nil, fmt.Errorf("%s: %w", s.config.Key, ctx.Err())
	}
	return nil, fmt.Errorf("%s: %w: %w", s.config.Key, ErrUnknown, ctx.Err())
}

// refuse lets no more calls in; the lock is held.
func (s *Store) refuse() {
	if !s.closed {
		s.closed = true
		if s.pending == 0 {
			close(s.drained)
		}
	}
}

// ended notes that calls have ended; the lock is held.
func (s *Store) ended(n int) {
	s.pending -= n
	if s.closed && s.pending == 0 && n > 0 {
		close(s.drained)
	}
}

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Store) err(outcome rangekeeper.Outcome) error {
	switch outcome := outcome.(type) {
	case rangekeeper.Failed:
		return fmt.Errorf("%s: %w", s.config.Key, outcome.Err)
	case rangekeeper.Unknown:
		return fmt.Errorf("%s: %w", s.config.Key, ErrUnknown)
	case rangekeeper.Deferred:
		reason := "the history since the as-of revision is not known any more"
		if outcome.Duplicate {
			reason = "more than one Service had the value in the last pass"
		}
		return fmt.Errorf("%s: %w: %s", s.config.Key, ErrDeferred, reason)
	default:
		return nil
	}
}
