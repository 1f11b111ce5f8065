package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/audit"
)

func newShow() *cobra.Command {
	c := &cobra.Command{
		Use:       "show RANGE",
		Short:     "Show how a range is used, with its free and used runs",
		Long:      "Shows how a range is used, with its free and used runs. RANGE is serviceips,\nsecondaryserviceips, servicenodeports or the name of a ServiceCIDR object.",
		Example:   "  rangekeeper show serviceips --etcd-snapshot backup.db.gz",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{audit.ServiceIPs, audit.SecondaryServiceIPs, audit.ServiceNodePorts},
	}
	withSource(c, func(c *cobra.Command, args []string, s *source) error {
		a, err := s.audit(c.Context())
		if err != nil {
			return err
		}
		all, err := a.Runs(args[0])
		if err != nil {
			return s.explain(err)
		}
		return writeRuns(c.OutOrStdout(), all)
	})
	return c
}

func writeRuns(w io.Writer, all []audit.Runs) error {
	var t table
	for _, r := range all {
		t.addRanges([]audit.Range{r.Range})
		fmt.Fprintf(&t.b, "\nStatic band: the lowest %s\n", count(int(r.StaticBand), "value"))
		if r.Partial {
			fmt.Fprintln(&t.b, "Only the lowest 65,536 addresses are in the runs below.")
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
