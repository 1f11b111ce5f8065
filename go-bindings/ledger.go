package rangekeeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Errors of ledgers without details, for errors.Is.
var (
	// ErrOwned: the value has an owner, which alone can release it.
	ErrOwned = errors.New("the value has an owner")
	// ErrHasOther: the owner has something else already.
	ErrHasOther = errors.New("the owner has something else already")
	// ErrOtherRange: the stored ledger is of another range.
	ErrOtherRange = errors.New("the stored ledger is of another range")
	// ErrUnanswered: a write had no answer. Whether the change took effect is unknown, and it is not repeated.
	ErrUnanswered = errors.New("a write had no answer")
)

// LedgerError is the error of a Ledger that refuses a call. errors.Is finds its reason: ErrFull, ErrAlreadyAllocated,
// ErrNotInRange, ErrOwned, ErrHasOther, ErrOtherRange, ErrUnanswered, ErrRefused, ErrUnreadable, ErrEncrypted,
// ErrInvalidArgument or ErrInvalidUTF8. A call can fail with ErrClosed, ErrPoisoned or ErrNoMemory as well.
type LedgerError struct {
	// Message is the library's message.
	Message string
	// Err is the reason.
	Err error
}

func (e *LedgerError) Error() string { return e.Message }
func (e *LedgerError) Unwrap() error { return e.Err }

func ledgerError(code rk.Result, details *rk.Error) error {
	var reason error
	switch code {
	case rk.ResultOwned:
		reason = ErrOwned
	case rk.ResultHasOther:
		reason = ErrHasOther
	case rk.ResultMismatchedRange:
		reason = ErrOtherRange
	case rk.ResultUnanswered:
		reason = ErrUnanswered
	case rk.ResultRefused:
		reason = ErrRefused
	case rk.ResultEncrypted:
		reason = ErrEncrypted
	case rk.ResultBitsPastRange, rk.ResultInvalidObject:
		reason = ErrUnreadable
	case rk.ResultInvalidRange:
		reason = ErrInvalidArgument
	case rk.ResultFull, rk.ResultAlreadyAllocated, rk.ResultNotInRange, rk.ResultInvalidArgument, rk.ResultInvalidUTF8:
		reason = resultError(code)
	default:
		return jsonError(code, details)
	}
	message := errorMessage(details)
	if message == "" { // of a function without details
		message = reason.Error()
	}
	return &LedgerError{message, reason}
}

// Choice is how a Ledger chooses the next free value.
type Choice string

// The choices. There is no default.
const (
	// Lowest: the lowest free value.
	Lowest Choice = "Lowest"
	// Random: the first free value from a random one on; past the end the search goes on at the beginning. In a range
	// of more than 2^24 values, 1,024 in a row come from a random part of 4,096, if that has so many free.
	Random Choice = "Random"
	// NextFit: the first free value after the one that was handed out last; past the end the search goes on at the
	// beginning. So a value comes back late. The place is stored with the ledger.
	NextFit Choice = "NextFit"
)

// Pool is a range, and which of its values are handed out, in which order.
//
// Range is one of these texts:
//
//	4096-16777215                   integers, both included, up to 2^64 - 1
//	1000000000-1999999999/10000     blocks of 10,000 integers; a rest at the end is in none
//	10.96.0.0/12                    the addresses of a CIDR, without the network and the IPv4 broadcast address
//	10.0.0.0/16/28                  the /28 of a /16, from the first to the last
//
// A part of a range is LOW-HIGH, one integer, or of blocks FIRST/SIZE; of addresses and networks FIRST-LAST, one
// address, or a CIDR. What is excluded is never reserved or in a band, and what is reserved is in no band.
type Pool struct {
	// Range has the values.
	Range string
	// Choice is how the next free one is chosen.
	Choice Choice
	// Exclude has parts that are never handed out, not even by name.
	Exclude []string
	// Reserve has parts that are handed out only by name.
	Reserve []string
	// StaticBands has parts that are handed out only by name, or if no others are free (KEP-3070 has one such band).
	StaticBands []string
	// CoolDown is for how long a value is handed out only by name after its release, in whole milliseconds; 0 for not
	// at all.
	// Programs end it by their own clocks: docs/ledger-json.md says what happens if those differ.
	CoolDown time.Duration
	// CoolDownAtMost is how many releases cool down at most: with one more, the oldest is over at once. It is 0 if
	// CoolDown is.
	CoolDownAtMost uint32
}

// toJSON returns the form of docs/ledger-json.md.
func (p *Pool) toJSON() (string, error) {
	type coolDown struct {
		TimeMs int64  `json:"timeMs"`
		AtMost uint32 `json:"atMost"`
	}
	c := struct {
		Range       string    `json:"range"`
		Choice      Choice    `json:"choice"`
		Exclude     []string  `json:"exclude,omitempty"`
		Reserve     []string  `json:"reserve,omitempty"`
		StaticBands []string  `json:"staticBands,omitempty"`
		CoolDown    *coolDown `json:"coolDown,omitempty"`
	}{p.Range, p.Choice, p.Exclude, p.Reserve, p.StaticBands, nil}
	if p.CoolDown != 0 || p.CoolDownAtMost != 0 {
		c.CoolDown = &coolDown{max(p.CoolDown.Milliseconds(), 0), p.CoolDownAtMost}
	}
	if p.Choice != Lowest && p.Choice != Random && p.Choice != NextFit {
		message := fmt.Sprintf("the choice %q is none of %q, %q and %q", p.Choice, Lowest, Random, NextFit)
		return "", &LedgerError{message, ErrInvalidArgument}
	}
	text, err := json.Marshal(&c)
	return string(text), err
}

// Ledger holds which values of a range are in use, and by whom: VNIs, VLANs, AS numbers, tunnel keys, UIDs, addresses,
// subnets.
//
// A value may have an owner: then a repeated allocation by the same owner returns the same value, and only a release by
// this owner frees it. So a caller that got no answer repeats its request, and needs no other record. Do not use the
// name of an owner again: take a UID, for example. A release that is repeated after a lost answer would otherwise
// release what the next owner of this name was given.
//
// A Ledger is in memory. [Ledger.Encode] returns the bytes to store, and [OpenLedger] opens them; package ledgerstore
// keeps one in a store that several programs write. Times end cool-downs; one before 1970 is the beginning of 1970.
//
// It may be used from several goroutines at once. Memory: a bit for each value of the range if there are at most 2^24;
// else at most 18 bytes for each value in use. An owner takes about 150 bytes and its text.
type Ledger struct {
	inner *object[*rk.Ledger]
}

// NewLedger returns a ledger in which nothing is in use. A user who knows the seed can choose values that are slow to
// look up in a range of more than 2^24: keep it secret. The error is a *LedgerError that names the text.
func NewLedger(pool Pool, seed uint64) (*Ledger, error) { return OpenLedger(pool, nil, seed) }

// OpenLedger opens a stored ledger of this pool: what Encode returned, or a range that kube-apiserver stores. No bytes
// are a ledger in which nothing is in use.
//
// Values that the pool excludes by now stay in use until they are released.
func OpenLedger(pool Pool, stored []byte, seed uint64) (*Ledger, error) {
	text, err := pool.toJSON()
	if err != nil {
		return nil, err
	}
	return openLedger(text, stored, seed)
}

func openLedger(pool string, stored []byte, seed uint64) (*Ledger, error) {
	var handle *rk.Ledger
	var details rk.Error
	if code := rk.LedgerNew(pool, stored, seed, &handle, &details); code != rk.ResultOK {
		return nil, ledgerError(code, &details)
	}
	return &Ledger{own(handle, rk.LedgerFree)}, nil
}

func (l *Ledger) pointer() *rk.Ledger {
	if l == nil {
		return nil
	}
	return l.inner.pointer()
}

// Close drops the state. It may be called again and beside other calls.
func (l *Ledger) Close() error {
	rk.LedgerFree(l.pointer())
	runtime.KeepAlive(l)
	return nil
}

// Allocate allocates what is wanted, for an owner of at most 1,024 bytes or, if it is empty, for nobody. An owner that
// has what it wants gets it again, and nothing changes. The error is a *LedgerError: ErrFull, ErrAlreadyAllocated,
// ErrNotInRange, ErrHasOther or ErrInvalidArgument.
//
// Cost: for one value a few nanoseconds in a range of at most 2^24 values, about 0.1 µs in a larger one, and with an
// owner two searches in sorted trees; for a run in addition a search through what is in use.
func (l *Ledger) Allocate(want Want, owner string, now time.Time) (Allocation, error) {
	change := want.change()
	all, err := l.apply(&change, owner, now)
	if err != nil {
		return Allocation{}, err
	}
	return all[0], nil
}

// Release releases a value that has no owner, and reports whether it was in use. The error is a *LedgerError: ErrOwned.
func (l *Ledger) Release(value LedgerValue, now time.Time) (bool, error) {
	all, err := l.apply(&rk.LedgerChange{Kind: rk.LedgerChangeReleaseValue, Value: value.c}, "", now)
	return len(all) > 0, err
}

// ReleaseOwner releases all that an owner has, and returns it; nothing if it has nothing, as after an earlier release.
// The error is ErrInvalidArgument if the owner is empty.
func (l *Ledger) ReleaseOwner(owner string, now time.Time) ([]Allocation, error) {
	return l.apply(&rk.LedgerChange{Kind: rk.LedgerChangeReleaseOwner}, owner, now)
}

func (l *Ledger) apply(change *rk.LedgerChange, owner string, now time.Time) ([]Allocation, error) {
	var details rk.Error
	return readAllocations(&details, func(all []rk.LedgerAllocation, n *uint) rk.Result {
		code := rk.LedgerApply(l.pointer(), change, owner, nanoseconds(now), all, n, &details)
		runtime.KeepAlive(l)
		return code
	})
}

// nanoseconds returns a time as C has it.
func nanoseconds(now time.Time) uint64 { return timeToC(now.Sub(time.Unix(0, 0))) }

// readAllocations is readList for allocations.
func readAllocations(details *rk.Error, read func(all []rk.LedgerAllocation, n *uint) rk.Result) ([]Allocation, error) {
	all, code := readList(make([]rk.LedgerAllocation, 1), read)
	if code != rk.ResultOK {
		return nil, ledgerError(code, details)
	}
	return allocationsFromC(all), nil
}

// ParseValue reads a value of the range, as [LedgerValue.String] writes it. The error is a *LedgerError:
// ErrInvalidArgument if it is no such text, ErrNotInRange if the range does not have the value.
func (l *Ledger) ParseValue(text string) (LedgerValue, error) {
	var value LedgerValue
	var details rk.Error
	code := rk.LedgerParseValue(l.pointer(), text, &value.c, &details)
	runtime.KeepAlive(l)
	if code != rk.ResultOK {
		return LedgerValue{}, ledgerError(code, &details)
	}
	return value, nil
}

// OwnerOf reports whether a value is in use, and returns its owner, which is empty if it has none.
func (l *Ledger) OwnerOf(value LedgerValue) (owner string, inUse bool, err error) {
	var details rk.Error
	b, code := readList(make([]byte, 64), func(buffer []byte, length *uint) rk.Result {
		return rk.LedgerOwnerOf(l.pointer(), &value.c, &inUse, buffer, length, &details)
	})
	runtime.KeepAlive(l)
	if code != rk.ResultOK {
		return "", false, ledgerError(code, &details)
	}
	return string(b), inUse, nil
}

// OwnedBy returns what an owner has, ascending: one allocation, unless another program stored more.
func (l *Ledger) OwnedBy(owner string) ([]Allocation, error) {
	var details rk.Error
	return readAllocations(&details, func(all []rk.LedgerAllocation, n *uint) rk.Result {
		code := rk.LedgerOwnedBy(l.pointer(), owner, all, n)
		runtime.KeepAlive(l)
		return code
	})
}

// Values returns the values in use, ascending; those of a Ledger that is changed meanwhile may be missing or extra.
// Cost: in a range of more than 2^24 values they are sorted, once for each 4,096.
func (l *Ledger) Values() iter.Seq[LedgerValue] {
	return func(yield func(LedgerValue) bool) {
		page := make([]rk.LedgerValue, 4096)
		var from uint64
		var last rk.LedgerValue
		for {
			var n uint
			code := rk.LedgerValues(l.pointer(), from, page, &n, &from)
			runtime.KeepAlive(l)
			if code != rk.ResultOK {
				return
			}
			for _, value := range page[:n] {
				// The value at the highest offset of all is on the next page again.
				if value != last && !yield(LedgerValue{value}) {
					return
				}
				last = value
			}
			if n < uint(len(page)) {
				return
			}
		}
	}
}

// LedgerUsage is how many values of a Ledger are in use.
type LedgerUsage struct {
	// Used is how many values are in use.
	Used uint64
	// Cooling is how many values are out of use for some time after their release.
	Cooling uint64
	// Size is how many values are handed out at all: those of the range that are not excluded; at most 2^64 - 1.
	Size uint64
}

// Usage returns how many values are in use.
func (l *Ledger) Usage() (LedgerUsage, error) {
	var c rk.LedgerUsage
	code := rk.LedgerCount(l.pointer(), &c)
	runtime.KeepAlive(l)
	return LedgerUsage{c.Used, c.Cooling, c.Size}, resultError(code)
}

// Encode returns the bytes to store: a RangeAllocation, as docs/stored-format.md says.
func (l *Ledger) Encode() ([]byte, error) {
	// Most ledgers fit: one that does not is encoded twice.
	return readBytes(make([]byte, 0, 4096), func(buffer []byte, length *uint) rk.Result {
		code := rk.LedgerEncode(l.pointer(), buffer, length)
		runtime.KeepAlive(l)
		return code
	})
}

// LedgerFinding is what is wrong with an owner or a value.
type LedgerFinding struct {
	// Reason is OwnerGone: a value has an owner that is not in the list. OwnerUnknown: an owner of the list has no
	// value. SeveralAllocations: an owner has several allocations. NoOwner: values in a row are in use and have no
	// owner, while others have one.
	Reason string `json:"reason"`
	// Owner is the owner; empty for NoOwner.
	Owner string `json:"owner"`
	// Value is the first value, as [LedgerValue.String] writes it; empty for OwnerUnknown.
	Value string `json:"value"`
	// Message is a sentence.
	Message string `json:"message"`
}

// OwnerLeaks counts how many audits in a row have found an owner gone. An allocation is often stored before its owner
// is, so one audit proves little. It is not safe for use from several goroutines at once.
type OwnerLeaks struct {
	// Passes is after how many audits in a row an owner is due, from 1 to 255; kube-apiserver's number is 3.
	Passes uint8
	// Counts has the owners that are gone and not due yet, with how often in a row. It may be stored.
	Counts map[string]uint8
}

// Audit compares the owners with the list of those that exist, in any order. The list must not be older than the
// ledger: read it afterwards. It counts the owners that are gone, and returns those that are due to be released, by
// ReleaseOwner; their counts begin at 0 again.
//
// Cost: O(n log n) for n owners; the values in use are looked at if any of them has an owner.
func (l *Ledger) Audit(owners []string, leaks *OwnerLeaks) (findings []LedgerFinding, due []string, err error) {
	if owners == nil {
		owners = []string{}
	}
	question, err := json.Marshal(struct {
		Owners []string         `json:"owners"`
		Passes uint8            `json:"passes"`
		Counts map[string]uint8 `json:"counts,omitempty"`
	}{owners, leaks.Passes, leaks.Counts})
	if err != nil {
		return nil, nil, err
	}
	var answer struct {
		Findings []LedgerFinding  `json:"findings"`
		Due      []string         `json:"due"`
		Counts   map[string]uint8 `json:"counts"`
	}
	var details rk.Error
	b, code := readList(make([]byte, 4096), func(buffer []byte, length *uint) rk.Result {
		return rk.LedgerAudit(l.pointer(), textOf(question), buffer, length, &details)
	})
	runtime.KeepAlive(l)
	if code != rk.ResultOK {
		return nil, nil, ledgerError(code, &details)
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, nil, err
	}
	leaks.Counts = answer.Counts
	return answer.Findings, answer.Due, nil
}
