package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

func newInit(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "init RANGE SPEC",
		Short: "Create a range to allocate from",
		Long: `Creates the stored object of a range, with nothing allocated. SPEC is a CIDR, or for
servicenodeports a range of ports. If the object is there with the same SPEC, nothing
is changed; one with another SPEC is an error. A cluster that keeps ClusterIPs as
IPAddress objects, the default since Kubernetes 1.33, has no ranges of ClusterIPs.

` + p.rangesHelp(),
		Example: `  rangekeeper init serviceips 10.96.0.0/12 \
    --endpoints http://127.0.0.1:2379
  rangekeeper init servicenodeports 30000-32767 \
    --endpoints http://127.0.0.1:2379`,
		Args: usage.Arguments,
	}
	withStore(c, p, func(c *cobra.Command, args []string, s *store) error {
		name := args[0]
		values, err := parseRange(name)(args[1])
		if err != nil {
			return usage.Error(c, "%s: %v", name, err)
		}
		if err := s.open(c.Context(), true); err != nil {
			return err
		}
		created := false
		if isThere, err := s.isThere(c.Context(), name, values); err != nil {
			return err
		} else if !isThere {
			if created, err = s.create(c.Context(), name, values); err != nil {
				return err
			}
		}
		what := "unchanged"
		if created {
			what = "created"
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), name, values, what)
		return err
	})
	return c
}

// isThere reports whether the range is stored. One with another SPEC is an error. It only reads, as kine refuses our transactions.
func (s *store) isThere(ctx context.Context, name string, values rangekeeper.Range) (bool, error) {
	spec, data, err := readRange(ctx, s.client, s.key(name))
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	a, err := rangekeeper.NewAllocator(values, rangekeeper.Contiguous, 0)
	if err != nil {
		return false, err
	}
	defer a.Close()
	err = a.Restore(spec, data)
	if mismatched := (*rangekeeper.MismatchedRangeError)(nil); errors.As(err, &mismatched) {
		return false, fmt.Errorf("%s: the stored range is %s, not %s; init creates a range and never changes one", s.key(name), spec, values)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.key(name), err)
	}
	return true, nil
}

// create makes the range, and reports whether it did: another client may have made it meanwhile.
func (s *store) create(ctx context.Context, name string, values rangekeeper.Range) (created bool, err error) {
	if err := s.checkNew(ctx, name, values); err != nil {
		return false, err
	}
	r, err := openRange(s.client, s.prefix, name, values, etcdstore.DefaultGrace)
	if err != nil {
		return false, err
	}
	defer closeRange(r)
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	created, err = r.Init(ctx)
	return created, unreachable(err)
}

// checkNew refuses to make a range that would do harm.
func (s *store) checkNew(ctx context.Context, name string, values rangekeeper.Range) error {
	if err := s.checkBitmaps(ctx, name); err != nil {
		return err
	}
	if err := s.checkFamily(ctx, name, values); err != nil {
		return err
	}
	return s.checkServices(ctx, name)
}

// checkFamily refuses to make a range of ClusterIPs of the same IP family as the
// other one, if that is there: no kube-apiserver would start on the two.
func (s *store) checkFamily(ctx context.Context, name string, values rangekeeper.Range) error {
	other, ok := map[string]string{
		clusterstate.ServiceIPs: clusterstate.SecondaryServiceIPs, clusterstate.SecondaryServiceIPs: clusterstate.ServiceIPs,
	}[name]
	if !ok {
		return nil
	}
	otherSpec, err := storedSpec(ctx, s.client, s.key(other))
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		return nil
	}
	if err != nil {
		return err
	}
	otherValues, err := rangekeeper.ParseCIDR(otherSpec)
	if err != nil {
		return fmt.Errorf("%s: %w", s.key(other), err)
	}
	if values.Excludes(otherValues) {
		return fmt.Errorf("%s %s: %s is %s, of the same IP family", name, values, other, otherSpec)
	}
	return nil
}

// checkServices refuses to make an empty range where Services are: their
// values would be handed out again.
func (s *store) checkServices(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	keys := clusterstate.ServiceKeys(s.prefix)
	got, err := s.client.Get(ctx, keys, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return unreachable(fmt.Errorf("read %s: %w", keys, err))
	}
	if got.Count > 0 {
		return fmt.Errorf("%s: the range is missing, and the number of Services below %s is %d: a kube-apiserver creates it from the Services at its start",
			s.key(name), keys, got.Count)
	}
	return nil
}
