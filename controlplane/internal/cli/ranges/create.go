package ranges

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// IsThere reports whether the range is stored. One with another SPEC is an error. It only reads, as kine refuses our
// transactions.
func (s *Store) IsThere(ctx context.Context, name string, values rangekeeper.Range) (bool, error) {
	spec, data, err := readRange(ctx, s.Client, s.Key(name))
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
		return false, fmt.Errorf("%s: the stored range is %s, not %s; init creates a range and never changes one", s.Key(name), spec, values)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.Key(name), err)
	}
	return true, nil
}

// Create makes the range, and reports whether it did: another client may have made it meanwhile.
func (s *Store) Create(ctx context.Context, name string, values rangekeeper.Range) (created bool, err error) {
	if err := s.checkNew(ctx, name, values); err != nil {
		return false, err
	}
	r, err := s.OpenRange(name, values, etcdstore.DefaultGrace)
	if err != nil {
		return false, err
	}
	defer CloseRange(r)
	ctx, cancel := context.WithTimeout(ctx, OperationTimeout)
	defer cancel()
	created, err = r.Init(ctx)
	return created, etcdflags.Explained(err)
}

// checkNew refuses to make a range that would do harm.
func (s *Store) checkNew(ctx context.Context, name string, values rangekeeper.Range) error {
	if err := s.checkBitmaps(ctx, name); err != nil {
		return err
	}
	if err := s.checkFamily(ctx, name, values); err != nil {
		return err
	}
	if err := s.checkServices(ctx, name); err != nil {
		return fmt.Errorf("%s is missing: %w", s.Key(name), err)
	}
	return nil
}

// checkFamily refuses to make a range of ClusterIPs of the same IP family as the
// other one, if that is there: no kube-apiserver would start on the two.
func (s *Store) checkFamily(ctx context.Context, name string, values rangekeeper.Range) error {
	other, ok := map[string]string{
		clusterstate.ServiceIPs: clusterstate.SecondaryServiceIPs, clusterstate.SecondaryServiceIPs: clusterstate.ServiceIPs,
	}[name]
	if !ok {
		return nil
	}
	otherSpec, err := storedSpec(ctx, s.Client, s.Key(other))
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		return nil
	}
	if err != nil {
		return err
	}
	otherValues, err := rangekeeper.ParseCIDR(otherSpec)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Key(other), err)
	}
	if values.Excludes(otherValues) {
		return fmt.Errorf("%s %s: %s is %s, of the same IP family", name, values, other, otherSpec)
	}
	return nil
}

// checkServices refuses to make an empty range where Services are: their
// values would be handed out again.
func (s *Store) checkServices(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, OperationTimeout)
	defer cancel()
	keys := clusterstate.ServiceKeys(s.Prefix)
	got, err := s.Client.Get(ctx, keys, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return etcdflags.Explained(fmt.Errorf("read %s: %w", keys, err))
	}
	if got.Count > 0 {
		return fmt.Errorf("the number of Services below %s is %d: a kube-apiserver creates the range from them at its start", keys, got.Count)
	}
	return nil
}
