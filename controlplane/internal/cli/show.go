package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

func newShow(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:     "show RANGE",
		Short:   "Show how a range is used, with its free and used runs",
		Long:    "Shows how a range is used, with its free and used runs. RANGE is serviceips,\nsecondaryserviceips, servicenodeports or the name of a ServiceCIDR object.",
		Example: "  rangekeeper show serviceips --etcd-snapshot backup.db.gz",
		Args:    usage.Arguments,
	}
	format := addFormat(c, formatTable, formatJSON, formatYAML)
	s := withAPISource(c, p, func(c *cobra.Command, args []string, s *source) error {
		a, err := s.audit(c.Context())
		if err != nil {
			return err
		}
		use, err := a.Use(args[0])
		if err != nil {
			return s.explain(err)
		}
		if *format == formatTable {
			err = writeRuns(c.OutOrStdout(), use.Ranges)
		} else {
			err = writeDocument(c.OutOrStdout(), use, *format)
		}
		return foundIf(len(use.Unreadable) > 0, err)
	})
	completeRange(c, s)
	return c
}

// completeRange offers the names of the source's ranges for the argument of a command.
func completeRange(c *cobra.Command, s *source) {
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return rangeNames(c.Context(), s), cobra.ShellCompDirectiveNoFileComp
	}
}

// completionTimeout is how long someone who pressed the tab key may have to wait.
const completionTimeout = 3 * time.Second

// rangeNames returns those of the source, if one was given and can be read.
func rangeNames(ctx context.Context, s *source) []string {
	names := bitmapNames
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	s.progress = &progress{w: io.Discard}
	defer s.close()
	a, err := s.audit(ctx)
	if err != nil {
		return names
	}
	names = nil
	for _, r := range a.Report().Ranges {
		names = append(names, r.Name)
	}
	return slices.Compact(names) // a ServiceCIDR object can have two
}

func writeRuns(w io.Writer, all []audit.Runs) error {
	var t table
	for _, r := range all {
		t.addRanges([]audit.Range{r.Range})
		if r.StaticBand > 0 {
			fmt.Fprintf(&t.b, "\nStatic band: the lowest %s\n", count(int(r.StaticBand), "value"))
		}
		t.addRuns("Free runs", r.Free)
		t.addRuns("Used runs", r.Used)
	}
	_, err := w.Write(t.b.Bytes())
	return err
}

func (t *table) addRuns(title string, runs []audit.Run) {
	var rows [][]string
	for _, run := range runs {
		rows = append(rows, []string{run.First, run.Last, fmt.Sprint(run.Len)})
	}
	t.add(title, []string{"FIRST", "LAST", "COUNT"}, rows)
}
