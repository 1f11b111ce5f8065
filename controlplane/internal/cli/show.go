package cli

import (
	"fmt"
	"io"

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
			err = writeUse(c.OutOrStdout(), use)
		} else {
			err = writeDocument(c.OutOrStdout(), use, *format)
		}
		return foundIf(len(use.Unreadable) > 0, err)
	})
	completeRange(c, s)
	return c
}

func writeUse(w io.Writer, use *audit.RangeUse) error {
	var t table
	for _, r := range use.Ranges {
		t.addRanges([]audit.Range{r.Range})
		if r.StaticBand != nil && *r.StaticBand > 0 {
			fmt.Fprintf(&t.b, "\nStatic band: the lowest %s\n", count(int(*r.StaticBand), "value"))
		}
		t.addRuns("Free runs", r.Free)
		t.addRuns("Used runs", r.Used)
	}
	return t.writeTo(w, use.Source, use.Unknown)
}

func (t *table) addRuns(title string, runs []audit.Run) {
	var rows [][]string
	for _, run := range runs {
		rows = append(rows, []string{run.First, run.Last, fmt.Sprint(run.Len)})
	}
	t.add(title, []string{"FIRST", "LAST", "COUNT"}, rows)
}
