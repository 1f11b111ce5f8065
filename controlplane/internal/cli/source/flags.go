package source

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// AddWithAPI is Add for a command that can read the Kubernetes API as well.
func AddWithAPI(c *cobra.Command, linked Linked, run func(c *cobra.Command, args []string, s *Source) error) *Source {
	if c.Flags().Lookup("namespace") == nil {
		c.Flags().StringP("namespace", "n", "", "ignored: these objects have no namespace")
		c.Flags().BoolP("all-namespaces", "A", false, "without effect, as --namespace")
		usage.CompleteNothing(c, "namespace")
	}
	s := Add(c, run)
	s.Linked = linked
	s.addAPIFlags(c)
	return s
}

// Add adds the flags of a source to a command, opens the source for run and closes it.
func Add(c *cobra.Command, run func(c *cobra.Command, args []string, s *Source) error) *Source {
	s := new(Source)
	others := map[string]bool{} // flags of the command itself
	c.Flags().VisitAll(func(f *pflag.Flag) { others[f.Name] = true })
	s.addFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		s.remember(c, others)
		s.progress = newProgress(c.ErrOrStderr())
		defer s.Close()
		return s.connection.Named(run(c, args, s))
	}
	return s
}

// addAPIFlags adds the flags of a command that can read the Kubernetes API instead of etcd. They have the names of
// kubectl's and kube-apiserver's.
func (s *Source) addAPIFlags(c *cobra.Command) {
	s.kube = new(kubeconfig)
	s.kube.addFlags(c)
	f := c.Flags()
	f.StringVar(&s.sqlite, "sqlite", "", "read this SQLite database of kine, such as state.db in /var/lib/rancher/k3s/server/db")
	if s.Linked.ReadSQLite == nil {
		f.MarkHidden("sqlite")
		usage.AddRule(c, func([]string) error {
			if c.Flags().Changed("sqlite") {
				return usage.Error(c, "--sqlite is a flag of the program rangekeeper: the plugin of kubectl is built without SQLite")
			}
			return nil
		})
	}
	f.StringSliceVar(&s.services, "services-endpoints", nil, "with --endpoints: read Services and ranges from the etcd at these URLs, the ones of /services in --etcd-servers-overrides")
	usage.NotEmpty(c, "services-endpoints")
	usage.CompleteNothing(c, "services-endpoints")
	usage.AddRule(c, func([]string) error {
		if len(s.services) > 0 && !s.connection.Given() {
			return usage.Error(c, "--services-endpoints is for --endpoints, the etcd with the rest of the cluster")
		}
		return nil
	})
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
			if c.Flags().Changed(flag) && !(s.ForUpgrade && flag == "service-cluster-ip-range") {
				name = flag
			}
		}
		switch {
		case s.OverAPI() && s.mode == modeBitmap:
			return usage.Error(c, "--mode bitmap is for --etcd-snapshot, --endpoints and --sqlite: the Kubernetes API does not serve bitmaps")
		case s.OverAPI() && c.Flags().Changed("prefix"):
			return usage.Error(c, "--prefix is for --etcd-snapshot, --endpoints and --sqlite")
		case s.OverAPI() || name == "":
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
func (s *Source) checkRanges(c *cobra.Command) error {
	if s.nodePortRange != "" {
		if _, err := rangekeeper.ParsePortRange(s.nodePortRange); err != nil {
			return usage.Error(c, "--service-node-port-range: %v", err)
		}
	}
	cidrs := s.ClusterIPRanges()
	for _, text := range cidrs {
		if _, err := rangekeeper.ParseCIDR(text); err != nil {
			return usage.Error(c, "--service-cluster-ip-range: %v", err)
		}
	}
	if len(cidrs) > 2 || len(cidrs) == 2 && strings.Contains(cidrs[0], ":") == strings.Contains(cidrs[1], ":") {
		return usage.Error(c, "--service-cluster-ip-range is one CIDR, or one of each IP family, not %s", s.clusterIPRange)
	}
	return nil
}

// ClusterIPRanges returns those of --service-cluster-ip-range, nil without it.
func (s *Source) ClusterIPRanges() []string {
	if s.clusterIPRange == "" {
		return nil
	}
	return strings.Split(s.clusterIPRange, ",")
}

// addFlags adds the flags that all commands share; etcd's tools have them under
// the same names.
func (s *Source) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.snapshot, "etcd-snapshot", "", "read this etcd snapshot, plain or gzip-compressed; - for the standard input")
	f.BoolVar(&s.skipHashCheck, "skip-hash-check", false, "with --etcd-snapshot: read a file without a valid hash, such as a copy of member/snap/db")
	// A variable never takes the place of the cluster that kubectl works with.
	s.connection.Elsewhere = func() bool { return s.File() != "" || s.kube != nil && !c.Flags().Changed("endpoints") }
	s.connection.AddFlags(c, "read a running etcd at these URLs")
	etcdflags.AddPrefix(c, &s.prefix)
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
	c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{modeAuto, modeBitmap}, cobra.ShellCompDirectiveNoFileComp))
}
