package cli

import (
	"context"
	"errors"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
)

// readRunning reads and audits the running cluster. check comes before all that depends on the cluster. Leaks are
// cleaned only with --clean-leaks, and else what a bitmap records alone; keepsLeaks is for a plan that is made.
func (r *repair) readRunning(ctx context.Context, at int64, keepsLeaks bool, check func(*clusterstate.State) error) (*clusterstate.State, *audit.Audit, error) {
	state, err := r.source.Read(ctx, at)
	if err == nil {
		err = check(state)
	}
	if err == nil {
		err = r.source.Explain(state.CheckReadable())
	}
	if err != nil {
		return nil, nil, err
	}
	o := r.source.AuditOptions(state)
	o.CleansLeaks, o.KeepsLeaks = r.cleanLeaks, keepsLeaks
	audited, err := r.source.AuditWith(state, o)
	return state, audited, err
}

// planForReview writes what a repair of the running cluster changes to a file.
func (r *repair) planForReview(ctx context.Context) (*audit.Plan, error) {
	state, audited, err := r.readRunning(ctx, 0, !r.cleanLeaks, func(*clusterstate.State) error { return nil })
	if err != nil {
		return nil, err
	}
	if state.Kine {
		return nil, r.source.Explain(errors.New("the store is kine, which accepts only the transactions of a kube-apiserver, so it would refuse the plan; no plan was written"))
	}
	plan, err := audited.Plan()
	if err != nil {
		return nil, err
	}
	if err := edit.WritePlan(r.planTo, r.force, state, plan, r.log); err != nil {
		return nil, err
	}
	return plan, nil
}

// applyPlan writes exactly what a plan says, range by range, or nothing. It returns what that has repaired.
func (r *repair) applyPlan(ctx context.Context) (_ *audit.Plan, err error) {
	reviewed, err := edit.OpenPlan(r.planFile, r.log)
	if err != nil {
		return nil, err
	}
	defer func() { err = reviewed.End(err) }()
	stored, err := r.source.Store(ctx)
	if err != nil {
		return nil, err
	}
	r.cleanLeaks = reviewed.Clears()
	var before *audit.Audit
	err = reviewed.Apply(ctx, stored, func(ctx context.Context, at int64) (*clusterstate.State, error) {
		state, audited, err := r.readRunning(ctx, at, false, func(state *clusterstate.State) error { return reviewed.CheckCluster(ctx, stored, state) })
		if at == 0 { // a look, which is before all writes
			before = audited
		}
		return state, err
	})
	if err != nil {
		return nil, err
	}
	if err := before.RecordChosen(reviewed.Changed()); err != nil {
		return nil, err
	}
	plan, err := before.Plan()
	if err != nil {
		return nil, err
	}
	plan.SetApplied()
	return plan, nil
}
