package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	driver "github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// repair is one run of the command.
type repair struct {
	source     *source.Source
	toFile     string
	force      bool
	planTo     string
	planFile   string
	apply      bool
	cleanLeaks bool
	passes     uint8
	interval   time.Duration
	log        io.Writer
	// last is the last pass's audit.
	last *audit.Audit
	// changed counts, by range, the values that the last pass left alone, as they or Services changed meanwhile.
	changed map[string]int
	// leftAlone is the number of those, and of the API servers' objects, that are still to be repaired.
	leftAlone int
}

func newRepair(p *Program) *cobra.Command {
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
bitmaps store its CIDRs, as those of Kubernetes 1.33 do. In a running cluster they are
not written, since kube-apiserver repairs them at its start.
The leases of API servers are deleted from a snapshot, as none of them runs: each writes
its own when it starts. In a running cluster --apply deletes a lease that never expires,
and puts the endpoints of the Service kubernetes right, if a second look finds them as
they were 30 seconds later: a server that lives would have written them.

--plan-to writes the changes to a file for a review, and "--apply --plan FILE" writes
exactly those, one range after the other, each as a whole, or says what has changed. It
clears a value if no Service uses it and it stays recorded for a minute, for which the
command waits; leaks are in a plan only with --clean-leaks. FILE.journal says which ranges
are written. An interrupted run is continued by the same command, or reversed by
rangekeeper undo, for 24 hours. An etcd of another cluster is refused, but not one that
was restored from a snapshot of this cluster.

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
	format := screen.AddFormat(c, screen.FormatTable, screen.FormatWide, screen.FormatJSON, screen.FormatYAML)
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
	r.source = source.Add(c, func(c *cobra.Command, _ []string, _ *source.Source) error {
		r.log = c.ErrOrStderr()
		if !r.cleanLeaks { // then only addresses that a bitmap records alone may need a second pass
			r.passes, r.interval = 2, edit.LeakAge
		}
		plan, runErr := r.run(c.Context())
		if plan == nil {
			return runErr
		}
		// If a later pass fails, the plan reports the writes of the earlier ones.
		var err error
		if *format == screen.FormatTable || *format == screen.FormatWide {
			shown := screen.New(c.OutOrStdout(), *format == screen.FormatWide)
			steps, page := r.source.PlanSteps(plan, r.planTo, r.toFile)
			shown.Plan(plan, steps, page, r.source.Program)
			err = shown.Print(c.OutOrStdout())
		} else {
			err = screen.WriteDocument(c.OutOrStdout(), plan, *format)
		}
		return foundIf(r.leaves(plan), errors.Join(runErr, err))
	})
	r.source.Linked, r.source.ForServers = p.Linked, true
	usage.OneOf(c, "etcd-snapshot", "endpoints")
	usage.AddRule(c, func([]string) error { return r.check(c) })
	return c
}

// leaves reports whether changes are pending or anything is left.
func (r *repair) leaves(plan *audit.Plan) bool { return r.leftAlone > 0 || plan.Leaves() }

// check refuses flags that do not go together.
func (r *repair) check(c *cobra.Command) error {
	switch {
	case r.toFile != "" && r.source.Online():
		return usage.Error(c, "--to-file is for --etcd-snapshot")
	case r.toFile == snapshotfile.Stdin || r.planTo == snapshotfile.Stdin:
		return usage.Error(c, "--to-file and --plan-to name a new file; nothing is written to the standard output")
	case r.toFile != "" && r.source.File() == snapshotfile.Stdin:
		return usage.Error(c, "--to-file needs the name of a file in --etcd-snapshot, which is read twice")
	case r.force && r.toFile == "" && r.planTo == "":
		return usage.Error(c, "--force is for --to-file and --plan-to")
	case r.planTo != "" && !r.source.Online():
		return usage.Error(c, "--plan-to is for --endpoints")
	case r.planTo != "" && r.apply:
		return usage.Error(c, "--plan-to and --apply exclude each other")
	case r.planFile != "" && !r.apply:
		return usage.Error(c, "--plan is for --apply")
	case r.planFile != "" && isSpecial(r.planFile):
		return usage.Error(c, "--plan %s is no regular file: the journal is written beside it", r.planFile)
	case r.planFile != "" && r.cleanLeaks:
		return usage.Error(c, "--plan and --clean-leaks exclude each other: the plan says which leaks are cleaned")
	case r.apply && !r.source.Online():
		return usage.Error(c, "--apply is for --endpoints; --to-file writes a repaired snapshot")
	case r.cleanLeaks && !r.apply && r.planTo == "":
		return usage.Error(c, "--clean-leaks is for --apply and --plan-to")
	case (!r.cleanLeaks || r.planTo != "") && (c.Flags().Changed("passes") || c.Flags().Changed("interval")):
		return usage.Error(c, "--passes and --interval are for --apply --clean-leaks")
	case r.passes < 2: // a leak is cleaned in a later pass than the first that finds it
		return usage.Error(c, "--passes is at least 2, not %d", r.passes)
	case r.interval < edit.LeakAge:
		return usage.Error(c, "--interval is at least %s, as a Service that is being created has its value before it is written; not %s", edit.LeakAge, r.interval)
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
	case r.source.Online():
		plan, err := r.online(ctx)
		if err == nil && r.apply {
			err = r.repairServers(ctx, plan)
		}
		if err != nil && plan != nil {
			plan.SetIncomplete()
			err = fmt.Errorf("%w; %s", err, screen.WrittenText(plan))
		}
		return plan, err
	}
	state, err := r.source.Read(ctx, 0)
	if err != nil {
		return nil, err
	}
	o := r.source.AuditOptions(state)
	o.CleansLeaks = true
	a, err := r.source.AuditWith(state, o)
	if err != nil {
		return nil, err
	}
	plan, err := a.Plan()
	if err != nil {
		return nil, err
	}
	if r.toFile != "" {
		values, err := a.NewValues(time.Now())
		if err != nil {
			return nil, r.source.Explain(err)
		}
		isDamaged, err := r.source.WriteRepaired(ctx, state, values, r.toFile, r.force)
		if err != nil {
			return nil, err
		}
		if isDamaged {
			fmt.Fprintf(r.log, "rangekeeper: the hash of %s is wrong, so it may be damaged anywhere: %s has no hash, and etcdutl restores it with --skip-hash-check\n",
				r.source.File(), r.toFile)
		}
		plan.SetApplied()
	}
	return plan, nil
}

// isSpecial reports whether a path is of a pipe, a device or a folder.
func isSpecial(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}
