package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

func newAllocate() *cobra.Command {
	var count uint32
	c := &cobra.Command{
		Use:   "allocate RANGE [VALUE]",
		Short: "Allocate values and print them, one on each line",
		Long: `Allocates VALUE, or any free value as kube-apiserver chooses it: a random one, from
the static band only when there is no other. With --count so many values or none.
What is allocated is printed, one value on each line.

` + rangesHelp + `

kube-apiserver frees what no Service uses within two or three passes of its repair,
some 6 minutes. A cluster that has ServiceCIDR objects does not use the ranges of
addresses.`,
		Example: `  rangekeeper allocate serviceips
  rangekeeper allocate serviceips 10.96.0.10
  rangekeeper allocate servicenodeports -n 3 --endpoints http://127.0.0.1:2379`,
		Args: arguments,
	}
	c.Flags().Uint32VarP(&count, "count", "n", 1, "allocate so many values, all or none")
	completeNothing(c, "count")
	withStore(c, func(c *cobra.Command, args []string, s *store) error {
		request := rangekeeper.Any()
		if len(args) == 2 {
			value, err := rangekeeper.ParseValue(args[1])
			if err != nil {
				return usageError(c, "%v", err)
			}
			request = rangekeeper.Named(value)
		}
		r, err := s.openStored(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer closeRange(r)
		allocations, err := allocate(c.Context(), r, request, count)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.OutOrStdout())
		for _, allocation := range allocations {
			fmt.Fprintln(out, allocation.Value)
		}
		return out.Flush()
	})
	addRule(c, func(args []string) error {
		switch {
		case count == 0:
			return usageError(c, "--count is at least 1, not 0")
		case len(args) == 2 && c.Flags().Changed("count"):
			return usageError(c, "--count and VALUE exclude each other")
		}
		return nil
	})
	return c
}

// allocate allocates the requested value, and any free values up to count.
func allocate(ctx context.Context, r *etcdstore.Store, request rangekeeper.Request, count uint32) ([]etcdstore.Allocation, error) {
	if count > r.Range().Size() { // the store would make a request for each
		return nil, full(r, count)
	}
	requests := make([]rangekeeper.Request, count) // each for any value
	requests[0] = request
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	allocations, err := r.AllocateBatch(ctx, requests...)
	var refused *rangekeeper.ValueError
	switch {
	case errors.Is(err, rangekeeper.ErrFull):
		return nil, full(r, count)
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%s: %w", r.Key(), refused)
	case err != nil:
		return nil, unreachable(err)
	}
	return allocations, nil
}

func full(r *etcdstore.Store, count uint32) error {
	err := fmt.Errorf("%s: %w", r.Key(), &rangekeeper.ValueError{Range: r.Range(), Err: rangekeeper.ErrFull})
	if count > 1 {
		err = fmt.Errorf("%w: fewer than %d values are free; none allocated", err, count)
	}
	return err
}
