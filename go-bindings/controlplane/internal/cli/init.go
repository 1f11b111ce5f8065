package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/etcdstore"
)

func newInit() *cobra.Command {
	c := &cobra.Command{
		Use:   "init RANGE SPEC",
		Short: "Make a range to allocate from",
		Long: `Makes the stored object of a range, with nothing allocated. SPEC is a CIDR, or for
servicenodeports a range of ports. If the object is there with the same SPEC, nothing
is changed; one with another SPEC is an error.

` + rangesHelp + `

Exit codes: 0 the range is there, 2 wrong usage, or it is there with another SPEC,
3 etcd cannot be reached.`,
		Example: `  rangekeeper init serviceips 10.96.0.0/12
  rangekeeper init servicenodeports 30000-32767 --endpoints http://127.0.0.1:2379`,
		Args: cobra.ExactArgs(2),
	}
	withStore(c, func(c *cobra.Command, args []string, s *store) error {
		name := args[0]
		k, err := newKept(name, args[1])
		if err != nil {
			return err
		}
		if err := s.open(c.Context(), true); err != nil {
			return err
		}
		if err := k.open(s.client, s.key(name), etcdstore.DefaultGrace); err != nil {
			return err
		}
		defer k.close()
		created, err := k.create(c.Context())
		if err != nil {
			return err
		}
		what := "unchanged"
		if created {
			what = "created"
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), name, k.spec(), what)
		return err
	})
	return c
}

func (k *keptRange[V]) create(ctx context.Context) (created bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	created, err = k.store.Init(ctx)
	return created, unreachable(err)
}
