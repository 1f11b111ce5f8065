package cli

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

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
		request, named := rangekeeper.Any(), []rangekeeper.Value(nil)
		if len(args) == 2 {
			value, err := rangekeeper.ParseValue(args[1])
			if err != nil {
				return usage.Error(c, "%v", err)
			}
			request, named = rangekeeper.Named(value), []rangekeeper.Value{value}
		}
		var values []rangekeeper.Value
		err := s.changeRange(c.Context(), args[0], func(h *held, a *rangekeeper.Allocator) (err error) {
			if err := h.checkInUse(force, changeAllocated, named...); err != nil {
				return err
			}
			if h.hasObjects && !force {
				return fmt.Errorf("%s: this cluster keeps ClusterIPs as IPAddress objects beside the bitmap: kube-apiserver would refuse a value that only the bitmap records, and never free it; nothing is allocated", h.stored.Key)
			}
			values, err = allocate(h, a, request, count)
			return err
		})
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.OutOrStdout())
		for _, value := range values {
			fmt.Fprintln(out, value)
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

// allocate allocates the requested value, or count free ones. It never picks a value that a Service uses, even if that is
// not recorded.
func allocate(h *held, a *rangekeeper.Allocator, request rangekeeper.Request, count uint32) ([]rangekeeper.Value, error) {
	if count > h.values.Size() { // each value would have a request
		return nil, full(h, count)
	}
	others, err := h.allocator(h.stored.Key)
	if err != nil {
		return nil, err
	}
	defer others.Close()
	if request == rangekeeper.Any() {
		for value := range h.users {
			others.Allocate(value) // it may be recorded, or not in the range
		}
	}
	requests := make([]rangekeeper.Request, count) // each for any value
	requests[0] = request
	values, err := others.AllocateBatch(requests)
	var refused *rangekeeper.ValueError
	switch {
	case errors.Is(err, rangekeeper.ErrFull):
		return nil, full(h, count)
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%s: %w", h.stored.Key, refused)
	case err != nil:
		return nil, err
	}
	for _, value := range values {
		if err := a.Allocate(value); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func full(h *held, count uint32) error {
	err := fmt.Errorf("%s: %w", h.stored.Key, &rangekeeper.ValueError{Range: h.values, Err: rangekeeper.ErrFull})
	if count > 1 {
		err = fmt.Errorf("%w: fewer than %d values are free; none allocated", err, count)
	}
	return err
}
