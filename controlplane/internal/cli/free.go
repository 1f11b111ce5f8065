package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

// maxFree is the largest number of values that free lists of a band.
const maxFree = 1000

func newFree(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "free RANGE",
		Short: "List the next free values of a range, and how many there are",
		Long: `Lists the lowest free values of a range, and how many are free: neither recorded as
allocated nor used by a Service. RANGE is serviceips, secondaryserviceips,
servicenodeports or the name of a ServiceCIDR object. If a bitmap and a ServiceCIDR have
one name, it is the bitmap, unless no server uses that any more. kube-apiserver picks
values from the static band last, so take one of those for a Service that names its
ClusterIP or node port. Nothing is reserved. "show" lists all free and used runs.

The exit code is 1 if no value of the range is free. Then it names the other ServiceCIDRs
that API servers allocate from.`,
		Example: `  rangekeeper free servicenodeports
  rangekeeper free kubernetes --count 1 -o name`,
		Args: usage.Arguments,
	}
	format := screen.AddFormat(c, screen.FormatTable, screen.FormatJSON, screen.FormatYAML, screen.FormatName)
	n := c.Flags().Uint16("count", 3, fmt.Sprintf("number of values to list of each band, at most %d", maxFree))
	usage.AddRule(c, func([]string) error {
		if *n > maxFree {
			return usage.Error(c, "--count is at most %d, not %d", maxFree, *n)
		}
		return nil
	})
	s := source.AddWithAPI(c, p.Linked, func(c *cobra.Command, args []string, s *source.Source) error {
		a, err := s.Audit(c.Context())
		if err != nil {
			return err
		}
		free, err := a.Free(args[0], int(*n))
		if err != nil {
			return s.Explain(err)
		}
		switch *format {
		case screen.FormatTable:
			shown := screen.New(c.OutOrStdout(), true)
			shown.Free(free)
			err = shown.Print(c.OutOrStdout())
		case screen.FormatName:
			err = writeFreeNames(c.OutOrStdout(), free)
		default:
			err = screen.WriteDocument(c.OutOrStdout(), free, *format)
		}
		if err == nil && free.IsFull() {
			fmt.Fprintf(c.ErrOrStderr(), "no value of %s is free\n", args[0])
			for _, other := range a.FreeElsewhere(args[0]) {
				fmt.Fprintf(c.ErrOrStderr(), "API servers allocate from %s (%s), too, of which %s are free\n", other.Name, other.Range, screen.AmountText(other.Free, "at most "))
			}
		}
		return foundIf(len(free.Unreadable) > 0 || free.IsFull(), err)
	})
	completeRange(c, s)
	usage.CompleteNothing(c, "count")
	return c
}

// writeFreeNames writes one value in each line, for scripts.
func writeFreeNames(w io.Writer, free *audit.FreeList) error {
	for _, b := range free.Bands {
		for _, value := range b.Next {
			if _, err := fmt.Fprintln(w, value); err != nil {
				return err
			}
		}
	}
	return nil
}
