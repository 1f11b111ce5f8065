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
		Long: `Releases values as of now, also values that a Service uses. Values that are free
already are listed on stderr; that is no error. So are values that another client
releases, and perhaps allocates again, while the command runs. If one of the values is not in the range, none is released.

` + rangesHelp + `

Do not release a value that a Service uses: another Service would get it, too.

Exit codes: 0 all are free, 1 a value could not be released safely, 2 wrong usage or
input that cannot be used, 3 etcd cannot be reached.`,
		Example: `  rangekeeper release serviceips 10.96.0.10 10.96.0.11
  rangekeeper release servicenodeports 30080 --endpoints http://127.0.0.1:2379`,
		Args: arguments,
	}
	withStore(c, func(c *cobra.Command, args []string, s *store) error {
		r, err := s.openStored(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer closeRange(r)
		free, err := release(c.Context(), r, args[1:])
		for _, value := range free {
			fmt.Fprintf(c.ErrOrStderr(), "rangekeeper: %s was free already\n", value)
		}
		return err
	})
	return c
}

// release releases values as of now, and returns those that were free already.
func release(ctx context.Context, r *etcdstore.Store, values []string) (free []string, err error) {
	owned := make([]etcdstore.Owned, len(values))
	for i, value := range values {
		if owned[i].Value, err = rangekeeper.ParseValue(value); err != nil {
			return nil, err
		}
		if _, ok := r.Range().OffsetOf(owned[i].Value); !ok {
			return nil, fmt.Errorf("%s: %w", r.Key(), &rangekeeper.ValueError{Value: owned[i].Value, Range: r.Range(), Err: rangekeeper.ErrNotInRange})
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
