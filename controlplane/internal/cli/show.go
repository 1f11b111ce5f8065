package cli

import (
	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
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
	format := screen.AddFormat(c, screen.FormatTable, screen.FormatJSON, screen.FormatYAML)
	s := source.AddWithAPI(c, p.Linked, func(c *cobra.Command, args []string, s *source.Source) error {
		a, err := s.Audit(c.Context())
		if err != nil {
			return err
		}
		use, err := a.Use(args[0])
		if err != nil {
			return s.Explain(err)
		}
		if *format == screen.FormatTable {
			shown := screen.New(c.OutOrStdout(), true)
			shown.Use(use)
			err = shown.Print(c.OutOrStdout())
		} else {
			err = screen.WriteDocument(c.OutOrStdout(), use, *format)
		}
		return foundIf(len(use.Unreadable) > 0, err)
	})
	completeRange(c, s)
	return c
}
