package cli

import (
	"bufio"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// alreadyFree is of a value that is not recorded, so it need not be released.
const alreadyFree = "free"

func newRelease(p *Program) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "release RANGE VALUE...",
		Short: "Release values",
		Long: `Releases the values, all or none, and prints each of them with "released", or with "free"
if it was free already.

` + p.rangesHelp() + `

` + inUseHelp,
		Example: `  rangekeeper release serviceips 10.96.0.10 10.96.0.11 \
    --endpoints http://127.0.0.1:2379
  rangekeeper release servicenodeports 30080 \
    --endpoints http://127.0.0.1:2379`,
		Args: usage.Arguments,
	}
	c.Flags().BoolVar(&force, "force", false, "release a value even if a Service uses it: another Service can get it, too")
	withStore(c, p, func(c *cobra.Command, args []string, s *store) error {
		values := make([]rangekeeper.Value, len(args)-1)
		for i, text := range args[1:] {
			var err error
			if values[i], err = rangekeeper.ParseValue(text); err != nil {
				return usage.Error(c, "%v", err)
			}
		}
		change := rangekeeper.Edit{Kind: kindOf(force), Clear: values}
		edited, err := s.changeRange(c.Context(), args[0], changeReleased, change, func(*clusterstate.State) error { return nil })
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.OutOrStdout())
		for _, one := range edited.Values {
			what := changeReleased
			if one.Fate == rangekeeper.FateAlreadyClear {
				what = alreadyFree
			}
			fmt.Fprintln(out, args[0], one.Value, what)
		}
		return out.Flush()
	})
	return c
}
