package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
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
addresses.

Exit codes: 0 allocated, 1 the range is full or VALUE is allocated already, 2 wrong
usage or input that cannot be used, 3 etcd cannot be reached.`,
		Example: `  rangekeeper allocate serviceips
  rangekeeper allocate serviceips 10.96.0.10
  rangekeeper allocate servicenodeports -n 3 --endpoints http://127.0.0.1:2379`,
		Args: cobra.RangeArgs(1, 2),
	}
	c.Flags().Uint32VarP(&count, "count", "n", 1, "allocate so many values, all or none")
	completeNothing(c, "count")
	withStore(c, func(c *cobra.Command, args []string, s *store) error {
		value := ""
		switch {
		case count == 0:
			return errors.New("--count is at least 1")
		case len(args) == 2 && c.Flags().Changed("count"):
			return errors.New("--count is for values of any kind, not for a VALUE that is named")
		case len(args) == 2:
			if value = args[1]; value == "" {
				return errors.New("VALUE is empty")
			}
		}
		k, err := s.openStored(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer k.close()
		values, err := k.allocate(c.Context(), value, count)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.OutOrStdout())
		for _, value := range values {
			fmt.Fprintln(out, value)
		}
		return out.Flush()
	})
	return c
}

func (k *keptRange[V]) allocate(ctx context.Context, value string, count uint32) ([]string, error) {
	if count > k.values.Size() { // there is no need to make so many requests to be told
		return nil, k.full(count)
	}
	requests := make([]rangekeeper.Request[V], count) // each for any value
	if value != "" {
		parsed, err := k.kind.parseValue(value)
		if err != nil {
			return nil, err
		}
		requests[0] = rangekeeper.This(parsed)
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	allocations, err := k.store.AllocateBatch(ctx, requests...)
	var outside *rangekeeper.NotInRangeError
	switch {
	case errors.Is(err, rangekeeper.ErrFull):
		return nil, k.full(count)
	case errors.Is(err, rangekeeper.ErrAlreadyAllocated):
		return nil, fmt.Errorf("%s %s: %s: %w", k.key, k.values, value, rangekeeper.ErrAlreadyAllocated)
	case errors.As(err, &outside):
		return nil, fmt.Errorf("%s: %w", k.key, outside)
	case err != nil:
		return nil, unreachable(err)
	}
	values := make([]string, len(allocations))
	for i, allocation := range allocations {
		values[i] = fmt.Sprint(allocation.Value)
	}
	return values, nil
}

func (k *keptRange[V]) full(count uint32) error {
	if count == 1 {
		return fmt.Errorf("%s %s: %w", k.key, k.values, rangekeeper.ErrFull)
	}
	return fmt.Errorf("%s %s: %w: it has not %d free values, so none was allocated", k.key, k.values, rangekeeper.ErrFull, count)
}
