package cli

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func newAllocate(p *Program) *cobra.Command {
	var count uint32
	var force bool
	c := &cobra.Command{
		Use:   "allocate RANGE [VALUE]",
		Short: "Allocate values and print them, one on each line",
		Long: `Allocates VALUE, or any free value as kube-apiserver chooses it: a random one, from
the static band only when there is no other. With --count so many values or none.
What is allocated is printed, one value on each line.

` + p.rangesHelp() + `

` + inUseHelp + `

kube-apiserver frees what no Service uses within two or three passes of its repair,
some 6 minutes. Kubernetes 1.33 keeps IPAddress objects beside bitmaps of ClusterIPs,
and never repairs those bitmaps: serviceips and secondaryserviceips are refused there.`,
		Example: `  rangekeeper allocate serviceips \
    --endpoints http://127.0.0.1:2379
  rangekeeper allocate serviceips 10.96.0.10 \
    --endpoints http://127.0.0.1:2379
  rangekeeper allocate servicenodeports -n 3 \
    --endpoints http://127.0.0.1:2379`,
		Args: usage.Arguments,
	}
	c.Flags().Uint32VarP(&count, "count", "n", 1, "allocate so many values, all or none")
	c.Flags().BoolVar(&force, "force", false, "record VALUE even if a Service uses it, or beside IPAddress objects")
	usage.CompleteNothing(c, "count")
	withStore(c, p, func(c *cobra.Command, args []string, s *store) error {
		change := rangekeeper.Edit{Kind: kindOf(force), Pick: count}
		if len(args) == 2 {
			value, err := rangekeeper.ParseValue(args[1])
			if err != nil {
				return usage.Error(c, "%v", err)
			}
			change.Pick, change.Set = 0, []rangekeeper.Value{value}
		}
		edited, err := s.changeRange(c.Context(), args[0], changeAllocated, change, func(state *clusterstate.State) error {
			if args[0] == clusterstate.ServiceNodePorts || !state.ClusterIPRecords().HasObjects() || force {
				return nil
			}
			return fmt.Errorf("%s: this cluster keeps ClusterIPs as IPAddress objects beside the bitmap: kube-apiserver would refuse a value that only the bitmap records, and never free it; nothing is allocated", s.key(args[0]))
		})
		if errors.Is(err, rangekeeper.ErrFull) && count > 1 {
			err = fmt.Errorf("%w: fewer than %d values are free; none allocated", err, count)
		}
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.OutOrStdout())
		for _, one := range edited.Values {
			fmt.Fprintln(out, one.Value)
		}
		return out.Flush()
	})
	usage.AddRule(c, func(args []string) error {
		switch {
		case count == 0:
			return usage.Error(c, "--count is at least 1, not 0")
		case force && len(args) < 2:
			return usage.Error(c, "--force is for VALUE")
		case len(args) == 2 && c.Flags().Changed("count"):
			return usage.Error(c, "--count and VALUE exclude each other")
		}
		return nil
	})
	return c
}

// kindOf is the kind of a change by an operator.
func kindOf(force bool) rangekeeper.EditKind {
	if force {
		return rangekeeper.EditForce
	}
	return rangekeeper.EditChange
}
