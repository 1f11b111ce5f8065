package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/occupancy"
)

func newAudit() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show the faults in the ranges and Services of a cluster",
		Example: `  rangekeeper audit --etcd-snapshot backup.db.gz
  rangekeeper audit --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key -o json`,
		Args:              arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := addFormat(c, formatTable, formatWide, formatJSON, formatYAML, formatSVG)
	withAPISource(c, func(c *cobra.Command, _ []string, s *source) error {
		a, err := s.audit(c.Context())
		if err != nil {
			return err
		}
		if err := writeAudit(c.OutOrStdout(), a, *format); err != nil {
			return err
		}
		if !a.Report().Clean() {
			return errFound
		}
		return nil
	})
	return c
}

func writeAudit(w io.Writer, a *audit.Audit, format string) error {
	switch format {
	case formatJSON, formatYAML:
		return writeDocument(w, a.Report(), format)
	case formatTable:
		return writeReport(w, a.Report(), false)
	}
	maps, err := a.Maps()
	if err != nil {
		return err
	}
	if format == formatSVG {
		return occupancy.SVG(w, maps)
	}
	if err := occupancy.Text(w, maps); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return writeReport(w, a.Report(), true)
}

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatSVG   = "svg"
)

// addFormat adds the flag --output with the formats that a command knows, the default
// first.
func addFormat(c *cobra.Command, allowed ...string) *string {
	format := c.Flags().StringP("output", "o", allowed[0], "output format: "+strings.Join(allowed, ", "))
	addRule(c, func([]string) error {
		if !slices.Contains(allowed, *format) {
			return usageError(c, "unknown output format %q: expected %s", *format, strings.Join(allowed, ", "))
		}
		return nil
	})
	c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return format
}
