package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	driver "github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// online repairs the running cluster in passes; without --apply it shows what they would change.
func (r *repair) online(ctx context.Context) (*audit.Plan, error) {
	passes, remember := r.passes, rangekeeper.NewLeakTracker
	if !r.cleanLeaks {
		remember = rangekeeper.NewLeakTrackerKeepingLeaks
	}
	if !r.apply { // the one pass shows what all of them would clear
		passes = 1
	}
	known, err := remember(passes, r.interval)
	if err != nil {
		return nil, err
	}
	defer known.Close()
	opened, err := r.openRanges(ctx)
	defer func() {
		for _, k := range opened {
			ranges.CloseRange(k.Store) // nothing of it is under way
		}
	}()
	if err != nil {
		return nil, err
	}
	var before *audit.Plan
	for n := uint8(1); ; n++ {
		r.changed = map[string]int{}
		plan, err := r.pass(ctx, known, opened, r.cleanLeaks || n > 1)
		if plan == nil {
			return before, err
		}
		if before != nil {
			plan.After(before)
		}
		if err != nil {
			return plan, err
		}
		alone := plan.AloneLeft()
		if n == passes || !r.cleanLeaks && len(alone) == 0 {
			if len(r.changed) > 0 {
				if plan, err = r.lookAgain(ctx, plan); err != nil {
					return plan, err
				}
				alone = plan.AloneLeft()
			}
			r.reportLeft(plan.LeaksLeft(), alone)
			return plan, nil
		}
		before = plan
		if r.cleanLeaks {
			fmt.Fprintf(r.log, "rangekeeper: pass %d of %d: %s; the next one in %s\n", n, passes, screen.Count(len(plan.Leaks), "leak"), r.interval)
		} else {
			fmt.Fprintf(r.log, "rangekeeper: waiting %.0f s to look again: only a bitmap records %s, and a request that creates a Service may be under way\n",
				r.interval.Seconds(), addresses(alone))
		}
		select {
		case <-time.After(r.interval):
		case <-ctx.Done():
			return before, fmt.Errorf("interrupted after pass %d of %d, before anything is cleared: %w", n, passes, ctx.Err())
		}
	}
}

// reportLeft says what stays in bitmaps after the last pass: leaks, and addresses that only a bitmap records.
func (r *repair) reportLeft(leaks int, alone []string) {
	const again = "not known to have stayed %s over all passes; run the command again"
	if leaks > 0 {
		reason := "--clean-leaks cleans those that stay leaked over several passes"
		if r.cleanLeaks {
			reason = fmt.Sprintf(again, "leaked")
		}
		fmt.Fprintf(r.log, "rangekeeper: %s left: %s\n", screen.Count(leaks, "leak"), reason)
	}
	if len(alone) > 0 {
		fmt.Fprintf(r.log, "rangekeeper: %s left, which only a bitmap records: %s\n", addresses(alone), fmt.Sprintf(again, "so"))
	}
}

// addresses names one address, and counts several.
func addresses(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return fmt.Sprintf("%d addresses", len(all))
}

// repairRange is a stored range that is repaired.
type repairRange struct {
	name string
	*etcdstore.Store
}

// openRanges opens what is to be written: with --apply the ranges that are stored.
// With an error it returns those that are open already.
func (r *repair) openRanges(ctx context.Context) ([]repairRange, error) {
	if !r.apply {
		return nil, nil
	}
	stored, err := r.source.Store(ctx)
	if err != nil {
		return nil, err
	}
	grace := max(time.Duration(r.passes-1)*r.interval, 1) // a leak is as old as that in the last pass
	var opened []repairRange
	for _, name := range ranges.Names {
		values, err := stored.Stored(ctx, name)
		if errors.Is(err, rangekeeper.ErrNotInitialised) || errors.Is(err, ranges.ErrNotReadable) {
			continue // the audit says so
		}
		if err != nil {
			return opened, err
		}
		one, err := stored.OpenRange(name, values, grace)
		if err != nil {
			return opened, err
		}
		opened = append(opened, repairRange{name, one})
	}
	return opened, nil
}

// pass reads the state, audits it and, with --apply, writes what changes. Where it may clear something it needs
// Services.
func (r *repair) pass(ctx context.Context, known *rangekeeper.LeakTracker, opened []repairRange, clears bool) (*audit.Plan, error) {
	var read []audit.ReadRange
	driven := make([]driver.Range, len(opened))
	for i, k := range opened {
		driven[i] = timedRange{k.Store}
		read = append(read, audit.ReadRange{Name: k.name, Range: k.Range().String()})
	}
	var audited *audit.Audit
	outcomes, err := driver.Drive(ctx, known, driven, !r.apply, func(pass *rangekeeper.RepairPass, at int64) (*rangekeeper.Report, rangekeeper.ServiceList, error) {
		state, err := r.source.Read(ctx, at)
		if err != nil {
			return nil, rangekeeper.ServiceList{}, err
		}
		o := r.source.AuditOptions(state)
		o.CleansLeaks, o.Read, o.Pass = clears, read, pass
		if audited, err = r.source.AuditWith(state, o); err != nil {
			return nil, rangekeeper.ServiceList{}, err
		}
		r.last = audited
		return audited.Core(), rangekeeper.ServiceList{Revision: state.Revision, Guards: true}, nil
	})
	if outcomes == nil {
		if r.apply && ctx.Err() != nil {
			err = fmt.Errorf("interrupted while the cluster was read, before this pass wrote anything: %w", ctx.Err())
		}
		return nil, err
	}
	if err != nil {
		err = fmt.Errorf("%w (some ranges may be repaired; run the command again)", err)
	}
	for i, k := range opened {
		if changed := outcomes[i].Changed; changed > 0 {
			r.changed[k.name] = changed
		}
	}
	plan, planErr := audited.Plan()
	if planErr != nil {
		return nil, errors.Join(err, planErr)
	}
	if err != nil && !plan.ChangesAny() {
		return nil, err
	}
	if r.apply {
		plan.SetApplied()
	}
	return plan, err
}

// lookAgain audits the cluster once more after a pass that left values alone, as they or Services changed: what is
// right by now was repaired by another program, and the rest is due. It returns what the passes have done, with what is
// found now.
func (r *repair) lookAgain(ctx context.Context, done *audit.Plan) (*audit.Plan, error) {
	state, err := r.source.Read(ctx, 0)
	if err != nil {
		return done, err
	}
	o := r.source.AuditOptions(state)
	o.CleansLeaks, o.KeepsLeaks = r.cleanLeaks, !r.cleanLeaks
	if r.last, err = r.source.AuditWith(state, o); err != nil {
		return done, err
	}
	pending, err := r.last.Plan()
	if err != nil {
		return done, err
	}
	for _, one := range pending.Ranges {
		changed := r.changed[one.Name]
		due := min(len(one.Set)+len(one.Clear), changed)
		if repaired := changed - due; repaired > 0 {
			fmt.Fprintf(r.log, "rangekeeper: %s of %s repaired meanwhile, by another program\n", screen.Count(repaired, "value"), one.Name)
		}
		if due > 0 {
			r.leftAlone += due
			fmt.Fprintf(r.log, "rangekeeper: %s of %s left alone, as they or Services changed meanwhile; run the command again\n", screen.Count(due, "value"), one.Name)
		}
	}
	if err := r.last.RecordNoRepair(); err != nil {
		return done, err
	}
	now, err := r.last.Plan()
	if err != nil {
		return done, err
	}
	now.After(done)
	now.SetApplied()
	return now, nil
}

// timedRange is a range whose operations have the time of an operation each.
type timedRange struct{ driver.Range }

func (t timedRange) ReadForPass(ctx context.Context, pass *rangekeeper.RepairPass) (rangekeeper.View, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	view, needsFence, err := t.Range.ReadForPass(ctx, pass)
	return view, needsFence, etcdflags.Explained(err)
}

func (t timedRange) Fence(ctx context.Context, pass *rangekeeper.RepairPass, before *etcdstore.Look) (*etcdstore.Look, error) {
	look, err := t.Range.Fence(ctx, pass, before)
	return look, etcdflags.Explained(err)
}

func (t timedRange) Repair(ctx context.Context, pass *rangekeeper.RepairPass, look *etcdstore.Look, listed rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	ctx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	repaired, err := t.Range.Repair(ctx, pass, look, listed)
	return repaired, etcdflags.Explained(err)
}
