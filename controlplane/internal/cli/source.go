package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// source is where a command reads a cluster's state from.
type source struct {
	snapshot      string
	skipHashCheck bool
	connection    connection
	prefix        string
	mode          string
	progress      *progress

	client *clientv3.Client
}

const (
	modeAuto   = "auto"
	modeBitmap = "bitmap"
)

// addFlags adds the flags that all commands share; etcd's tools have them under
// the same names.
func (s *source) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.snapshot, "etcd-snapshot", "", "read this etcd snapshot, plain or gzip-compressed")
	f.BoolVar(&s.skipHashCheck, "skip-hash-check", false, "with --etcd-snapshot: read a file without a valid hash, such as a copy of member/snap/db")
	s.connection.addFlags(c, "read a running etcd at these URLs")
	f.StringVar(&s.prefix, "prefix", clusterstate.DefaultPrefix, "kube-apiserver's --etcd-prefix")
	f.StringVar(&s.mode, "mode", modeAuto, "how ClusterIPs are recorded: auto (by ServiceCIDR objects if there are any) or bitmap")
	exclusive(c, "etcd-snapshot", "endpoints")
	oneOf(c, "etcd-snapshot", "endpoints")
	notEmpty(c, "etcd-snapshot")
	addRule(c, func([]string) error {
		switch {
		case s.mode != modeAuto && s.mode != modeBitmap:
			return usageError(c, "--mode is auto or bitmap, not %q", s.mode)
		case s.skipHashCheck && s.online():
			return usageError(c, "--skip-hash-check is for --etcd-snapshot")
		}
		return nil
	})
	c.MarkFlagFilename("etcd-snapshot")
	completeNothing(c, "prefix")
	c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{modeAuto, modeBitmap}, cobra.ShellCompDirectiveNoFileComp))
}

// online reports whether a running etcd is read.
func (s *source) online() bool { return s.snapshot == "" }

// read returns the state as it is now.
func (s *source) read(ctx context.Context) (*clusterstate.State, error) {
	o := clusterstate.Options{Prefix: s.prefix, SkipHashCheck: s.skipHashCheck}
	if !s.online() {
		o.Progress = s.progress.start("reading " + s.snapshot)
		defer s.progress.end()
		return clusterstate.ReadSnapshotFile(ctx, s.snapshot, o)
	}
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	o.Progress = s.progress.start("reading etcd")
	defer s.progress.end()
	return clusterstate.ReadEtcd(ctx, client, o)
}

// connect returns the client of the running etcd, which is connected at the first call.
func (s *source) connect(ctx context.Context) (*clientv3.Client, error) {
	var err error
	if s.client == nil {
		s.client, err = s.connection.connect(ctx)
	}
	return s.client, err
}

// auditOptions are those for a state that was just read.
func (s *source) auditOptions() audit.Options {
	o := audit.Options{Bitmap: s.mode == modeBitmap}
	if s.online() {
		o.Now = time.Now()
	}
	return o
}

// audit reads the state and audits it.
func (s *source) audit(ctx context.Context) (*audit.Audit, error) {
	state, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	a, err := audit.New(state, s.auditOptions())
	return a, s.explain(err)
}

// explain puts the name of the source before an error about its content.
func (s *source) explain(err error) error {
	if err == nil {
		return nil
	}
	name := s.snapshot
	if s.online() {
		name = s.connection.String()
	}
	return &sourceError{name, err}
}

type sourceError struct {
	source string
	err    error
}

func (e *sourceError) Error() string { return e.source + ": " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// close ends the connection, if there is one.
func (s *source) close() {
	if s.client != nil {
		s.client.Close() // nothing was written that this could lose
	}
}
