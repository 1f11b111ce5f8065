package ranges

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// ErrNotReadable says that the stored object of a range is damaged, or in a form that only an API server reads.
var ErrNotReadable = errors.New("the stored range cannot be read (rangekeeper audit says whether an API server reads it)")

// Required returns the range of a name as it is stored, and says what to do if it is not.
func (s *Store) Required(ctx context.Context, name string) (rangekeeper.Range, error) {
	values, err := s.Stored(ctx, name)
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		err = s.Missing(ctx, name)
	}
	return values, err
}

// Missing returns the error about a range that is not stored.
func (s *Store) Missing(ctx context.Context, name string) error {
	if err := s.checkBitmaps(ctx, name); err != nil {
		return err
	}
	next := fmt.Sprintf("run rangekeeper init %s SPEC first", name)
	if err := s.checkServices(ctx, name); err != nil {
		next = err.Error()
	}
	return fmt.Errorf("%s: %w: %s", s.Key(name), rangekeeper.ErrNotInitialised, next)
}

// checkBitmaps refuses a range of ClusterIPs in a cluster that keeps them as IPAddress objects.
func (s *Store) checkBitmaps(ctx context.Context, name string) error {
	if name == clusterstate.ServiceNodePorts {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, OperationTimeout)
	defer cancel()
	records, err := clusterstate.ReadClusterIPRecords(ctx, s.Client, s.Prefix)
	if err != nil {
		return etcdflags.Explained(err)
	}
	if !records.HasObjects() {
		return nil
	}
	return fmt.Errorf("%s: this cluster has no bitmap of ClusterIPs: each one is an IPAddress object, which kube-apiserver creates and deletes with its Service. "+
		"rangekeeper audit and rangekeeper show %s read them; allocate, release and watch work on %s", name, clusterstate.DefaultServiceCIDR, clusterstate.ServiceNodePorts)
}

// storedSpec returns the range that is stored under a key, as text.
func storedSpec(ctx context.Context, client *clientv3.Client, key string) (string, error) {
	spec, _, err := readRange(ctx, client, key)
	return spec, err
}

// readRange returns the range and the bitmap that are stored under a key.
func readRange(ctx context.Context, client *clientv3.Client, key string) (spec string, data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, OperationTimeout)
	defer cancel()
	got, err := client.Get(ctx, key)
	if err != nil {
		return "", nil, etcdflags.Explained(fmt.Errorf("read %s: %w", key, err))
	}
	if len(got.Kvs) > 0 {
		if spec, data, err = clusterstate.DecodeRange(got.Kvs[0].Value); err != nil {
			return "", nil, fmt.Errorf("%s: %w: %w", key, ErrNotReadable, err)
		}
	}
	if spec == "" {
		return "", nil, fmt.Errorf("%s: %w", key, rangekeeper.ErrNotInitialised)
	}
	return spec, data, nil
}

// Stored returns the range of a name as it is stored.
func (s *Store) Stored(ctx context.Context, name string) (rangekeeper.Range, error) {
	key := s.Key(name)
	spec, err := storedSpec(ctx, s.Client, key)
	if err != nil {
		return rangekeeper.Range{}, err
	}
	values, err := clusterstate.ParseRange(name)(spec)
	if err != nil {
		err = fmt.Errorf("%s: %w: %w", key, ErrNotReadable, err)
	}
	return values, err
}

// OpenRange opens the range of a name, stored or not.
func (s *Store) OpenRange(name string, values rangekeeper.Range, grace time.Duration) (*etcdstore.Store, error) {
	return etcdstore.Open(etcdstore.Config{
		Client: s.Client, Key: s.Key(name), Range: values, Strategy: rangekeeper.DynamicBandFirst,
		Services: clusterstate.ServiceKeys(s.Prefix), Grace: grace,
	})
}

// CloseRange closes a range, and waits for what is under way for a moment.
func CloseRange(r *etcdstore.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return r.Close(ctx)
}
