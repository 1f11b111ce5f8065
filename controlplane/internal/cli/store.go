package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// bitmapNames are the ranges that a cluster can have as bitmaps.
var bitmapNames = []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs, clusterstate.ServiceNodePorts}

const (
	// operationTimeout is for one operation on a range; etcd answers in
	// milliseconds.
	operationTimeout = 10 * time.Second
	// closeTimeout is how long it may take to leave things in order.
	closeTimeout = 2 * time.Second
)

// store is where a command allocates: a running etcd or one in this process.
type store struct {
	connection etcdflags.Connection
	prefix     string
	log        io.Writer

	client *clientv3.Client
	local  LocalStore // nil if the program has none
}

// LocalStore is an etcd in this process, in which a command without --endpoints allocates.
type LocalStore interface {
	// Given reports whether the command line names it.
	Given() bool
	// Open starts it; mayCreate reports whether its data may be made.
	Open(ctx context.Context, mayCreate bool) (*clientv3.Client, error)
	// Close stops it, if it was started.
	Close()
}

func (p *Program) rangesHelp() string {
	return `RANGE is serviceips, secondaryserviceips or servicenodeports. It is kept in the etcd
at --endpoints` + p.StoreHelp + "."
}

// withStore returns a command that is about one RANGE its store: run is called with
// it, and it is closed.
func withStore(c *cobra.Command, p *Program, run func(c *cobra.Command, args []string, s *store) error) {
	s := new(store)
	s.connection.AddFlags(c, "use a running etcd at these URLs")
	c.Flags().StringVar(&s.prefix, "prefix", clusterstate.DefaultPrefix, "kube-apiserver's --etcd-prefix")
	if p.AddLocal != nil {
		s.local = p.AddLocal(c)
		s.connection.Elsewhere = s.local.Given
	} else {
		usage.Required(c, "endpoints")
	}
	usage.AddRule(c, func(args []string) error {
		if !slices.Contains(bitmapNames, args[0]) {
			return usage.Error(c, "unknown range %q: expected %s", args[0], strings.Join(bitmapNames, ", "))
		}
		return nil
	})
	usage.CompleteNothing(c, "prefix")
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return bitmapNames, cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		s.log = c.ErrOrStderr()
		defer s.close()
		return nameStore(&s.connection, run(c, args, s))
	}
}

// open connects to the running etcd or starts the one in this process, for which
// mayCreate reports whether its data may be made.
func (s *store) open(ctx context.Context, mayCreate bool) (err error) {
	if s.inProcess() {
		s.client, err = s.local.Open(ctx, mayCreate)
	} else {
		s.client, err = s.connection.Connect(ctx)
	}
	return err
}

// inProcess reports whether the etcd is the one in this process.
func (s *store) inProcess() bool { return s.local != nil && !s.connection.Given() }

func (s *store) close() {
	switch {
	case s.inProcess():
		s.local.Close()
	case s.client != nil:
		s.client.Close() // all that was asked for is answered
	}
}

func (s *store) key(name string) string { return clusterstate.RangeKey(s.prefix, name) }

// parseRange returns the function that reads the range of a name.
func parseRange(name string) func(string) (rangekeeper.Range, error) {
	if name == clusterstate.ServiceNodePorts {
		return rangekeeper.ParsePortRange
	}
	return rangekeeper.ParseCIDR
}

// stored returns the range of a name as it is stored.
func (s *store) stored(ctx context.Context, name string) (rangekeeper.Range, error) {
	values, err := storedRange(ctx, s.client, s.prefix, name)
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		err = s.missing(ctx, name)
	}
	return values, err
}

// missing returns the error about a range that is not stored.
func (s *store) missing(ctx context.Context, name string) error {
	if err := s.checkBitmaps(ctx, name); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w: run rangekeeper init %s SPEC first", s.key(name), rangekeeper.ErrNotInitialised, name)
}

// checkBitmaps refuses a range of ClusterIPs in a cluster that keeps them as IPAddress objects.
func (s *store) checkBitmaps(ctx context.Context, name string) error {
	if name == clusterstate.ServiceNodePorts {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	records, err := clusterstate.ReadClusterIPRecords(ctx, s.client, s.prefix)
	if err != nil {
		return unreachable(err)
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
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	got, err := client.Get(ctx, key)
	if err != nil {
		return "", nil, unreachable(fmt.Errorf("read %s: %w", key, err))
	}
	if len(got.Kvs) > 0 {
		if spec, data, err = decode(got.Kvs[0].Value); err != nil {
			return "", nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if spec == "" {
		return "", nil, fmt.Errorf("%s: %w", key, rangekeeper.ErrNotInitialised)
	}
	return spec, data, nil
}

// storedRange returns the range of a name as it is stored.
func storedRange(ctx context.Context, client *clientv3.Client, prefix, name string) (rangekeeper.Range, error) {
	key := clusterstate.RangeKey(prefix, name)
	spec, err := storedSpec(ctx, client, key)
	if err != nil {
		return rangekeeper.Range{}, err
	}
	values, err := parseRange(name)(spec)
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return values, err
}

// openRange opens the range of a name, stored or not.
func openRange(client *clientv3.Client, prefix, name string, values rangekeeper.Range, grace time.Duration) (*etcdstore.Store, error) {
	return etcdstore.Open(etcdstore.Config{
		Client: client, Key: clusterstate.RangeKey(prefix, name), Range: values, Strategy: rangekeeper.DynamicBandFirst,
		Services: clusterstate.ServiceKeys(prefix), Grace: grace,
	})
}

func closeRange(r *etcdstore.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return r.Close(ctx)
}

// decode returns the range and the bitmap of a stored object.
func decode(value []byte) (spec string, data []byte, err error) {
	object, err := rangekeeper.DecodeRangeAllocation(value)
	if err != nil {
		return "", nil, err
	}
	defer object.Close()
	if spec, err = object.Range(); err != nil {
		return "", nil, err
	}
	data, err = object.Data(nil)
	return spec, data, err
}

// refusedError: the store answers that it does not carry out a request.
type refusedError struct{ err error }

func (e *refusedError) Error() string {
	text := e.err.Error()
	if before, status, ok := strings.Cut(text, "rpc error: code = "); ok {
		_, message, _ := strings.Cut(status, " desc = ")
		text = before + message
	}
	if !errors.Is(e.err, rangekeeper.ErrRefused) {
		text = fmt.Sprintf("%v: %s", rangekeeper.ErrRefused, text)
	}
	if strings.Contains(text, "unsupported operations in txn request") {
		text += " (the store is kine, which accepts only the transactions of a kube-apiserver)"
	}
	return text + "; nothing of it was written"
}

func (e *refusedError) Unwrap() error { return e.err }

// nameStore puts the name of the store before an error about its refusal.
func nameStore(o *etcdflags.Connection, err error) error {
	if refused := (*refusedError)(nil); errors.As(err, &refused) && o.Given() {
		return &sourceError{o.String(), err}
	}
	return err
}

// unreachable marks an error that means that etcd did not answer, and explains an answer that refuses.
func unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err // it was not waited for
	}
	code := status.Code(err)
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) {
		code = e.Code()
	}
	if code == codes.InvalidArgument || code == codes.Unimplemented || errors.Is(err, rangekeeper.ErrRefused) {
		return &refusedError{err}
	}
	for _, silence := range []error{context.DeadlineExceeded, rangekeeper.ErrDeadlineExceeded, etcdstore.ErrUnknown} {
		if errors.Is(err, silence) {
			code = codes.Unavailable
		}
	}
	if code == codes.Unavailable || code == codes.DeadlineExceeded {
		return fmt.Errorf("%w: %w", clusterstate.ErrUnreachable, err)
	}
	return err
}
