package edit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// WritePlan writes the plan of a repair, which was made from a state, to a new file for a review; with force it
// replaces one. It says how much of it an undo can take back.
func WritePlan(path string, force bool, state *clusterstate.State, plan *audit.Plan, log io.Writer) error {
	users, err := audit.Users(state)
	if err != nil {
		return err
	}
	c := &Changes{APIVersion: audit.APIVersion, Kind: KindReviewedPlan, Time: time.Now().UTC(), Cluster: state.Identity, Revision: state.Revision}
	for _, one := range plan.Ranges {
		ranged := RangeChanges{Name: one.Name, Range: one.Range, Set: []UsedValue{}, Clear: one.Clear}
		for _, text := range one.Set {
			value, err := rangekeeper.ParseValue(text)
			if err != nil {
				return err
			}
			ranged.Set = append(ranged.Set, UsedValue{text, users[value]})
		}
		c.Ranges = append(c.Ranges, ranged)
	}
	if err = c.Create(path, force); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", err)
	} else if err != nil {
		return err
	}
	if state.Identity.UID == "" {
		fmt.Fprintln(log, "rangekeeper: the cluster has no Namespace kube-system that can be read, so the plan knows it only by the id of its etcd and by --prefix, which another cluster may share")
	}
	if plan.ChangesAny() {
		fmt.Fprintf(log, "rangekeeper: for 24 hours after the plan is applied, rangekeeper undo can take back %s\n", c.undoableText())
	}
	return nil
}

// Reviewed is a plan that was reviewed, and its journal.
type Reviewed struct {
	*Changes
	journal *journal
}

// OpenPlan reads a plan, and refuses one that was applied already or that another run may be applying.
func OpenPlan(path string, log io.Writer) (*Reviewed, error) {
	c, err := ReadDocument(path, KindReviewedPlan)
	if err != nil {
		return nil, err
	}
	j := &journal{plan: c, name: path + JournalSuffix, log: log}
	if _, err := os.Stat(j.name); errors.Is(err, fs.ErrNotExist) {
		// Of a journal that is gone, or against a run of before, which had not written anything.
		if err := os.Remove(j.name + UndoingSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return &Reviewed{c, j}, j.check()
}

// Clears reports whether values are still to be cleared.
func (r *Reviewed) Clears() bool {
	return slices.ContainsFunc(r.Ranges, func(one RangeChanges) bool { return !one.isDone() && len(one.clear) > 0 })
}

// Changed returns what the plan changes, by the names of ranges.
func (r *Reviewed) Changed() map[string]rangekeeper.Repaired {
	all := map[string]rangekeeper.Repaired{}
	for _, one := range r.Ranges {
		all[one.Name] = rangekeeper.Repaired{Set: one.set, Cleared: one.clear}
	}
	return all
}

// Apply writes exactly what the plan says, range by range, or nothing. read reads the cluster, at a revision if that is
// not 0, and refuses one that is not to be changed. What comes after it is the end of the run.
func (r *Reviewed) Apply(ctx context.Context, stored *ranges.Store, read func(ctx context.Context, at int64) (*clusterstate.State, error)) error {
	d := &edits{store: stored, of: r.Changes, kind: rangekeeper.EditPlan, journal: r.journal, log: r.journal.log, read: read}
	return d.carryOut(ctx)
}

// End ends a run with an error or none, and returns it with what it left.
func (r *Reviewed) End(err error) error { return r.journal.end(err) }
