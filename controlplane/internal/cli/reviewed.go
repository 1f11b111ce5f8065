package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	// journalSuffix is added to the name of a plan.
	journalSuffix = ".journal"
	// undoFor is how long a repair can be undone.
	undoFor = 24 * time.Hour
)

// errChanged: a plan or a journal does not fit the cluster any more.
var errChanged = errors.New("the cluster has changed")

// readRunning reads the running cluster, which must be that of a plan, if there is one.
func (r *repair) readRunning(ctx context.Context, planned *changes, at int64) (*clusterstate.State, error) {
	state, err := r.source.read(ctx, at)
	if err == nil && planned != nil {
		err = planned.checkCluster(r.planFile, state)
	}
	if err != nil {
		return nil, err
	}
	return state, r.source.explain(state.CheckReadable())
}

// audit audits a state of the running cluster, all leaks to be cleaned, or only what a bitmap records alone.
func (r *repair) audit(state *clusterstate.State, keepsLeaks bool) (*audit.Audit, error) {
	o := r.source.auditOptions(state)
	o.CleansLeaks, o.KeepsLeaks = r.cleanLeaks, keepsLeaks
	return r.source.auditWith(state, o)
}

// planForReview writes what a repair of the running cluster changes to a file.
func (r *repair) planForReview(ctx context.Context) (*audit.Plan, error) {
	state, err := r.readRunning(ctx, nil, 0)
	if err != nil {
		return nil, err
	}
	audited, err := r.audit(state, !r.cleanLeaks)
	if err != nil {
		return nil, err
	}
	plan, err := audited.Plan()
	if err != nil {
		return nil, err
	}
	users, err := audit.Users(state)
	if err != nil {
		return nil, err
	}
	c := &changes{APIVersion: audit.APIVersion, Kind: kindReviewedPlan, Time: time.Now().UTC(), Cluster: state.Identity, Revision: state.Revision}
	for _, one := range plan.Ranges {
		ranged := rangeChanges{Name: one.Name, Range: one.Range, Set: []usedValue{}, Clear: one.Clear}
		for _, text := range one.Set {
			value, err := rangekeeper.ParseValue(text)
			if err != nil {
				return nil, err
			}
			ranged.Set = append(ranged.Set, usedValue{text, users[value]})
		}
		c.Ranges = append(c.Ranges, ranged)
	}
	if err = c.create(r.planTo, r.force); errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w; --force replaces it", err)
	} else if err != nil {
		return nil, err
	}
	if state.Identity.UID == "" {
		fmt.Fprintln(r.log, "rangekeeper: the cluster has no Namespace kube-system that can be read, so the plan knows it only by the id of its etcd and by --prefix, which another cluster may share")
	}
	fmt.Fprintf(r.log, "rangekeeper: rangekeeper undo can take back %s for 24 hours after the plan is applied\n", c.undoable())
	return plan, nil
}

// applyPlan writes exactly what a plan says, range by range, or nothing.
func (r *repair) applyPlan(ctx context.Context) (*audit.Plan, error) {
	c, err := readChanges(r.planFile, kindReviewedPlan)
	if err != nil {
		return nil, err
	}
	j := &journal{plan: c, name: r.planFile + journalSuffix, log: r.log}
	if err := j.check(); err != nil {
		return nil, err
	}
	plan, err := r.writePlanned(ctx, c, j)
	return plan, j.end(err)
}

// writePlanned looks at all ranges, waits for [leakAge] if some value is to be cleared, and writes one range after the other, each if all
// of its changes are still due.
func (r *repair) writePlanned(ctx context.Context, c *changes, j *journal) (*audit.Plan, error) {
	client, err := r.source.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &store{client: client, prefix: r.source.prefix}
	ranges, err := s.newEditors(c, func(ctx context.Context, at int64) (*clusterstate.State, error) { return r.readRunning(ctx, c, at) })
	defer closeAll(ranges)
	if err != nil {
		return nil, err
	}
	clears := 0
	for i := range c.Ranges {
		if !c.Ranges[i].isDone() {
			clears += len(c.Ranges[i].Clear)
		}
	}
	r.cleanLeaks = clears > 0
	since := make([]int64, len(ranges))
	var differences []string
	for i, e := range ranges {
		if c.Ranges[i].isDone() {
			continue
		}
		edited, found, _, err := r.editPlanned(ctx, e, &c.Ranges[i], rangekeeper.Edit{}, true)
		if err != nil {
			return nil, err
		}
		differences, since[i] = append(differences, found...), edited.Revision
	}
	if len(differences) > 0 {
		return nil, r.hasChanged(c, c.Revision, differences...)
	}
	if clears > 0 {
		if err := awaitLeakAge(ctx, r.log, clears); err != nil {
			return nil, err
		}
		// All of it, before the first range is written.
		for i, e := range ranges {
			if !c.Ranges[i].isDone() {
				_, found, _, err := r.editPlanned(ctx, e, &c.Ranges[i], rangekeeper.Edit{Since: since[i]}, true)
				if err != nil {
					return nil, err
				}
				differences = append(differences, found...)
			}
		}
		if len(differences) > 0 {
			return nil, r.hasChanged(c, slices.Max(since), differences...)
		}
	}
	var audited *audit.Audit // of the state before any write
	for i, e := range ranges {
		one := &c.Ranges[i]
		if one.isDone() {
			continue
		}
		if err := j.begin(); err != nil {
			return nil, err
		}
		if err := j.record(one, outcomeUnknown, 0); err != nil {
			return nil, err
		}
		edited, found, before, err := r.editPlanned(ctx, e, one, rangekeeper.Edit{Since: since[i]}, false)
		if err == nil && len(found) > 0 {
			err = r.hasChanged(c, since[i], found...)
		}
		if audited == nil {
			audited = before
		}
		switch {
		case err == nil:
			err = j.record(one, outcomeWritten, edited.Revision)
		case !errors.Is(err, errMayBeWritten):
			err = errors.Join(err, j.record(one, outcomePending, 0))
		}
		if err != nil {
			return nil, err
		}
	}
	if audited == nil { // nothing is to be written
		state, err := r.readRunning(ctx, c, 0)
		if err != nil {
			return nil, err
		}
		if audited, err = r.audit(state, false); err != nil {
			return nil, err
		}
	}
	changed := map[string]rangekeeper.Repaired{}
	for _, one := range c.Ranges {
		set, cleared, err := one.values()
		if err != nil {
			return nil, err
		}
		changed[one.Name] = rangekeeper.Repaired{Set: set, Cleared: cleared}
	}
	if err := audited.RecordChosen(changed); err != nil {
		return nil, err
	}
	plan, err := audited.Plan()
	if err != nil {
		return nil, err
	}
	plan.SetApplied()
	return plan, nil
}

// editPlanned makes the changes of one range, if all of them are still due; else it says which are not. It returns the audit of the look
// that they were made by.
func (r *repair) editPlanned(ctx context.Context, e *editor, one *rangeChanges, change rangekeeper.Edit, dryRun bool) (edited rangekeeper.Edited, differences []string, audited *audit.Audit, err error) {
	change.Kind = rangekeeper.EditPlan
	if change.Set, change.Clear, err = one.values(); err != nil {
		return edited, nil, nil, err
	}
	edited, state, err := e.run(ctx, change, dryRun, func(state *clusterstate.State) (err error) {
		audited, err = r.audit(state, false)
		return err
	})
	if mismatched := (*rangekeeper.MismatchedRangeError)(nil); errors.As(err, &mismatched) || errors.Is(err, rangekeeper.ErrNotInitialised) {
		return edited, []string{fmt.Sprintf("there is no range %s %s", one.Name, one.Range)}, audited, nil
	}
	if err != nil || edited.Done {
		return edited, nil, audited, err
	}
	users, err := audit.Users(state)
	for _, value := range edited.Values {
		switch text := value.Value.String(); value.Fate {
		case rangekeeper.FateAlreadySet:
			differences = append(differences, text+" is recorded already")
		case rangekeeper.FateUnused:
			differences = append(differences, text+" is used by no Service any more")
		case rangekeeper.FateInUse:
			differences = append(differences, text+" is used by "+strings.Join(users[value.Value], ", "))
		case rangekeeper.FateAlreadyClear:
			differences = append(differences, text+" is free already")
		case rangekeeper.FateReallocated:
			differences = append(differences, text+" was free for a moment, so a Service that is being created may have it; run the command again")
		case rangekeeper.FateUnsure:
			differences = append(differences, text+" may have been free for a moment, so a Service that is being created may have it; run the command again")
		}
	}
	return edited, differences, audited, err
}

// hasChanged is the error about differences between the plan and the cluster, the first of which it has.
func (r *repair) hasChanged(c *changes, revision int64, differences ...string) error {
	rest := ""
	if n := len(differences) - shortList; n > 0 {
		differences, rest = differences[:shortList], fmt.Sprintf("; and %d more", n)
	}
	nothing := "nothing"
	if len(c.written()) > 0 {
		nothing = "nothing more"
	}
	return fmt.Errorf("%s: %w since revision %d, so %s was written: %s%s", r.planFile, errChanged, revision, nothing, strings.Join(differences, "; "), rest)
}
