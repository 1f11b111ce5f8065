package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	driver "github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// repair is one run of the command.
type repair struct {
	source     *source
	toFile     string
	force      bool
	planTo     string
	planFile   string
	apply      bool
	cleanLeaks bool
	passes     uint8
	interval   time.Duration
	log        io.Writer
	// leftAlone is the number of values that the last pass left alone, as they or Services changed meanwhile.
	leftAlone int
}

func newRepair() *cobra.Command {
	r := new(repair)
	c := &cobra.Command{
		Use:   "repair",
		Short: "Show what a repair changes, or carry it out",
		Long: `Shows what a repair changes in the stored ranges and what only the owner of a
Service can repair. Nothing is written without --to-file or --apply.

In an etcd snapshot all leaks are cleaned, since nobody allocates from it. In a
running etcd a value may look leaked while its Service is being created: leaks stay
unless --clean-leaks is given, which cleans those that stay leaked over all passes,
if no Service is written while the last one is under way.
Kubernetes 1.33 refuses an address that a bitmap records though no IPAddress object or
Service has it. --apply clears such an address if a second look finds it a minute later.
IPAddress objects are repaired in a snapshot, and a missing ServiceCIDR is created if
bitmaps store its CIDRs, as those of Kubernetes 1.33 do. In a running cluster objects
are not written, since kube-apiserver repairs them at its start.

--plan-to writes the changes to a file for a review, and "--apply --plan FILE" writes
exactly those, one range after the other, each as a whole, or says what has changed. It
clears a value if no Service uses it and it stays recorded for a minute, for which the
command waits; leaks are in a plan only with --clean-leaks. FILE.journal says which ranges
are written. An interrupted run is continued by the same command, or reversed by
rangekeeper undo, for 24 hours.

The exit code is 1 as long as changes are pending or anything is left: a fault that only
an owner or kube-apiserver can repair, a value that changed meanwhile, or a leak.`,
		Example: `  rangekeeper repair --etcd-snapshot backup.db.gz --to-file repaired.db
  rangekeeper repair --apply --clean-leaks \
    --endpoints http://127.0.0.1:2379
  rangekeeper repair --plan-to plan.json \
    --endpoints http://127.0.0.1:2379
  rangekeeper repair --apply --plan plan.json \
    --endpoints http://127.0.0.1:2379`,
		Args:              usage.Arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := addFormat(c, formatTable, formatWide, formatJSON, formatYAML)
	f := c.Flags()
	f.StringVar(&r.toFile, "to-file", "", "with --etcd-snapshot: write the repaired snapshot to this new file, compressed if its name ends in .gz, in lower case")
	f.BoolVar(&r.force, "force", false, "with --to-file and --plan-to: replace the file if it exists")
	f.StringVar(&r.planTo, "plan-to", "", "with --endpoints: write the changes to this new file, for a review")
	f.StringVar(&r.planFile, "plan", "", "with --apply: write exactly the changes of this file of --plan-to, or nothing")
	f.BoolVar(&r.apply, "apply", false, "with --endpoints: write the repaired ranges to etcd")
	f.BoolVar(&r.cleanLeaks, "clean-leaks", false, "with --apply: clean what stays leaked over all passes; with --plan-to: plan to clean leaks")
	f.Uint8Var(&r.passes, "passes", driver.DefaultPasses, "with --clean-leaks: number of passes, at least 2")
	f.DurationVar(&r.interval, "interval", driver.DefaultInterval, "with --clean-leaks: time between two passes, at least a minute")
	for _, file := range []string{"to-file", "plan-to", "plan"} {
		usage.NotEmpty(c, file)
		c.MarkFlagFilename(file)
	}
	usage.CompleteNothing(c, "passes", "interval")
	r.source = withSource(c, func(c *cobra.Command, _ []string, _ *source) error {
		r.log = c.ErrOrStderr()
		if !r.cleanLeaks { // then only addresses that a bitmap records alone may need a second pass
			r.passes, r.interval = 2, leakAge
		}
		plan, runErr := r.run(c.Context())
		if plan == nil {
			return runErr
		}
		// If a later pass fails, the plan reports the writes of the earlier ones.
		var err error
		if *format == formatTable || *format == formatWide {
			screen := newScreen(c.OutOrStdout(), *format == formatWide)
			planScreen(screen, plan, r)
			err = screen.writeTo(c.OutOrStdout())
		} else {
			err = writeDocument(c.OutOrStdout(), plan, *format)
		}
		return foundIf(r.leaves(plan), errors.Join(runErr, err))
	})
	usage.OneOf(c, "etcd-snapshot", "endpoints")
	usage.AddRule(c, func([]string) error { return r.check(c) })
	return c
}

// leaves reports whether changes are pending or anything is left.
func (r *repair) leaves(plan *audit.Plan) bool { return r.leftAlone > 0 || plan.Leaves() }

// check refuses flags that do not go together.
func (r *repair) check(c *cobra.Command) error {
	switch {
	case r.toFile != "" && r.source.online():
		return usage.Error(c, "--to-file is for --etcd-snapshot")
	case r.toFile == snapshotfile.Stdin || r.planTo == snapshotfile.Stdin:
		return usage.Error(c, "--to-file and --plan-to name a new file; nothing is written to the standard output")
	case r.toFile != "" && r.source.snapshot == snapshotfile.Stdin:
		return usage.Error(c, "--to-file needs the name of a file in --etcd-snapshot, which is read twice")
	case r.force && r.toFile == "" && r.planTo == "":
		return usage.Error(c, "--force is for --to-file and --plan-to")
	case r.planTo != "" && !r.source.online():
		return usage.Error(c, "--plan-to is for --endpoints")
	case r.planTo != "" && r.apply:
		return usage.Error(c, "--plan-to and --apply exclude each other")
	case r.planFile != "" && !r.apply:
		return usage.Error(c, "--plan is for --apply")
	case r.planFile != "" && isSpecial(r.planFile):
		return usage.Error(c, "--plan %s is no regular file: the journal is written beside it", r.planFile)
	case r.planFile != "" && r.cleanLeaks:
		return usage.Error(c, "--plan and --clean-leaks exclude each other: the plan says which leaks are cleaned")
	case r.apply && !r.source.online():
		return usage.Error(c, "--apply is for --endpoints; --to-file writes a repaired snapshot")
	case r.cleanLeaks && !r.apply && r.planTo == "":
		return usage.Error(c, "--clean-leaks is for --apply and --plan-to")
	case (!r.cleanLeaks || r.planTo != "") && (c.Flags().Changed("passes") || c.Flags().Changed("interval")):
		return usage.Error(c, "--passes and --interval are for --apply --clean-leaks")
	case r.passes < 2: // a leak is cleaned in a later pass than the first that finds it
		return usage.Error(c, "--passes is at least 2, not %d", r.passes)
	case r.interval < leakAge:
		return usage.Error(c, "--interval is at least %s, as a Service that is being created has its value before it is written; not %s", leakAge, r.interval)
	}
	return nil
}

// run returns what was or would be changed; with an error what was changed before, if
// anything.
func (r *repair) run(ctx context.Context) (*audit.Plan, error) {
	switch {
	case r.planTo != "":
		return r.planForReview(ctx)
	case r.planFile != "":
		return r.applyPlan(ctx)
	case r.source.online():
		return r.online(ctx)
	}
	state, err := r.source.read(ctx, 0)
	if err != nil {
		return nil, err
	}
	o := r.source.auditOptions(state)
	o.CleansLeaks = true
	a, err := r.source.auditWith(state, o)
	if err != nil {
		return nil, err
	}
	plan, err := a.Plan()
	if err != nil {
		return nil, err
	}
	if r.toFile != "" {
		if err := r.writeSnapshot(ctx, state, a); err != nil {
			return nil, err
		}
		plan.SetApplied()
	}
	return plan, nil
}

func (r *repair) writeSnapshot(ctx context.Context, state *clusterstate.State, a *audit.Audit) error {
	values, err := a.NewValues(time.Now())
	if err != nil {
		return r.source.explain(err)
	}
	defer r.source.progress.end()
	_, err = snapshotfile.WriteRepaired(ctx, r.source.snapshot, r.toFile, values, snapshotfile.WriteOptions{
		Options: snapshotfile.Options{
			SkipHashCheck: r.source.skipHashCheck,
			Progress:      r.source.progress.start("writing " + r.toFile),
		},
		Revision:  state.Revision,
		Overwrite: r.force,
	})
	if errors.Is(err, fs.ErrExist) && !r.force {
		err = fmt.Errorf("%w; --force replaces it", err)
	}
	return err
}

func (r *repair) online(ctx context.Context) (*audit.Plan, error) {
	passes, remember := r.passes, rangekeeper.NewPasses
	if !r.cleanLeaks {
		remember = rangekeeper.NewPassesKeepingLeaks
	}
	if !r.apply { // the one pass shows what all of them would clear
		passes = 1
	}
	known, err := remember(passes, r.interval)
	if err != nil {
		return nil, err
	}
	defer known.Close()
	ranges, err := r.openRanges(ctx)
	defer func() {
		for _, k := range ranges {
			closeRange(k.Store) // nothing of it is under way
		}
	}()
	if err != nil {
		return nil, err
	}
	var before *audit.Plan
	for n := uint8(1); ; n++ {
		r.leftAlone = 0
		plan, err := r.pass(ctx, known, ranges, r.cleanLeaks || n > 1)
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
			r.reportLeft(plan.LeaksLeft(), alone)
			return plan, nil
		}
		before = plan
		if r.cleanLeaks {
			fmt.Fprintf(r.log, "rangekeeper: pass %d of %d: %s; the next one in %s\n", n, passes, count(len(plan.Leaks), "leak"), r.interval)
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
		fmt.Fprintf(r.log, "rangekeeper: %s left: %s\n", count(leaks, "leak"), reason)
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
	client, err := r.source.connect(ctx)
	if err != nil {
		return nil, err
	}
	grace := max(time.Duration(r.passes-1)*r.interval, 1) // a leak is as old as that in the last pass
	var ranges []repairRange
	for _, name := range bitmapNames {
		values, err := storedRange(ctx, client, r.source.prefix, name)
		if errors.Is(err, rangekeeper.ErrNotInitialised) {
			continue
		}
		if err != nil {
			return ranges, err
		}
		opened, err := openRange(client, r.source.prefix, name, values, grace)
		if err != nil {
			return ranges, err
		}
		ranges = append(ranges, repairRange{name, opened})
	}
	return ranges, nil
}

// pass reads the state, audits it and, with --apply, writes what changes. Where it may clear something it needs Services.
func (r *repair) pass(ctx context.Context, known *rangekeeper.Passes, ranges []repairRange, clears bool) (*audit.Plan, error) {
	var read []audit.ReadRange
	driven := make([]driver.Range, len(ranges))
	for i, k := range ranges {
		driven[i] = timedRange{k.Store}
		read = append(read, audit.ReadRange{Name: k.name, Range: k.Range().String()})
	}
	var audited *audit.Audit
	outcomes, err := driver.Drive(ctx, known, driven, !r.apply, func(pass *rangekeeper.Pass, at int64) (*rangekeeper.Report, rangekeeper.ServiceList, error) {
		state, err := r.source.read(ctx, at)
		if err != nil {
			return nil, rangekeeper.ServiceList{}, err
		}
		o := r.source.auditOptions(state)
		o.CleansLeaks, o.Read, o.Pass = clears, read, pass
		if audited, err = r.source.auditWith(state, o); err != nil {
			return nil, rangekeeper.ServiceList{}, err
		}
		return audited.Core(), rangekeeper.ServiceList{Revision: state.Revision, Guards: true}, nil
	})
	if outcomes == nil {
		return nil, err
	}
	if err != nil {
		err = fmt.Errorf("%w (some ranges may be repaired; run the command again)", err)
	}
	for i, k := range ranges {
		if changed := outcomes[i].Changed; changed > 0 {
			r.leftAlone += changed
			fmt.Fprintf(r.log, "rangekeeper: %s of %s left alone, as they or Services changed meanwhile; run the command again\n", count(changed, "value"), k.name)
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

// timedRange is a range whose operations have the time of an operation each.
type timedRange struct{ driver.Range }

func (t timedRange) ReadForPass(ctx context.Context, pass *rangekeeper.Pass) (rangekeeper.State, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	view, needsFence, err := t.Range.ReadForPass(ctx, pass)
	return view, needsFence, unreachable(err)
}

func (t timedRange) Fence(ctx context.Context, pass *rangekeeper.Pass, before *etcdstore.Look) (*etcdstore.Look, error) {
	look, err := t.Range.Fence(ctx, pass, before)
	return look, unreachable(err)
}

func (t timedRange) Repair(ctx context.Context, pass *rangekeeper.Pass, look *etcdstore.Look, listed rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	repaired, err := t.Range.Repair(ctx, pass, look, listed)
	return repaired, unreachable(err)
}

// isSpecial reports whether a path is of a pipe, a device or a folder.
func isSpecial(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}
