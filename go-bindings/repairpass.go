package rangekeeper

import (
	"fmt"
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// RepairPass is one repair pass over the objects of committers. Its steps, in this order; another order is refused with
// ErrInvalidArgument and a message:
//
//  1. For each committer [Committer.BeginPass], then a ReadOperation to it, and when that has ended
//     [Committer.PassRead]. If that says so, the fence is written once all ranges were read, and [Committer.PassFenced]
//     reports it.
//  2. [RepairPass.Audit] begins an [Audit] of the ranges that were read. After that, Services are listed linearizably
//     and observed by it.
//  3. [RepairPass.Finish] ends the audit.
//  4. For each committer [Committer.SubmitRepair].
//
// A pass that fails on its way is closed, and the next one started. It may be used from several goroutines at once.
type RepairPass struct {
	inner *object[*rk.RepairPass]
	begun *ranges
}

// Start starts a pass. One of the same LeakTracker that is under way is given up: its steps are refused.
func (p *LeakTracker) Start() (*RepairPass, error) {
	var handle *rk.RepairPass
	code := rk.RepairPassNew(p.pointer(), &handle)
	runtime.KeepAlive(p)
	if code != rk.ResultOK {
		return nil, resultError(code)
	}
	return &RepairPass{own(handle, rk.RepairPassFree), new(ranges)}, nil
}

func (p *RepairPass) pointer() *rk.RepairPass {
	if p == nil {
		return nil
	}
	return p.inner.pointer()
}

// Close drops the pass. It may be called again and beside other calls.
func (p *RepairPass) Close() error {
	rk.RepairPassFree(p.pointer())
	runtime.KeepAlive(p)
	return nil
}

// Audit begins the audit of the pass, with the ranges that were read, in the order of BeginPass, of a cluster whose
// ClusterIPs are in bitmaps. More ranges may be added to it, and Services that are listed from now on. An error ends
// the pass; it may be ErrSameKind.
func (p *RepairPass) Audit() (*Audit, error) { return p.audit(false, time.Time{}) }

// IPAddressAudit is as Audit, of a cluster whose ClusterIPs are IPAddress objects; now is as in [NewIPAddressAudit].
func (p *RepairPass) IPAddressAudit(now time.Time) (*Audit, error) { return p.audit(true, now) }

func (p *RepairPass) audit(ipAddresses bool, now time.Time) (*Audit, error) {
	var handle *rk.Audit
	var details rk.Error
	code := rk.RepairPassAudit(p.pointer(), ipAddresses, secondsOf(now), &handle, &details)
	runtime.KeepAlive(p)
	if code != rk.ResultOK {
		return nil, detailedError(code, &details)
	}
	return &Audit{own(handle, rk.AuditFree), &ranges{all: p.begun.list()}}, nil
}

// Finish ends the audit of the pass. Leaks stay until they were seen in enough passes in a row. An error ends the pass.
func (p *RepairPass) Finish(audit *Audit) (*Report, error) {
	var handle *rk.Report
	var details rk.Error
	code := rk.RepairPassFinish(p.pointer(), audit.pointer(), &handle, &details)
	runtime.KeepAlive(p)
	runtime.KeepAlive(audit)
	if code != rk.ResultOK {
		return nil, detailedError(code, &details)
	}
	audit.Close() // nothing of it is left
	return &Report{own(handle, rk.ReportFree), audit.ranges.list()}, nil
}

// BeginPass has the committer keep the history of its key; it comes before the read of a pass is submitted.
func (c *Committer) BeginPass(pass *RepairPass) error {
	if c.pointer() == nil || pass.pointer() == nil {
		return ErrClosed
	}
	_, err := pass.begun.add(c.r, func() error {
		var details rk.Error
		code := rk.RepairPassBegin(pass.pointer(), c.pointer(), &details)
		runtime.KeepAlive(pass)
		runtime.KeepAlive(c)
		return detailedError(code, &details)
	})
	return err
}

// PassRead reports the read of a pass, with its revision and snapshot. Services are listed
// after now. The leak counters of the committer's range go on only where the value was in use ever since the pass
// before; where that is not known, or that pass was too short a while ago, all of them start again. It returns whether
// the fence has to be written before that: the pass may clean leaks of this range, or create the object, or others may
// have recreated it. The error may be a *BitsPastRangeError.
func (c *Committer) PassRead(pass *RepairPass, revision int64, snapshot []byte, now time.Duration) (needsFence bool, err error) {
	if c.pointer() == nil {
		return false, ErrClosed
	}
	var details rk.Error
	code := rk.RepairPassRead(pass.pointer(), c.pointer(), uint64(revision), snapshot,
		timeToC(now), &needsFence, &details)
	runtime.KeepAlive(pass)
	runtime.KeepAlive(c)
	if code != rk.ResultOK {
		return false, snapshotError(code, &details, c.r.String(), c.r.String())
	}
	return needsFence, nil
}

// PassFenced reports that the fence of the committer's range was written, and the revision of etcd after that, with a
// look, for which look is a number, not 0.
//
// Beside the range is another key in its etcd, the witness, whose value has no meaning. A StepSwap that sets values
// puts it in its transaction ([Witness]), and the fence is its deletion. The transaction that writes a Service with new
// values has the condition that the witness was created at the revision of their allocation or before, and written at
// that or later. So after the fence a Service with a leaked value is in the list or is never written, however late its
// write reaches etcd.
//
// Revisions do not tell one history of etcd from another: if etcd is restored between the list and the swap, and
// written to since, the range can be as the swap expects it, with other Services. So the transaction of the fence also
// puts the look, a key with a random name. While it is there, the history of etcd up to the look is the same. Each
// fence of a pass but the first has the condition that the look before it is there. Services are listed at the revision
// of the last fence: with a list of another revision, or without a fence, leaks stay. A StepSwap that depends on the
// look has its number.
func (c *Committer) PassFenced(pass *RepairPass, revision int64, look uint64) error {
	if c.pointer() == nil {
		return ErrClosed
	}
	var details rk.Error
	code := rk.RepairPassFenced(pass.pointer(), c.pointer(), uint64(max(revision, 0)), look, &details)
	runtime.KeepAlive(pass)
	runtime.KeepAlive(c)
	return detailedError(code, &details)
}

// CheckPass looks, after the pass has finished its audit, whether the committer will refuse to repair its range, as far
// as it knows the stored object: for a dry run, which submits no repair. The error is ErrRangeInUse or ErrUnreadable.
// With ReplaceOnce it does not refuse, and ErrRangeInUse is what it overrides.
func (c *Committer) CheckPass(pass *RepairPass) error {
	if c.pointer() == nil {
		return ErrClosed
	}
	var details rk.Error
	code := rk.RepairPassCheck(pass.pointer(), c.pointer(), &details)
	runtime.KeepAlive(pass)
	runtime.KeepAlive(c)
	return detailedError(code, &details)
}

// SubmitRepair queues the operation that applies the result of a finished pass to the committer's range. It is to
// be submitted even if the pass found nothing: the committer learns from it which values more than one Service claims.
// It may be submitted again if it has failed.
//
// A leak that is due, but was first seen less than the grace ago or was handed out by this committer within it, stays
// and is due again in the next pass; so does one that a write of a Service protected.
//
// The error is ErrInvalidArgument if the pass is at another step, or the ServiceList guards and has no revision.
func (c *Committer) SubmitRepair(deadline time.Duration, pass *RepairPass, listed ServiceList) (Ticket, error) {
	if listed.Revision < 0 {
		return 0, fmt.Errorf("%w: a list of Services with revision %d", ErrInvalidArgument, listed.Revision)
	}
	var ticket uint64
	var details rk.Error
	code := rk.CommitterSubmitRepair(c.pointer(), pass.pointer(), uint64(listed.Revision), listed.Guards,
		deadlineToC(deadline), &ticket, &details)
	runtime.KeepAlive(c)
	runtime.KeepAlive(pass)
	return Ticket(ticket), detailedError(code, &details)
}
