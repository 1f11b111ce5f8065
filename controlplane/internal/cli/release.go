package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

func newRelease() *cobra.Command {
	c := &cobra.Command{
		Use:   "release RANGE VALUE...",
		Short: "Release values",
		Long: `Releases the values, even if a Service uses them. If one of them is not in the range,
none is released. Values that are free already are listed on stderr, which is no
error. If another client releases a value while the command runs, the value is listed,
too, and stays allocated if a client has allocated it since.

` + rangesHelp + `

Do not release a value that a Service uses: another Service would get it, too.`,
		Example: `  rangekeeper release serviceips 10.96.0.10 10.96.0.11
  rangekeeper release servicenodeports 30080 --endpoints http://127.0.0.1:2379`,
		Args: arguments,
	}
	withStore(c, func(c *cobra.Command, args []string, s *store) error {
		values := make([]rangekeeper.Value, len(args)-1)
		for i, text := range args[1:] {
			var err error
			if values[i], err = rangekeeper.ParseValue(text); err != nil {
				return usageError(c, "%v", err)
			}
		}
		r, err := s.openStored(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer closeRange(r)
		free, err := release(c.Context(), r, values)
		for _, value := range free {
			fmt.Fprintf(c.ErrOrStderr(), "rangekeeper: %s was free already\n", value)
		}
		return err
	})
	return c
}

// release releases values as of now, and returns those that were free already.
func release(ctx context.Context, r *etcdstore.Store, values []rangekeeper.Value) (free []rangekeeper.Value, err error) {
	owned := make([]etcdstore.Owned, len(values))
	for i, value := range values {
		owned[i].Value = value
		if _, ok := r.Range().OffsetOf(value); !ok {
			return nil, fmt.Errorf("%s: %w", r.Key(), &rangekeeper.ValueError{Value: value, Range: r.Range(), Err: rangekeeper.ErrNotInRange})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	// Later allocations are not meant.
	now, err := r.Read(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	for i := range owned {
		owned[i].Owner = rangekeeper.OwnedSince(now.Revision)
	}
	released, err := r.ReleaseAll(ctx, owned...)
	if err != nil {
		return nil, unreachable(err)
	}
	for i, value := range values {
		if !released[i] {
			free = append(free, value)
		}
	}
	return free, nil
}
