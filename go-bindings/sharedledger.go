package rangekeeper

import (
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// SharedLedger is the changes of one program to a ledger that others change, too. It does no I/O: Poll returns what to
// ask of the store, and Got, Put, Changed, TooLarge and Unanswered take the answers. Package ledgerstore does so with a
// store.
//
// The store gets a value with a token, and puts one if the token of the stored one is unchanged. A token is bytes that
// the store chooses, such as a version or a resourceVersion; it must differ for each write, also of the same value.
// Nothing else is needed for safety: a write that arrives late has an old token.
//
// It may be used from several goroutines at once, of which one asks the store: it calls Poll and reports the answers.
type SharedLedger struct {
	inner *object[*rk.SharedLedger]
	// Of the copies that Known makes.
	pool string
	seed uint64
}

// NewSharedLedger returns a SharedLedger that knows nothing of the store yet. See [NewLedger] for the seed.
func NewSharedLedger(pool Pool, seed uint64) (*SharedLedger, error) {
	text, err := pool.toJSON()
	if err != nil {
		return nil, err
	}
	var handle *rk.SharedLedger
	var details rk.Error
	if code := rk.SharedLedgerNew(text, seed, &handle, &details); code != rk.ResultOK {
		return nil, ledgerError(code, &details)
	}
	return &SharedLedger{own(handle, rk.SharedLedgerFree), text, seed}, nil
}

func (l *SharedLedger) pointer() *rk.SharedLedger {
	if l == nil {
		return nil
	}
	return l.inner.pointer()
}

// Close drops the state: changes that have not ended never will. It may be called again and beside other calls.
func (l *SharedLedger) Close() error {
	rk.SharedLedgerFree(l.pointer())
	runtime.KeepAlive(l)
	return nil
}

// ChangeTicket is the number of a submitted change.
type ChangeTicket uint64

// SubmitAllocate adds an allocation to the next write; see [Ledger.Allocate].
func (l *SharedLedger) SubmitAllocate(want Want, owner string) (ChangeTicket, error) {
	change := want.change()
	return l.submit(&change, owner)
}

// SubmitRelease adds the release of a value without an owner to the next write; see [Ledger.Release].
func (l *SharedLedger) SubmitRelease(value LedgerValue) (ChangeTicket, error) {
	return l.submit(&rk.LedgerChange{Kind: rk.LedgerChangeReleaseValue, Value: value.c}, "")
}

// SubmitReleaseOwner adds the release of all that an owner has to the next write; see [Ledger.ReleaseOwner].
func (l *SharedLedger) SubmitReleaseOwner(owner string) (ChangeTicket, error) {
	return l.submit(&rk.LedgerChange{Kind: rk.LedgerChangeReleaseOwner}, owner)
}

// SubmitRead submits nothing to be written. It ends once the store was read after this call. Then Known is as new until
// the next Poll.
func (l *SharedLedger) SubmitRead() (ChangeTicket, error) {
	return l.submit(&rk.LedgerChange{Kind: rk.LedgerChangeRead}, "")
}

func (l *SharedLedger) submit(change *rk.LedgerChange, owner string) (ChangeTicket, error) {
	var ticket uint64
	var details rk.Error
	code := rk.SharedLedgerSubmit(l.pointer(), change, owner, &ticket, &details)
	runtime.KeepAlive(l)
	if code != rk.ResultOK {
		return 0, ledgerError(code, &details)
	}
	return ChangeTicket(ticket), nil
}

// Cancel ends the wait for a change whose caller has gone. One that is not under way is not made. What it allocated
// for nobody is released again, unless its write or that of the release has no answer; what it allocated for an owner
// is not, as the owner finds it and can release it.
func (l *SharedLedger) Cancel(ticket ChangeTicket) error {
	code := rk.SharedLedgerCancel(l.pointer(), uint64(ticket))
	runtime.KeepAlive(l)
	return resultError(code)
}

// LedgerRequestKind is what to ask of the store.
type LedgerRequestKind uint32

// The kinds of requests.
const (
	// RequestNone: nothing, as no change waits, or a request is under way.
	RequestNone LedgerRequestKind = rk.LedgerRequestNone
	// RequestGet: get the value with its token. Then call Got or Unanswered.
	RequestGet LedgerRequestKind = rk.LedgerRequestGet
	// RequestCreate: put Value if the store has none. Then call Put, Changed, TooLarge or Unanswered.
	RequestCreate LedgerRequestKind = rk.LedgerRequestCreate
	// RequestReplace: put Value if that in the store has Token. Then call Put, Changed, TooLarge or Unanswered.
	RequestReplace LedgerRequestKind = rk.LedgerRequestReplace
	// RequestWait: ask nothing before Until, as others write, too. Then call Poll again.
	RequestWait LedgerRequestKind = rk.LedgerRequestWait
)

// LedgerRequest is what to ask of the store. Fields that the kind does not name have their zero value.
type LedgerRequest struct {
	// Kind is what to ask.
	Kind LedgerRequestKind
	// Value is the value to put.
	Value []byte
	// Token is that of the value that it replaces.
	Token []byte
	// Until is when to go on.
	Until time.Time
}

// Poll returns what to ask of the store now. All changes that wait become one write. Ask, report the answer, and poll
// again, until it is RequestNone; then look at the outcomes.
//
// Cost: the changes, and [Ledger.Encode].
func (l *SharedLedger) Poll(now time.Time) (LedgerRequest, error) {
	defer runtime.KeepAlive(l)
	var c rk.LedgerRequest
	if code := rk.SharedLedgerPoll(l.pointer(), nanoseconds(now), &c); code != rk.ResultOK {
		return LedgerRequest{}, resultError(code)
	}
	request := LedgerRequest{Kind: LedgerRequestKind(c.Kind)}
	switch request.Kind {
	case RequestWait:
		request.Until = time.Unix(0, int64(c.Until))
	case RequestCreate, RequestReplace:
		request.Value, request.Token = make([]byte, c.ValueLen), make([]byte, c.TokenLen)
		if code := rk.SharedLedgerPut(l.pointer(), request.Value, request.Token); code != rk.ResultOK {
			return LedgerRequest{}, resultError(code)
		}
	}
	return request, nil
}

// Got records the value of the store and its token; a nil token if there is no value. The value is empty only at a
// place that never had a ledger: if somebody has emptied one, call Unanswered. The error is a *LedgerError if the value
// is no ledger of the pool (ErrOtherRange, ErrUnreadable, ErrEncrypted), or if the store had a value and has none now
// (ErrUnreadable). Then the value is got again. Call Unanswered after any other error.
func (l *SharedLedger) Got(value, token []byte) error {
	answer := uint32(rk.LedgerAnswerGot)
	if token == nil {
		answer = rk.LedgerAnswerMissing
	}
	return l.answered(answer, time.Time{}, value, token)
}

// Put records that the value was put, and has this token.
func (l *SharedLedger) Put(token []byte) error {
	return l.answered(rk.LedgerAnswerPut, time.Time{}, nil, token)
}

// Changed records that the value was not put, as the one in the store has another token, or is missing or not missing.
// The changes are made again on what the store has then, after a random time of up to 16 times as long as this attempt
// took.
func (l *SharedLedger) Changed(now time.Time) error {
	return l.answered(rk.LedgerAnswerChanged, now, nil, nil)
}

// TooLarge records that the value was not put, and never will be, as it is larger than the store allows. The next
// writes have fewer changes; one that is alone ends with ErrRefused.
func (l *SharedLedger) TooLarge() error {
	return l.answered(rk.LedgerAnswerTooLarge, time.Time{}, nil, nil)
}

// Unanswered records that a request had no answer, or one that does not say whether the value was put.
func (l *SharedLedger) Unanswered() error {
	return l.answered(rk.LedgerAnswerNone, time.Time{}, nil, nil)
}

func (l *SharedLedger) answered(answer uint32, now time.Time, value, token []byte) error {
	var details rk.Error
	code := rk.SharedLedgerAnswered(l.pointer(), answer, nanoseconds(now), value, token, &details)
	runtime.KeepAlive(l)
	if code != rk.ResultOK {
		return ledgerError(code, &details)
	}
	return nil
}

// Outcome returns what a change has allocated or released, or its error, as the methods of [Ledger] do; ended is false
// as long as it waits. The error may be ErrUnanswered: a write of a change without an owner had no answer; or
// ErrRefused: the ledger with this change is larger than the store allows. The outcome of a change is returned once.
func (l *SharedLedger) Outcome(ticket ChangeTicket) (allocations []Allocation, ended bool, err error) {
	var details rk.Error
	waits := false
	allocations, err = readAllocations(&details, func(all []rk.LedgerAllocation, n *uint) rk.Result {
		code := rk.SharedLedgerOutcome(l.pointer(), uint64(ticket), all, n, &details)
		runtime.KeepAlive(l)
		if waits = code == rk.ResultNotEnded; waits {
			*n = 0
			return rk.ResultOK
		}
		return code
	})
	return allocations, !waits, err
}

// Known returns a copy of what is stored, as far as is known: as of the last answer. It is nil if nothing is known:
// before the first answer, while a put is under way, and after one that did not take effect or had no answer.
// Cost: that of [Ledger.Encode] and [OpenLedger].
func (l *SharedLedger) Known() (*Ledger, error) {
	var handle *rk.Ledger
	code := rk.SharedLedgerKnown(l.pointer(), &handle)
	runtime.KeepAlive(l)
	if code == rk.ResultNotInitialised {
		return nil, nil
	}
	if code != rk.ResultOK {
		return nil, resultError(code)
	}
	// In pure Go the handle is in the instance of the SharedLedger, whose calls would wait for those of the copy.
	copied := &Ledger{own(handle, rk.LedgerFree)}
	defer copied.Close()
	stored, err := copied.Encode()
	if err != nil {
		return nil, err
	}
	return openLedger(l.pool, stored, l.seed)
}
