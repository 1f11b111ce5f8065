package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

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
func (r *repair) readRunning(ctx context.Context, planned *changes) (*clusterstate.State, error) {
	state, err := r.source.read(ctx)
	if err == nil && planned != nil {
		err = planned.checkCluster(r.planFile, state)
	}
	if err != nil {
		return nil, err
	}
	return state, r.source.explain(state.CheckReadable())
}

// audit audits a state of the running cluster, all leaks to be cleaned, or only what a bitmap records alone.
func (r *repair) audit(state *clusterstate.State, keepsLeaks bool) (*audit.Plan, error) {
	o := r.source.auditOptions(state)
	o.CleansLeaks, o.KeepsLeaks = r.cleanLeaks, keepsLeaks
	a, err := r.source.auditWith(state, o)
	if err != nil {
		return nil, err
	}
	return a.Plan()
}

// planForReview writes what a repair of the running cluster changes to a file.
func (r *repair) planForReview(ctx context.Context) (*audit.Plan, error) {
	state, err := r.readRunning(ctx, nil)
	if err != nil {
		return nil, err
	}
	plan, err := r.audit(state, !r.cleanLeaks)
	if err != nil {
		return nil, err
	}
	users := audit.Users(state)
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

// applyPlan writes exactly what a plan says, or nothing.
func (r *repair) applyPlan(ctx context.Context) (*audit.Plan, error) {
	c, err := readChanges(r.planFile, kindReviewedPlan)
	if err != nil {
		return nil, err
	}
	j := &journal{plan: c, name: r.planFile + journalSuffix, log: r.log}
	if err := j.check(); err != nil {
		return nil, err
	}
	since, err := r.firstLook(ctx, c)
	var plan *audit.Plan
	if err == nil {
		plan, err = r.writePlanned(ctx, c, since, j)
	}
	return plan, j.end(err)
}

// firstLook returns the state that values which are to be cleared stay recorded from, and waits for [leakAge] after it.
func (r *repair) firstLook(ctx context.Context, c *changes) (*clusterstate.State, error) {
	clears := 0
	for _, one := range c.Ranges {
		clears += len(one.Clear)
	}
	if r.cleanLeaks = clears > 0; !r.cleanLeaks {
		return nil, nil
	}
	d, err := r.lookPlanned(ctx, c)
	if err != nil {
		return nil, err
	}
	d.close()
	return d.state, awaitLeakAge(ctx, r.log, clears)
}

// writePlanned writes the changes if each of them is still due. What is cleared was recorded all the time since a state.
func (r *repair) writePlanned(ctx context.Context, c *changes, since *clusterstate.State, j *journal) (plan *audit.Plan, err error) {
	err = untilWritten(r.planFile, func() (written bool, err error) {
		d, err := r.lookPlanned(ctx, c)
		if err != nil {
			return false, err
		}
		defer d.close()
		if err := r.checkRecorded(ctx, c, d, since); err != nil {
			return false, err
		}
		if err := j.begin(); err != nil {
			return false, err
		}
		j.sent = true
		j.written, err = d.store.swap(ctx, d.state.Revision, d.ranges...)
		if refused := (*refusedError)(nil); err == nil && j.written == 0 || errors.As(err, &refused) {
			j.sent = false
		}
		if j.written > 0 {
			plan = d.plan
		}
		return j.written > 0, err
	})
	return plan, err
}

// checkRecorded refuses to clear a value that was free for a moment since a state: its record may be of a new Service.
func (r *repair) checkRecorded(ctx context.Context, c *changes, d *due, since *clusterstate.State) error {
	var freed []string
	for i, one := range c.Ranges {
		if len(one.Clear) == 0 {
			continue
		}
		values, err := d.store.freedSince(ctx, d.ranges[i], since.Ranges[one.Name].ModRevision, one.Name, one.Clear)
		if err != nil {
			return err
		}
		freed = append(freed, values...)
	}
	if len(freed) == 0 {
		return nil
	}
	return r.hasChanged(since.Revision, strings.Join(freed, ", ")+" was free for a moment, so a Service that is being created may have it; run the command again")
}

// due is a plan whose changes are all still due at a state.
type due struct {
	store *store
	state *clusterstate.State
	plan  *audit.Plan
	// ranges are those of the plan, with the changes made.
	ranges []*held
}

func (d *due) close() {
	for _, h := range d.ranges {
		h.object.Close()
	}
}

// hasChanged is the error about differences between the plan and the cluster, the first of which it has.
func (r *repair) hasChanged(revision int64, differences ...string) error {
	rest := ""
	if n := len(differences) - shortList; n > 0 {
		differences, rest = differences[:shortList], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("%s: %w since revision %d, so nothing was written: %s%s", r.planFile, errChanged, revision, strings.Join(differences, "; "), rest)
}

// lookPlanned looks at the cluster. Its error says which changes are no longer due.
func (r *repair) lookPlanned(ctx context.Context, c *changes) (found *due, err error) {
	state, err := r.readRunning(ctx, c)
	if err != nil {
		return nil, err
	}
	plan, err := r.audit(state, false)
	if err != nil {
		return nil, err
	}
	s := &store{client: r.source.client, prefix: r.source.prefix}
	d := &due{store: s, state: state, plan: plan}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	users := audit.Users(state)
	var differences []string
	var planned []audit.RangePlan
	for _, one := range c.Ranges {
		i := slices.IndexFunc(plan.Ranges, func(now audit.RangePlan) bool { return now.Name == one.Name && now.Range == one.Range })
		if i < 0 {
			differences = append(differences, fmt.Sprintf("there is no range %s %s", one.Name, one.Range))
			continue
		}
		planned = append(planned, audit.RangePlan{Name: one.Name, Range: one.Range, Set: one.setValues(), Clear: one.Clear})
		toSet, toClear := sets.New(plan.Ranges[i].Set...), sets.New(plan.Ranges[i].Clear...)
		h, err := s.hold(ctx, state, users, one.Name)
		if err != nil {
			return nil, err
		}
		d.ranges = append(d.ranges, h)
		err = h.change(func(h *held, a *rangekeeper.Allocator) error {
			return eachValue(one, func(value rangekeeper.Value, text string, set bool) error {
				switch {
				case set && toSet.Has(text):
					return a.Allocate(value)
				case !set && toClear.Has(text):
					_, err := a.Release(value)
					return err
				case set && a.Has(value):
					differences = append(differences, fmt.Sprintf("%s is recorded already", text))
				case set:
					differences = append(differences, fmt.Sprintf("%s is used by no Service any more", text))
				case a.Has(value):
					differences = append(differences, fmt.Sprintf("%s is used by %s", text, strings.Join(users[value], ", ")))
				default:
					differences = append(differences, fmt.Sprintf("%s is free already", text))
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	if len(differences) > 0 {
		return nil, r.hasChanged(c.Revision, differences...)
	}
	plan.Restrict(planned)
	plan.SetApplied()
	return d, nil
}

// eachValue calls do for each value that is set or cleared.
func eachValue(one rangeChanges, do func(value rangekeeper.Value, text string, set bool) error) error {
	sets := one.setValues()
	for i, text := range slices.Concat(sets, one.Clear) {
		value, err := rangekeeper.ParseValue(text)
		if err == nil {
			err = do(value, text, i < len(sets))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
	}
	return nil
}
