package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

// kindUndo is the kind of the document of an undo.
const kindUndo = "RepairUndo"

// undo is one run of the command.
type undo struct {
	store   ranges.Store
	journal string
	dryRun  bool
	format  *string
	out     io.Writer
	log     io.Writer
}

func newUndo() *cobra.Command {
	u := new(undo)
	c := &cobra.Command{
		Use:   "undo JOURNAL",
		Short: "Reverse a repair that was made by a reviewed plan",
		Long: `Reverses what "repair --apply --plan" has written, for 24 hours: records the values that it
cleared, and releases those that it set. JOURNAL is the file that the repair wrote beside
its plan; another cluster than the one it was made for refuses it, and so does an etcd that
was restored from an older state. It stays as long as a value is kept, and is renamed to
JOURNAL.undone when all is undone. Each range is written as a whole. A repair that is still
writing the plan, or waits to write it, stops: JOURNAL.undoing says so to it.

A value is released if it was recorded all the time since the repair, and if no Service uses
it now or a minute later, for which the command waits. A value that was or may have been
allocated again stays recorded. After some minutes etcd no longer has the versions that
tell, and an interrupted repair left no time of its write. If such a value is a leak,
"repair --apply --clean-leaks" clears it.

Each value is printed with "allocated" or "released", with "recorded" or "free" if it was so
already, or with "kept" and the reason. The exit code is 1 if one is kept: run the command
again when the reason is gone. With --dry-run nothing is written or waited for.`,
		Example: "  rangekeeper undo plan.json.journal --dry-run \\\n    --endpoints http://127.0.0.1:2379",
		Args:    usage.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			u.journal, u.out, u.log = args[0], c.OutOrStdout(), c.ErrOrStderr()
			return u.store.Connection.Named(u.run(c.Context()))
		},
	}
	u.format = screen.AddFormat(c, screen.FormatTable, screen.FormatJSON, screen.FormatYAML)
	c.Flags().BoolVar(&u.dryRun, "dry-run", false, "show what would be undone now, and write nothing")
	u.store.Connection.AddFlags(c, "use a running etcd at these URLs")
	usage.Required(c, "endpoints")
	return c
}

// undoReport is the document of an undo.
type undoReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is what was read last.
	Source *audit.Source `json:"source"`
	// DryRun says that nothing was written.
	DryRun bool `json:"dryRun"`
	// WrittenRevision is that of the write; 0 if nothing was written.
	WrittenRevision int64 `json:"writtenRevision,omitempty"`
	// Values are those that the repair has changed, by range and value.
	Values []edit.UndoneValue `json:"values"`
}

func (u *undo) run(ctx context.Context) error {
	j, err := edit.OpenJournal(u.journal, u.dryRun)
	if err != nil {
		return err
	}
	u.store.Prefix = j.Cluster.Prefix
	text := u.out
	if *u.format != screen.FormatTable {
		text = io.Discard
	}
	if err := open(ctx, &u.store, false, text); err != nil {
		return err
	}
	defer u.store.Close()
	done, err := j.Undo(ctx, &u.store, u.log)
	if err != nil {
		return err
	}
	err = u.print(undoReport{
		APIVersion: audit.APIVersion, Kind: kindUndo, Source: source.About(audit.FromEtcd, u.store.Connection.String(), done.Seen),
		DryRun: u.dryRun, WrittenRevision: done.WrittenRevision, Values: done.Values,
	})
	switch {
	case err != nil:
		return err
	case done.KeepsAny():
		return ErrFound // the rest may be undone later
	case u.dryRun:
		return nil
	}
	return j.Close()
}

func (u *undo) print(report undoReport) error {
	if *u.format != screen.FormatTable {
		return screen.WriteDocument(u.out, report, *u.format)
	}
	for _, value := range report.Values {
		what := value.Result
		if value.Reason != "" {
			what += ": " + value.Reason
		}
		if report.DryRun {
			what += " (dry run)"
		}
		if _, err := fmt.Fprintln(u.out, value.Range, value.Value, what); err != nil {
			return err
		}
	}
	return nil
}
