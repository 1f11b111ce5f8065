// Package ranges is the etcd in which a command finds, creates and opens ranges.
package ranges

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

// Names are the ranges that a cluster can have as bitmaps.
var Names = []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs, clusterstate.ServiceNodePorts}

const (
	// OperationTimeout is for one operation on a range; etcd answers in
	// milliseconds.
	OperationTimeout = 10 * time.Second
	// closeTimeout is how long it may take to leave things in order.
	closeTimeout = 2 * time.Second
)

// Store is where a command allocates: a running etcd or one in this process.
type Store struct {
	Connection etcdflags.Connection
	// Prefix is that of all keys, kube-apiserver's --etcd-prefix.
	Prefix string
	// Log takes what is no result.
	Log io.Writer
	// Client is nil until the store is open.
	Client *clientv3.Client

	local Local // nil if the program has none
}

// Local is an etcd in this process, in which a command without --endpoints allocates. Its text is the directory of its
// data.
type Local interface {
	fmt.Stringer
	// Given reports whether the command line names it.
	Given() bool
	// Open starts it; mayCreate reports whether its data may be made.
	Open(ctx context.Context, mayCreate bool) (*clientv3.Client, error)
	// Close stops it, if it was started.
	Close()
}

// Add gives a command that is about one RANGE its store: run is called with it, and it is closed. addLocal adds
// the flags of a store in this process; nil if the program has none.
func Add(c *cobra.Command, addLocal func(c *cobra.Command) Local, run func(c *cobra.Command, args []string, s *Store) error) {
	s := new(Store)
	s.Connection.AddFlags(c, "use a running etcd at these URLs")
	etcdflags.AddPrefix(c, &s.Prefix)
	if addLocal != nil {
		s.local = addLocal(c)
		s.Connection.Elsewhere = s.local.Given
	} else {
		usage.Required(c, "endpoints")
	}
	usage.AddRule(c, func(args []string) error {
		if !slices.Contains(Names, args[0]) {
			return usage.Error(c, "unknown range %q: expected %s", args[0], strings.Join(Names, ", "))
		}
		return nil
	})
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Names, cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		s.Log = c.ErrOrStderr()
		defer s.Close()
		return s.Connection.Named(run(c, args, s))
	}
}

// Open connects to the running etcd or starts the one in this process, for which
// mayCreate reports whether its data may be made.
func (s *Store) Open(ctx context.Context, mayCreate bool) (err error) {
	if s.InProcess() {
		s.Client, err = s.local.Open(ctx, mayCreate)
	} else {
		s.Client, err = s.Connection.Connect(ctx)
	}
	return err
}

// String returns the addresses of the running etcd, or the directory of the one in this process.
func (s *Store) String() string {
	if s.InProcess() {
		return s.local.String()
	}
	return s.Connection.String()
}

// InProcess reports whether the etcd is the one in this process.
func (s *Store) InProcess() bool { return s.local != nil && !s.Connection.Given() }

// Close ends the connection, or stops the etcd in this process.
func (s *Store) Close() {
	switch {
	case s.InProcess():
		s.local.Close()
	case s.Client != nil:
		s.Client.Close() // all that was asked for is answered
	}
}

// Key returns the key of the range of a name.
func (s *Store) Key(name string) string { return clusterstate.RangeKey(s.Prefix, name) }
