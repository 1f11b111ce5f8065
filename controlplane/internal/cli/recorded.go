package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// leakAge is how long a value must be leaked: a Service that is being created has its value before it is written.
var leakAge = time.Minute

// awaitLeakAge waits for [leakAge], before a second look at a number of values to clear.
func awaitLeakAge(ctx context.Context, log io.Writer, values int) error {
	fmt.Fprintf(log, "rangekeeper: waiting %.0f s to look again at %s to clear: a request that creates a Service may be under way\n", leakAge.Seconds(), count(values, "value"))
	select {
	case <-time.After(leakAge):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted before anything is written: %w", ctx.Err())
	}
}

// freedSince returns those of the values that some version of a range, from the one that was written at a revision on, does not
// record: a new Service may have them. It reads each version.
func (s *store) freedSince(ctx context.Context, h *held, revision int64, name string, values []string) ([]string, error) {
	left := sets.New(values...)
	for now := h.stored; now.ModRevision != revision && left.Len() > 0; {
		version, err := s.versionBefore(ctx, now)
		if err != nil {
			return nil, err
		}
		if now = version; now.ModRevision < revision { // it did not exist for a moment, or etcd was restored
			return values, nil
		}
		if err := s.deleteFree(ctx, left, now, name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(values), left.Has), nil
}

// deleteFree deletes the values that a version of a range does not record.
func (s *store) deleteFree(ctx context.Context, values sets.Set[string], version clusterstate.StoredRange, name string) error {
	h, err := s.hold(ctx, &clusterstate.State{Ranges: map[string]clusterstate.StoredRange{name: version}}, nil, name)
	if err != nil {
		return err
	}
	defer h.object.Close()
	a, err := h.allocator(version.Key)
	if err != nil {
		return err
	}
	defer a.Close()
	return eachValue(rangeChanges{Name: name, Clear: values.UnsortedList()}, func(value rangekeeper.Value, text string, _ bool) error {
		if !a.Has(value) {
			values.Delete(text)
		}
		return nil
	})
}

// versionBefore returns the version of a range that was there before another; it is zero if there was none.
func (s *store) versionBefore(ctx context.Context, after clusterstate.StoredRange) (before clusterstate.StoredRange, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	got, err := s.client.Get(ctx, after.Key, clientv3.WithRev(after.ModRevision-1))
	if errors.Is(err, rpctypes.ErrCompacted) {
		return before, fmt.Errorf("%s: etcd no longer has the version before revision %d; run the command again: %w", after.Key, after.ModRevision, err)
	}
	if err != nil {
		return before, unreachable(fmt.Errorf("read %s: %w", after.Key, err))
	}
	for _, kv := range got.Kvs {
		before = clusterstate.StoredRange{Key: after.Key, Value: kv.Value, ModRevision: kv.ModRevision, CreateRevision: kv.CreateRevision, Version: kv.Version}
	}
	return before, nil
}
