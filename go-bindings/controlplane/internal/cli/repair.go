package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/snapshotfile"
)

const (
	// defaultPasses and defaultInterval are those of kube-apiserver's own repair.
	defaultPasses   = 3
	defaultInterval = 3 * time.Minute
	// maxAttempts is how often a pass is tried when others write meanwhile.
	maxAttempts = 10
	// writeTimeout is for one transaction; etcd answers in milliseconds.
	writeTimeout = 10 * time.Second
)

// repair is one run of the command.
type repair struct {
	source     *source
	output     string
	apply      bool
	cleanLeaks bool
	passes     uint8
	interval   time.Duration
	log        io.Writer
}

func newRepair() *cobra.Command {
	r := new(repair)
	c := &cobra.Command{
		Use:   "repair",
		Short: "Show what a repair changes, or carry it out",
		Long: `Shows what a repair changes in the stored ranges and what only the owner of a
Service can mend. Nothing is written without --output or --apply.

In an etcd snapshot all leaks are cleaned, since nobody allocates from it. In a
running etcd a value may look leaked while its Service is being created: leaks stay
unless --clean-leaks is given, which cleans those that stay leaked over all passes.
IPAddress objects are not written: kube-apiserver mends them at its start.

Exit codes: 0 nothing is left to mend, 1 something is left that only an owner can
mend, 2 wrong usage or input that cannot be used, 3 etcd cannot be reached.`,
		Example: `  rangekeeper repair --etcd-snapshot backup.db.gz --output repaired.db
  rangekeeper repair --endpoints http://127.0.0.1:2379 --apply --clean-leaks`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := addFormat(c, formatTable, formatJSON, formatYAML)
	f := c.Flags()
	f.StringVar(&r.output, "output", "", "with --etcd-snapshot: write the repaired snapshot to this new file")
	f.BoolVar(&r.apply, "apply", false, "with --endpoints: write the repaired ranges to etcd")
	f.BoolVar(&r.cleanLeaks, "clean-leaks", false, "with --apply: clean what stays leaked over all passes")
	f.Uint8Var(&r.passes, "passes", defaultPasses, "with --clean-leaks: number of passes, at least 1")
	f.DurationVar(&r.interval, "interval", defaultInterval, "with --clean-leaks: time between two passes")
	c.MarkFlagFilename("output")
	completeNothing(c, "passes", "interval")
	withSource(c, func(c *cobra.Command, _ []string, s *source) error {
		r.source, r.log = s, c.ErrOrStderr()
		if err := errors.Join(format.check(), r.check(c)); err != nil {
			return err
		}
		plan, left, err := r.run(c.Context())
		if err != nil {
			return err
		}
		if format.value == formatTable {
			err = writePlan(c.OutOrStdout(), plan, left)
		} else {
			err = writeDocument(c.OutOrStdout(), plan, format.value)
		}
		if err == nil && len(left) > 0 {
			return errFound
		}
		return err
	})
	return c
}

// check refuses flags that do not go together.
func (r *repair) check(c *cobra.Command) error {
	switch {
	case r.output != "" && r.source.online():
		return errors.New("--output is for --etcd-snapshot")
	case r.apply && !r.source.online():
		return errors.New("--apply is for --endpoints; a repaired snapshot is written with --output")
	case r.cleanLeaks && !r.apply:
		return errors.New("--clean-leaks is for --apply")
	case !r.cleanLeaks && (c.Flags().Changed("passes") || c.Flags().Changed("interval")):
		return errors.New("--passes and --interval are for --clean-leaks")
	case r.passes == 0:
		return errors.New("--passes is at least 1")
	case r.interval < 0:
		return errors.New("--interval is not negative")
	}
	return nil
}

// run gives what was or would be changed, and the findings that then are left to
// the owners of Services.
func (r *repair) run(ctx context.Context) (*audit.Plan, []audit.Finding, error) {
	if r.source.online() {
		return r.online(ctx)
	}
	state, err := r.source.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	a, err := audit.New(state, r.source.auditOptions())
	if err != nil {
		return nil, nil, r.source.explain(err)
	}
	plan := a.Plan()
	if r.output != "" {
		if err := r.writeSnapshot(ctx, state, a); err != nil {
			return nil, nil, err
		}
		plan.Applied = true
	}
	return plan, plan.Unmendable(), nil
}

func (r *repair) writeSnapshot(ctx context.Context, state *clusterstate.State, a *audit.Audit) error {
	newValues, err := a.NewValues()
	if err != nil {
		return r.source.explain(err)
	}
	values := map[string][]byte{}
	for _, v := range newValues {
		values[v.Key] = v.Value
	}
	defer r.source.progress.end()
	_, err = snapshotfile.WriteRepaired(ctx, r.source.snapshot, r.output, values, snapshotfile.WriteOptions{
		Options: snapshotfile.Options{
			SkipHashCheck: r.source.skipHashCheck,
			Progress:      r.source.progress.start("writing " + r.output),
		},
		Revision: state.Revision,
	})
	return err
}

func (r *repair) online(ctx context.Context) (*audit.Plan, []audit.Finding, error) {
	passes := 1
	if r.cleanLeaks {
		passes = int(r.passes)
	}
	var history []*clusterstate.State
	var before *audit.Plan
	for n := 1; ; n++ {
		state, a, err := r.pass(ctx, history)
		if err != nil {
			return nil, nil, err
		}
		plan := a.Plan()
		left := plan.Unmendable()
		if before != nil {
			plan.After(before)
		}
		plan.Applied = r.apply
		if n == passes {
			if stay := plan.LeaksLeft(); r.apply && stay > 0 {
				fmt.Fprintf(r.log, "rangekeeper: %s left: --clean-leaks cleans those that stay leaked over several passes\n", count(stay, "leak"))
			}
			return plan, left, nil
		}
		before, history = plan, append(history, state)
		fmt.Fprintf(r.log, "rangekeeper: pass %d of %d: %s; the next one in %s\n", n, passes, count(len(plan.Leaks), "leak"), r.interval)
		select {
		case <-time.After(r.interval):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// pass reads the state, audits it and, with --apply, writes what changes. If
// others write meanwhile it reads again.
func (r *repair) pass(ctx context.Context, history []*clusterstate.State) (*clusterstate.State, *audit.Audit, error) {
	for range maxAttempts {
		state, err := r.source.read(ctx)
		if err != nil {
			return nil, nil, err
		}
		a, err := r.auditAfter(history, state)
		if err != nil {
			return nil, nil, r.source.explain(err)
		}
		if !r.apply {
			return state, a, nil
		}
		values, err := a.NewValues()
		if err != nil {
			return nil, nil, r.source.explain(err)
		}
		done, err := swap(ctx, r.source.client, values)
		if err != nil {
			return nil, nil, err
		}
		if done {
			return state, a, nil
		}
	}
	return nil, nil, fmt.Errorf("others changed the ranges in each of %d attempts: nothing was written in this pass", maxAttempts)
}

// auditAfter audits a state with leak counters that have seen the states of the
// earlier passes. They are counted anew each time, so that an attempt that met a
// conflict does not count as a pass.
func (r *repair) auditAfter(history []*clusterstate.State, state *clusterstate.State) (*audit.Audit, error) {
	due := r.passes
	if !r.cleanLeaks {
		due = 2 // never in a single pass
	}
	counters, err := rangekeeper.NewRepairCounters(due)
	if err != nil {
		return nil, err
	}
	defer counters.Close()
	o := r.source.auditOptions()
	o.Counters = counters
	for _, earlier := range history {
		if _, err := audit.New(earlier, o); err != nil {
			return nil, err
		}
	}
	return audit.New(state, o)
}

// swap writes all values in one transaction, if none of the keys has changed since
// it was read; otherwise it writes nothing and gives false.
func swap(ctx context.Context, client *clientv3.Client, values []audit.NewValue) (bool, error) {
	if len(values) == 0 {
		return true, nil
	}
	var unchanged []clientv3.Cmp
	var puts []clientv3.Op
	for _, v := range values {
		unchanged = append(unchanged, clientv3.Compare(clientv3.ModRevision(v.Key), "=", v.ModRevision))
		puts = append(puts, clientv3.OpPut(v.Key, string(v.Value)))
	}
	writeCtx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answer, err := client.Txn(writeCtx).If(unchanged...).Then(puts...).Commit()
	if err != nil {
		err = fmt.Errorf("write the ranges: %w (they may have been written or not; run it again)", err)
		return false, unreachable(err)
	}
	return answer.Succeeded, nil
}
