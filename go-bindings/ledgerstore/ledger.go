package ledgerstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// requestTimeout is how long a Ledger waits for one answer of its store.
const requestTimeout = 10 * time.Second

// Ledger hands out values. It may be used from several goroutines at once: changes that come while the store is asked
// become one write.
type Ledger struct {
	store  Store
	shared *rangekeeper.SharedLedger
	ctx    context.Context
	close  context.CancelFunc

	mutex   sync.Mutex
	waiting map[rangekeeper.ChangeTicket]call
	// running: a goroutine asks the store.
	running bool
}

// call is a call that waits.
type call struct {
	reads   bool
	outcome chan<- result
}

type result struct {
	allocations []rangekeeper.Allocation
	read        *rangekeeper.Ledger
	err         error
}

// New returns a Ledger over a store. It asks nothing yet. The error is about the pool.
//
// All programs that write the same value need the same range; they may differ in the rest of the pool.
func New(store Store, pool rangekeeper.Pool) (*Ledger, error) {
	shared, err := rangekeeper.NewSharedLedger(pool, rand.Uint64())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Ledger{store: store, shared: shared, ctx: ctx, close: cancel, waiting: map[rangekeeper.ChangeTicket]call{}}, nil
}

// Close ends the calls that wait. A write that is under way may still take effect.
func (l *Ledger) Close() error {
	l.close()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.end(rangekeeper.ErrClosed)
	return l.shared.Close()
}

// Allocate allocates what is wanted, for an owner or, if it is empty, for nobody, and returns once that is stored. An
// owner that has what it wants gets it again. So after an error of the store call it again with the same owner. See
// [rangekeeper.Ledger.Allocate] for the errors of the ledger. An error of the store is rangekeeper.ErrUnanswered, too,
// if an allocation for nobody may have been written. It is rangekeeper.ErrRefused if the ledger with this allocation is
// larger than the store allows; then nothing was allocated.
//
// If ctx ends first, the allocation is not made, or its owner has it. What nobody has is released, unless the store
// does not answer.
func (l *Ledger) Allocate(ctx context.Context, want rangekeeper.Want, owner string) (rangekeeper.Allocation, error) {
	all, err := l.change(ctx, func() (rangekeeper.ChangeTicket, error) { return l.shared.SubmitAllocate(want, owner) })
	if err != nil {
		return rangekeeper.Allocation{}, err
	}
	return all[0], nil
}

// Release releases a value that has no owner, and reports whether it was in use.
func (l *Ledger) Release(ctx context.Context, value rangekeeper.LedgerValue) (bool, error) {
	all, err := l.change(ctx, func() (rangekeeper.ChangeTicket, error) { return l.shared.SubmitRelease(value) })
	return len(all) > 0, err
}

// ReleaseOwner releases all that an owner has, and returns it; nothing if it has nothing, as after an earlier release.
// So after an error call it again. It writes also if the owner has nothing: after that, no write of another program
// that was on its way gives it something.
func (l *Ledger) ReleaseOwner(ctx context.Context, owner string) ([]rangekeeper.Allocation, error) {
	return l.change(ctx, func() (rangekeeper.ChangeTicket, error) { return l.shared.SubmitReleaseOwner(owner) })
}

// Read returns a copy of what is stored now, for look-ups and audits. It has a Close.
func (l *Ledger) Read(ctx context.Context) (*rangekeeper.Ledger, error) {
	result := l.wait(ctx, l.shared.SubmitRead, true)
	return result.read, result.err
}

func (l *Ledger) change(ctx context.Context, submit func() (rangekeeper.ChangeTicket, error)) ([]rangekeeper.Allocation, error) {
	result := l.wait(ctx, submit, false)
	return result.allocations, result.err
}

// wait submits a change and waits for its outcome.
func (l *Ledger) wait(ctx context.Context, submit func() (rangekeeper.ChangeTicket, error), reads bool) result {
	outcome := make(chan result, 1)
	ticket, err := l.submit(submit, call{reads, outcome})
	if err != nil {
		return result{err: err}
	}
	select {
	case result := <-outcome:
		return result
	case <-ctx.Done():
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.waiting, ticket)
	select {
	case result := <-outcome: // in the meantime
		return result
	default:
		// The goroutine that asks the store still runs, and releases what was allocated for nobody.
		if err := l.shared.Cancel(ticket); err != nil {
			return result{err: err}
		}
		return result{err: context.Cause(ctx)}
	}
}

func (l *Ledger) submit(submit func() (rangekeeper.ChangeTicket, error), c call) (rangekeeper.ChangeTicket, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	ticket, err := submit()
	if err != nil {
		return 0, err
	}
	l.waiting[ticket] = c
	l.run()
	return ticket, nil
}

// run has a goroutine ask the store. The caller has the mutex.
func (l *Ledger) run() {
	if !l.running {
		l.running = true
		go l.ask()
	}
}

// ask asks the store until there is nothing to ask. If the store has a fault, all calls that wait return its error.
func (l *Ledger) ask() {
	for {
		request, err := l.next()
		if err == nil && request.Kind == rangekeeper.RequestNone {
			return
		}
		if err == nil {
			err = l.carryOut(&request)
		}
		if err != nil {
			err = l.unanswered(err)
		}
		l.mutex.Lock()
		l.deliver(err)
		if err != nil {
			// What is to be released for callers that have gone waits for the next call.
			l.end(err)
			l.running = false
			l.mutex.Unlock()
			return
		}
		l.mutex.Unlock()
	}
}

// next returns what to ask. If that is nothing, the goroutine ends: a change that comes later starts another one.
func (l *Ledger) next() (rangekeeper.LedgerRequest, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	request, err := l.shared.Poll(time.Now())
	if err == nil {
		l.deliver(nil) // what needs no write
		l.running = request.Kind != rangekeeper.RequestNone
	}
	return request, err
}

func (l *Ledger) carryOut(request *rangekeeper.LedgerRequest) error {
	ctx, cancel := context.WithTimeout(l.ctx, requestTimeout)
	defer cancel()
	switch request.Kind {
	case rangekeeper.RequestWait:
		select {
		case <-time.After(time.Until(request.Until)):
		case <-l.ctx.Done():
		}
		return nil
	case rangekeeper.RequestGet:
		value, token, err := l.store.Get(ctx)
		if err == nil {
			err = l.shared.Got(value, token)
		}
		if err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		return nil
	default:
		var token []byte
		if request.Kind == rangekeeper.RequestReplace {
			token = request.Token
		}
		newToken, err := l.store.Put(ctx, request.Value, token)
		switch {
		case err == nil:
			return l.shared.Put(newToken)
		case errors.Is(err, ErrChanged):
			return l.shared.Changed(time.Now())
		case errors.Is(err, ErrTooLarge):
			return l.shared.TooLarge()
		default:
			return fmt.Errorf("write the ledger: %w", err)
		}
	}
}

// unanswered lets no request be under way, for this reason: it had no answer, or a report of its answer was refused.
func (l *Ledger) unanswered(err error) error {
	if more := l.shared.Unanswered(); more != nil && !errors.Is(err, more) {
		return errors.Join(err, more)
	}
	return err
}

// deliver returns the outcomes of changes that have ended. Where one is unknown, fault of the store is the reason. The
// caller has the mutex.
func (l *Ledger) deliver(fault error) {
	for ticket, c := range l.waiting {
		allocations, ended, err := l.shared.Outcome(ticket)
		if !ended {
			continue
		}
		delete(l.waiting, ticket)
		if fault != nil && errors.Is(err, rangekeeper.ErrUnanswered) {
			err = fmt.Errorf("%w: %w", err, fault)
		}
		r := result{allocations: allocations, err: err}
		if c.reads && err == nil {
			r.read, r.err = l.shared.Known() // of this moment
		}
		c.outcome <- r
	}
}

// end returns an error to all that wait. The caller has the mutex.
func (l *Ledger) end(err error) {
	for ticket, c := range l.waiting {
		delete(l.waiting, ticket)
		_ = l.shared.Cancel(ticket) // it is closed, or the change waits no more
		c.outcome <- result{err: err}
	}
}
