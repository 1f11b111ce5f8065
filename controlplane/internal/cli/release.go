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
		Long: `Releases values as of now: the command knows no owner, and releases a value that a
Service uses, too. A value that is free already is named on stderr, which is no error.
So is a value that another client releases, and perhaps allocates again, while the
command runs. If one of the values is not in the range, none is released.

` + rangesHelp + `

Do not release a value that a Service uses: another Service would get it, too.

Exit codes: 0 all are free, 1 a value could not be released safely, 2 wrong usage or
input that cannot be used, 3 etcd cannot be reached.`,
		Example: `  rangekeeper release serviceips 10.96.0.10 10.96.0.11
  rangekeeper release servicenodeports 30080 --endpoints http://127.0.0.1:2379`,
		Args: cobra.MinimumNArgs(2),
	}
	withStore(c, func(c *cobra.Command, args []string, s *store) error {
		k, err := s.openStored(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer k.close()
		free, err := k.release(c.Context(), args[1:])
		for _, value := range free {
			fmt.Fprintf(c.ErrOrStderr(), "rangekeeper: %s was free already\n", value)
		}
		return err
	})
	return c
}

func (k *keptRange[V]) release(ctx context.Context, values []string) (free []string, err error) {
	parsed := make([]V, len(values))
	for i, value := range values {
		if parsed[i], err = k.kind.parseValue(value); err != nil {
			return nil, err
		}
		if _, ok := k.values.OffsetOf(parsed[i]); !ok {
			return nil, fmt.Errorf("%s: %w", k.key, &rangekeeper.NotInRangeError{Value: value, Range: k.spec()})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	// What is allocated after this is not meant.
	now, err := k.store.Read(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	owned := make([]etcdstore.Owned[V], len(parsed))
	for i, value := range parsed {
		owned[i] = etcdstore.Owned[V]{Value: value, Owner: rangekeeper.OwnedSince(now.Revision)}
	}
	released, err := k.store.ReleaseAll(ctx, owned...)
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
