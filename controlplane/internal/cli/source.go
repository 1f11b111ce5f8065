package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// source is where a command reads a cluster's state from.
type source struct {
	snapshot      string
	sqlite        string
	readSQLite    func(ctx context.Context, path string, o clusterstate.Options) (*clusterstate.State, error)
	skipHashCheck bool
	connection    etcdflags.Connection
	prefix        string
	mode          string
	// kube is nil for a command that needs etcd.
	kube *kubeconfig
	// The ranges that the servers have, which the Kubernetes API does not serve.
	clusterIPRange, nodePortRange string
	// forUpgrade reads what else an upgrade depends on.
	forUpgrade bool
	// flagsAnywhere takes --service-cluster-ip-range with every source.
	flagsAnywhere bool
	progress      *progress
	// program is the name that the user calls the program by, and given the flags of the source on the command line.
	program string
	given   []string

	client *clientv3.Client
	// isKine says that the state that was read is kine's.
	isKine bool
	// server is the URL of the API server that was read.
	server string
}

const (
	modeAuto   = "auto"
	modeBitmap = "bitmap"
)

// addAPIFlags adds the flags of a command that can read the Kubernetes API instead of etcd. They have the names of kubectl's and
// kube-apiserver's.
func (s *source) addAPIFlags(c *cobra.Command, p *Program) {
	s.kube = new(kubeconfig)
	s.kube.addFlags(c)
	f := c.Flags()
	s.readSQLite = p.ReadSQLite
	f.StringVar(&s.sqlite, "sqlite", "", "read this SQLite database of kine, such as state.db in /var/lib/rancher/k3s/server/db")
	if s.readSQLite == nil {
		f.MarkHidden("sqlite")
		usage.AddRule(c, func([]string) error {
			if c.Flags().Changed("sqlite") {
				return usage.Error(c, "--sqlite is a flag of the program rangekeeper: the plugin of kubectl is built without SQLite")
			}
			return nil
		})
	}
	usage.Exclusive(c, "sqlite", "etcd-snapshot")
	usage.Exclusive(c, "sqlite", "endpoints")
	usage.NotEmpty(c, "sqlite")
	c.MarkFlagFilename("sqlite")
	f.StringVar(&s.nodePortRange, "service-node-port-range", "", "over the Kubernetes API: range of node ports that the API servers have (default: "+audit.DefaultNodePortRange+" if the server's metrics count as many ports, else unknown)")
	f.StringVar(&s.clusterIPRange, "service-cluster-ip-range", "", "over the Kubernetes API of 1.32: range of ClusterIPs that the API servers have, or two, separated by a comma")
	usage.NotEmpty(c, "service-node-port-range")
	usage.NotEmpty(c, "service-cluster-ip-range")
	usage.AddRule(c, func([]string) error {
		name := s.kube.given(c)
		for _, flag := range []string{"service-node-port-range", "service-cluster-ip-range"} {
			if c.Flags().Changed(flag) && !(s.flagsAnywhere && flag == "service-cluster-ip-range") {
				name = flag
			}
		}
		switch {
		case s.overAPI() && s.mode == modeBitmap:
			return usage.Error(c, "--mode bitmap is for --etcd-snapshot, --endpoints and --sqlite: the Kubernetes API does not serve bitmaps")
		case s.overAPI() && c.Flags().Changed("prefix"):
			return usage.Error(c, "--prefix is for --etcd-snapshot, --endpoints and --sqlite")
		case s.overAPI() || name == "":
			return s.checkRanges(c)
		case s.connection.Given():
			return usage.Error(c, "--%s is for the Kubernetes API, and --endpoints names an etcd", name)
		case s.sqlite != "":
			return usage.Error(c, "--%s is for the Kubernetes API, and --sqlite names a file", name)
		default:
			return usage.Error(c, "--%s is for the Kubernetes API, and --etcd-snapshot names a file", name)
		}
	})
	usage.CompleteNothing(c, "service-node-port-range", "service-cluster-ip-range")
}

// checkRanges refuses ranges that cannot be parsed.
func (s *source) checkRanges(c *cobra.Command) error {
	if s.nodePortRange != "" {
		if _, err := rangekeeper.ParsePortRange(s.nodePortRange); err != nil {
			return usage.Error(c, "--service-node-port-range: %v", err)
		}
	}
	ranges := s.clusterIPRanges()
	for _, text := range ranges {
		if _, err := rangekeeper.ParseCIDR(text); err != nil {
			return usage.Error(c, "--service-cluster-ip-range: %v", err)
		}
	}
	if len(ranges) > 2 || len(ranges) == 2 && strings.Contains(ranges[0], ":") == strings.Contains(ranges[1], ":") {
		return usage.Error(c, "--service-cluster-ip-range is one CIDR, or one of each IP family, not %s", s.clusterIPRange)
	}
	return nil
}

func (s *source) clusterIPRanges() []string {
	if s.clusterIPRange == "" {
		return nil
	}
	return strings.Split(s.clusterIPRange, ",")
}

// addFlags adds the flags that all commands share; etcd's tools have them under
// the same names.
func (s *source) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.snapshot, "etcd-snapshot", "", "read this etcd snapshot, plain or gzip-compressed; - for the standard input")
	f.BoolVar(&s.skipHashCheck, "skip-hash-check", false, "with --etcd-snapshot: read a file without a valid hash, such as a copy of member/snap/db")
	// A variable never takes the place of the cluster that kubectl works with.
	s.connection.Elsewhere = func() bool { return s.file() != "" || s.kube != nil && !c.Flags().Changed("endpoints") }
	s.connection.AddFlags(c, "read a running etcd at these URLs")
	f.StringVar(&s.prefix, "prefix", clusterstate.DefaultPrefix, "kube-apiserver's --etcd-prefix")
	f.StringVar(&s.mode, "mode", modeAuto, "how ClusterIPs are recorded: auto (by ServiceCIDR objects if there are any) or bitmap")
	usage.Exclusive(c, "etcd-snapshot", "endpoints")
	usage.NotEmpty(c, "etcd-snapshot")
	usage.AddRule(c, func([]string) error {
		switch {
		case s.mode != modeAuto && s.mode != modeBitmap:
			return usage.Error(c, "--mode is auto or bitmap, not %q", s.mode)
		case s.skipHashCheck && s.snapshot == "":
			return usage.Error(c, "--skip-hash-check is for --etcd-snapshot")
		}
		return nil
	})
	c.MarkFlagFilename("etcd-snapshot")
	usage.CompleteNothing(c, "prefix")
	c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{modeAuto, modeBitmap}, cobra.ShellCompDirectiveNoFileComp))
}

// online reports whether a running cluster is read.
func (s *source) online() bool { return s.file() == "" }

// file returns the name of the file that is read, or "".
func (s *source) file() string { return s.snapshot + s.sqlite }

// overAPI reports whether the Kubernetes API is read.
func (s *source) overAPI() bool { return s.kube != nil && s.file() == "" && !s.connection.Given() }

// read returns the state as it is now; of an etcd as it was at the revision at, if that is not 0.
func (s *source) read(ctx context.Context, at int64) (*clusterstate.State, error) {
	state, err := s.readState(ctx, at)
	if err == nil {
		s.isKine = state.Kine
	}
	return state, err
}

func (s *source) readState(ctx context.Context, at int64) (*clusterstate.State, error) {
	o := clusterstate.Options{Prefix: s.prefix, SkipHashCheck: s.skipHashCheck, Upgrade: s.forUpgrade, Revision: at}
	if !s.online() {
		o.Progress = s.progress.start("reading " + s.file())
		defer s.progress.end()
		if s.sqlite != "" {
			return s.readSQLite(ctx, s.sqlite, o)
		}
		return clusterstate.ReadSnapshotFile(ctx, s.snapshot, o)
	}
	if s.overAPI() {
		state, err := s.readAPI(ctx)
		return state, s.explain(err)
	}
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	o.Progress = s.progress.start("reading etcd")
	defer s.progress.end()
	return clusterstate.ReadEtcd(ctx, client, o)
}

// apiGCPercent bounds the memory: annotations, of which the answers of a server can consist for the most part, are not kept.
const apiGCPercent = 25

func (s *source) readAPI(ctx context.Context) (*clusterstate.State, error) {
	config, err := s.kube.config()
	if err != nil {
		return nil, err
	}
	defer s.progress.end()
	defer debug.SetGCPercent(debug.SetGCPercent(apiGCPercent))
	s.server = config.Host
	state, err := clusterstate.ReadAPI(ctx, config, clusterstate.APIOptions{
		Unseen:   clusterstate.Unseen{ClusterIPRanges: s.clusterIPRanges(), NodePortRange: s.nodePortRange},
		Upgrade:  s.forUpgrade,
		Progress: s.progress.start("reading " + config.Host),
	})
	if err == nil && !s.flagsAnywhere {
		err = s.checkClusterIPRange(state)
	}
	return state, err
}

// checkClusterIPRange refuses a flag that contradicts the default ServiceCIDR, which has the servers' flag.
func (s *source) checkClusterIPRange(state *clusterstate.State) error {
	at := slices.IndexFunc(state.ServiceCIDRs, func(c networkingv1.ServiceCIDR) bool { return c.Name == clusterstate.DefaultServiceCIDR })
	ranges := s.clusterIPRanges()
	if at < 0 || len(ranges) == 0 {
		return nil
	}
	for i, text := range ranges {
		r, err := rangekeeper.ParseCIDR(text)
		if err != nil {
			return err
		}
		ranges[i] = r.String()
	}
	if stored := state.ServiceCIDRs[at].Spec.CIDRs; !slices.Equal(ranges, stored) {
		return fmt.Errorf("--service-cluster-ip-range is %s, and ServiceCIDR %s has %s", strings.Join(ranges, ","), clusterstate.DefaultServiceCIDR, strings.Join(stored, ","))
	}
	return nil
}

// The time between two looks at a leak is longer than the creation of a Service takes: kube-apiserver's --request-timeout is a
// minute. A stock server must have repaired its node ports, too, which it does every three minutes (pkg/registry/core/rest).
var probeWait, stockProbeWait = time.Minute, 200 * time.Second

// probe reads the state over the Kubernetes API and probes its node ports.
func (s *source) probe(ctx context.Context, namespace string) (*clusterstate.State, error) {
	config, err := s.kube.config()
	if err != nil {
		return nil, err
	}
	defer s.progress.end()
	state, err := clusterstate.ProbeNodePorts(ctx, config, func() (*clusterstate.State, error) { return s.readAPI(ctx) }, clusterstate.ProbeOptions{
		Range: audit.NodePortRange, Namespace: namespace, Wait: probeWait, StockWait: stockProbeWait, Progress: s.progress.start("probing node ports"),
		Log: func(text string) { fmt.Fprintf(s.progress.w, "rangekeeper: %s\n", text) },
	})
	return state, s.explain(err)
}

// connect returns the client of the running etcd, which is connected at the first call.
func (s *source) connect(ctx context.Context) (*clientv3.Client, error) {
	var err error
	if s.client == nil {
		s.client, err = s.connection.Connect(ctx)
	}
	return s.client, err
}

// auditOptions are those for a state that was just read.
func (s *source) auditOptions(state *clusterstate.State) audit.Options {
	o := audit.Options{Source: s.about(state), Bitmap: s.mode == modeBitmap}
	if s.online() {
		o.Now = time.Now()
	}
	return o
}

// audit reads the state and audits it.
func (s *source) audit(ctx context.Context) (*audit.Audit, error) {
	a, err := s.auditOf(s.read(ctx, 0))
	if err == nil && len(a.Report().Unreadable) > 0 {
		fmt.Fprintf(s.progress.w, "rangekeeper: %s cannot be read; rangekeeper audit lists what is uncertain\n", count(len(a.Report().Unreadable), "object"))
	}
	return a, err
}

// auditOf audits a state that was just read.
func (s *source) auditOf(state *clusterstate.State, err error) (*audit.Audit, error) {
	if err != nil {
		return nil, err
	}
	return s.auditWith(state, s.auditOptions(state))
}

// auditWith audits a state with options of its own.
func (s *source) auditWith(state *clusterstate.State, o audit.Options) (*audit.Audit, error) {
	a, err := audit.New(state, o)
	return a, s.explain(err)
}

// explain puts the name of the source before an error about its content.
func (s *source) explain(err error) error {
	if err == nil || s.name() == "" { // no API server was found
		return err
	}
	return &sourceError{s.name(), err}
}

// name is what a user knows the source by.
func (s *source) name() string {
	switch {
	case s.overAPI():
		return s.server
	case s.online():
		return s.connection.String()
	case s.snapshot == snapshotfile.Stdin:
		return "standard input"
	default:
		return s.file()
	}
}

// The types of sources, as documents have them.
const (
	kindAPI      = "kubernetesAPI"
	kindKine     = "kineDatabase"
	kindEtcd     = "etcd"
	kindSnapshot = "etcdSnapshot"
)

// kind is the type of the source.
func (s *source) kind() string {
	switch {
	case s.overAPI():
		return kindAPI
	case s.sqlite != "":
		return kindKine
	case s.online():
		return kindEtcd
	default:
		return kindSnapshot
	}
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
