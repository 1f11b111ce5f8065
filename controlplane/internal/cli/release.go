package cli

import (
	"bufio"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func newRelease(p *Program) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "release RANGE VALUE...",
		Short: "Release values",
		Long: `Releases the values, all or none, and prints each of them with "released", or with "free"
if it was free already.

` + p.rangesHelp() + `

` + edit.InUseHelp,
		Example: `  rangekeeper release serviceips 10.96.0.10 10.96.0.11 \
    --endpoints http://127.0.0.1:2379
  rangekeeper release servicenodeports 30080 \
    --endpoints http://127.0.0.1:2379`,
		Args: usage.Arguments,
	}
	c.Flags().BoolVar(&force, "force", false, "release a value even if a Service uses it: another Service can get it, too")
	ranges.Add(c, p.AddLocal, func(c *cobra.Command, args []string, s *ranges.Store) error {
		var values []rangekeeper.Value
		for _, text := range args[1:] {
			value, err := rangekeeper.ParseValue(text)
			if err != nil {
				return usage.Error(c, "%v", err)
			}
			if !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
		change := rangekeeper.Edit{Kind: kindOf(force), Clear: values}
		if err := open(c.Context(), s, false, c.OutOrStdout()); err != nil {
			return err
		}
		edited, err := edit.Change(c.Context(), s, args[0], edit.ValueReleased, change, func(*clusterstate.State) error { return nil })
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.OutOrStdout())
		for _, one := range edited.Values {
			what := edit.ValueReleased
			if one.Fate == rangekeeper.FateAlreadyClear {
				what = edit.ValueFree
			}
			fmt.Fprintln(out, args[0], one.Value, what)
		}
		return out.Flush()
	})
	return c
}
