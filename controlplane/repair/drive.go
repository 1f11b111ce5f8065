// Package repair makes repair passes over the stored ranges of a running cluster. All decisions are made by the core
// library.
package repair

import (
	"context"
	"errors"
	"time"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	// DefaultInterval and DefaultPasses are those of kube-apiserver.
	DefaultInterval = 3 * time.Minute
	DefaultPasses   = 3
	// WarnFree is the percentage of free values below which a range is nearly full.
	WarnFree = 5
)

// Range is a stored range that passes are made over. A Store of package etcdstore is one.
type Range interface {
	// ReadForPass reads the range for a pass, and returns whether the pass may clean leaks, so that Fence comes next.
	ReadForPass(ctx context.Context, pass *rangekeeper.RepairPass) (view rangekeeper.View, needsFence bool, err error)
	// Fence writes the fence of the range for a pass that has read all its ranges, and begins a look: before is that of
	// the fence before. Services are listed at the revision of the last look. A range without an etcd has none.
	Fence(ctx context.Context, pass *rangekeeper.RepairPass, before *etcdstore.Look) (*etcdstore.Look, error)
	// CheckRepair looks whether Repair would refuse the range as it was read, or would without
	// [rangekeeper.ReplaceOnce].
	CheckRepair(pass *rangekeeper.RepairPass) error
	// Repair writes what the finished pass, which had this look, found out about the range.
	Repair(ctx context.Context, pass *rangekeeper.RepairPass, look *etcdstore.Look, listed rangekeeper.ServiceList) (rangekeeper.Repaired, error)
}

// RangeOutcome is the outcome of a pass for one range.
type RangeOutcome struct {
	// Missing says that nothing was stored before, or another range.
	Missing bool
	// Kept is why the stored range was not replaced by the configured one: a rangekeeper.ErrRangeInUse, which is no
	// failure.
	Kept error
	// Replaced is the rangekeeper.ErrRangeInUse that [rangekeeper.ReplaceOnce] has overridden. A dry run does not know
	// that, and has it as Kept.
	Replaced error
	// Changed is the number of values that were left alone, as they, or Services, had changed since they were read.
	Changed int
}

// Drive makes one pass, step by step: it reads the ranges, has observe end the audit of the pass, repairs the ranges
// that are in use unless dryRun is set, and records in the report what was done. The outcomes are in the order of the
// ranges. If some repairs fail, the others are made all the same, and their outcomes come with the error; there are no
// outcomes if the pass failed before.
//
// observe is called when all ranges are read. It lists Services linearizably, at the revision at if that is not 0 and
// revisions can be compared, shows them to an audit to which [rangekeeper.RepairPass.Audit] has added what was read,
// and returns what [rangekeeper.RepairPass.Finish] has returned; the caller closes that.
func Drive(ctx context.Context, passes *rangekeeper.LeakTracker, ranges []Range, dryRun bool, observe func(pass *rangekeeper.RepairPass, at int64) (*rangekeeper.Report, rangekeeper.ServiceList, error)) ([]RangeOutcome, error) {
	pass, err := passes.Start()
	if err != nil {
		return nil, err
	}
	defer pass.Close()
	outcomes := make([]RangeOutcome, len(ranges))
	var fenced []Range
	for i, one := range ranges {
		view, needsFence, err := one.ReadForPass(ctx, pass)
		if err != nil {
			return nil, err
		}
		if needsFence && !dryRun {
			fenced = append(fenced, one)
		}
		outcomes[i].Missing = !view.Initialised
	}
	var look *etcdstore.Look
	defer func() { look.End(context.WithoutCancel(ctx)) }()
	for _, one := range fenced {
		next, err := one.Fence(ctx, pass, look)
		if err != nil {
			return nil, err
		}
		look = next
	}
	report, listed, err := observe(pass, look.At())
	if err != nil {
		return nil, err
	}
	var failures []error
	for i, one := range ranges {
		if report.Range(i).Record == rangekeeper.RecordStale {
			continue
		}
		var repaired rangekeeper.Repaired
		refusal := one.CheckRepair(pass) // after the repair it is over
		err := refusal
		if !dryRun {
			repaired, err = one.Repair(ctx, pass, look, listed)
		}
		outcomes[i].Changed = repaired.Changed
		if errors.Is(err, rangekeeper.ErrRangeInUse) {
			outcomes[i].Kept = err
			failures = append(failures, report.RecordFailedRepair(i))
			continue
		}
		if err == nil && errors.Is(refusal, rangekeeper.ErrRangeInUse) {
			outcomes[i].Replaced = refusal
		}
		failures = append(failures, err)
		switch {
		case err != nil:
			failures = append(failures, report.RecordFailedRepair(i))
		case !dryRun:
			failures = append(failures, report.RecordRepair(i, repaired))
		}
	}
	return outcomes, errors.Join(failures...)
}
