package cli

import (
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
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

` + edit.InUseHelp + `

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
	ranges.Add(c, p.AddLocal, func(c *cobra.Command, args []string, s *ranges.Store) error {
		change := rangekeeper.Edit{Kind: kindOf(force), Pick: count}
		if len(args) == 2 {
			value, err := rangekeeper.ParseValue(args[1])
			if err != nil {
				return usage.Error(c, "%v", err)
			}
			change.Pick, change.Set = 0, []rangekeeper.Value{value}
		}
		if err := open(c.Context(), s, false, c.OutOrStdout()); err != nil {
			return err
		}
		signal.Ignore(syscall.SIGPIPE) // of a reader that is gone: it is an error of the print then
		edited, err := edit.Change(c.Context(), s, args[0], edit.ValueAllocated, change, func(state *clusterstate.State) error {
			if args[0] == clusterstate.ServiceNodePorts || !state.ClusterIPRecords().HasObjects() || force {
				return nil
			}
			return fmt.Errorf("%s: nothing is allocated: this cluster records ClusterIPs in IPAddress objects, too, and kube-apiserver would never free a value that only the bitmap records; create a Service instead", s.Key(args[0]))
		})
		if errors.Is(err, rangekeeper.ErrFull) && count > 1 {
			of := new(rangekeeper.ValueError)
			errors.As(err, &of)
			err = fmt.Errorf("%s: fewer than %d values of %s are free: %w", s.Key(args[0]), count, of.Range, errTooFew)
		}
		if err != nil {
			return err
		}
		return printAllocated(c.OutOrStdout(), edited.Values)
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

// errTooFew: fewer values are free than are wanted.
var errTooFew = errors.New("none is allocated")

// errNotPrinted: values are allocated, and their reader has not got them.
var errNotPrinted = errors.New("these values are allocated, and could not be printed")

// printAllocated prints values, or names them in its error: nobody could release them otherwise.
func printAllocated(w io.Writer, values []rangekeeper.EditedValue) error {
	var texts []string
	for _, one := range values {
		texts = append(texts, one.Value.String())
	}
	if _, err := fmt.Fprintln(w, strings.Join(texts, "\n")); err != nil {
		return fmt.Errorf("%w: %w: %s", err, errNotPrinted, strings.Join(texts, " "))
	}
	return nil
}

// kindOf is the kind of a change by an operator.
func kindOf(force bool) rangekeeper.EditKind {
	if force {
		return rangekeeper.EditForce
	}
	return rangekeeper.EditChange
}
