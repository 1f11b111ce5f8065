package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/localcluster"
	"github.com/rangekeeper/rangekeeper/controlplane/releases"
)

// upVersions are the releases of Kubernetes that there is a server of, the default first.
var upVersions = releases.All()

// upServer is the name of a server's program, without the release at its end.
const upServer = "kube-apiserver-rangekeeper-"

type upFlags struct {
	cluster           localcluster.Config
	kubernetesVersion string
}

func newUp() *cobra.Command {
	o := new(upFlags)
	c := &cobra.Command{
		Use:                   "up [flags] [-- KUBE-APISERVER-FLAG...]",
		DisableFlagsInUseLine: true, // it would put the flags at the end

		Short: "Run an etcd and API servers with Rangekeeper inside, on loopback",
		Long: `Runs an etcd in this process and one to three kube-apiservers on it that allocate
with Rangekeeper, until it is interrupted; then it stops them in order. A second
interrupt ends all at once. There are no nodes and no controllers besides: Services
get their ClusterIPs and node ports, and no Pod runs.

The cluster is kept in --data-dir, with its certificates, a kubeconfig and the logs of
the servers; the next run goes on with it. Of several servers one that ends is started
again. A range that is not given is the one of the
last run. The servers listen on 127.0.0.1, 127.0.0.2 and 127.0.0.3, all at the same
port. In the endpoints of the Service kubernetes they have addresses of a block for
documentation, as loopback is not allowed there. The etcd asks for no password:
every user of this machine can read and write it.

Flags after -- go to every kube-apiserver, in place of flags of the same name that it
gets anyway.`,
		Example: `  rangekeeper up
  rangekeeper up --servers 3 \
    --service-cluster-ip-range 10.96.0.0/16,fd00:10:96::/112
  rangekeeper up --kubernetes-version ` + upVersions[len(upVersions)-1] + ` \
    --data-dir ./cluster -- --v=4`,
		Args: func(c *cobra.Command, args []string) error {
			before := args // those that are no flags of kube-apiserver
			if at := c.ArgsLenAtDash(); at >= 0 {
				before = args[:at]
			}
			if len(before) > 0 {
				return usage.Unexpected(c, before[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			o.cluster.Flags = args
			return o.run(c.Context(), c)
		},
	}
	f := c.Flags()
	f.StringVar(&o.kubernetesVersion, "kubernetes-version", upVersions[0], "release of the servers, one of "+strings.Join(upVersions, ", "))
	f.StringVar(&o.cluster.Program, "kube-apiserver", "", "program of the servers (default: beside this one, "+upServer+"VERSION)")
	f.StringVar(&o.cluster.Dir, "data-dir", "", "directory of the cluster (default: rangekeeper below $XDG_STATE_HOME or ~/.local/state)")
	f.IntVar(&o.cluster.Servers, "servers", 1, fmt.Sprintf("number of kube-apiservers, 1 to %d", localcluster.MaxServers))
	f.StringVar(&o.cluster.ServiceClusterIPRange, "service-cluster-ip-range", "", "range of ClusterIPs, or two of different IP families, separated by a comma (default: that of the last run, or "+localcluster.DefaultServiceClusterIPRange+")")
	f.StringVar(&o.cluster.ServiceNodePortRange, "service-node-port-range", "", "range of node ports (default: that of the last run, or "+localcluster.DefaultServiceNodePortRange+")")
	addReconcilerType(c, &o.cluster.EndpointReconcilerType)
	f.Uint16Var(&o.cluster.SecurePort, "secure-port", 6443, "port of the servers")
	f.Uint16Var(&o.cluster.EtcdPort, "etcd-port", 2379, "port of etcd on 127.0.0.1; 0 for a free one")
	usage.Exclusive(c, "kubernetes-version", "kube-apiserver")
	usage.NotEmpty(c, "data-dir")
	c.MarkFlagDirname("data-dir")
	c.MarkFlagFilename("kube-apiserver")
	usage.CompleteNothing(c, "servers", "service-cluster-ip-range", "service-node-port-range", "secure-port", "etcd-port")
	c.RegisterFlagCompletionFunc("kubernetes-version", cobra.FixedCompletions(upVersions, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (o *upFlags) check(c *cobra.Command) error {
	config := &o.cluster
	switch {
	case !slices.Contains(upVersions, o.kubernetesVersion):
		return usage.Error(c, "--kubernetes-version is one of %s, not %q", strings.Join(upVersions, ", "), o.kubernetesVersion)
	case config.Servers < 1 || config.Servers > localcluster.MaxServers:
		return usage.Error(c, "--servers is 1 to %d, not %d", localcluster.MaxServers, config.Servers)
	case config.SecurePort == 0:
		return usage.Error(c, "--secure-port is 1 to 65535, not 0")
	case !slices.Contains(reconcilerTypes, config.EndpointReconcilerType):
		return unknownReconcilerType(c, config.EndpointReconcilerType)
	}
	if config.Dir == "" {
		state, err := xdgDir("XDG_STATE_HOME", ".local", "state")
		if err != nil {
			return fmt.Errorf("--data-dir is needed: %w", err)
		}
		config.Dir = filepath.Join(state, "rangekeeper")
	}
	hint := ""
	if config.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("--kube-apiserver is needed: %w", err)
		}
		config.Program = filepath.Join(filepath.Dir(self), upServer+o.kubernetesVersion)
		hint = fmt.Sprintf(": `kube-apiserver/dropin.sh %s` builds it in a checkout, as no release has one; or name another one with --kube-apiserver", o.kubernetesVersion)
	}
	if _, err := os.Stat(config.Program); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w%s", err, hint)
	}
	return nil // other faults of the program show at its start
}

func (o *upFlags) run(ctx context.Context, c *cobra.Command) error {
	if err := o.check(c); err != nil {
		return err
	}
	stderr := c.ErrOrStderr()
	o.cluster.Progress = func(line string) { fmt.Fprintf(stderr, "rangekeeper: %s\n", line) }
	cluster, err := localcluster.Start(ctx, o.cluster)
	if taken := (*localcluster.PortTakenError)(nil); errors.As(err, &taken) {
		flag := "--secure-port"
		if taken.For == localcluster.Etcd {
			flag = "--etcd-port"
		}
		return fmt.Errorf("%s: %w", flag, err)
	}
	if err != nil {
		return err
	}
	err = o.printNext(c.OutOrStdout(), cluster)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-cluster.Failed():
			o.cluster.Progress("a server does not run any more, so all are stopped")
		}
	}
	return errors.Join(err, cluster.Stop())
}

// printNext lists useful commands for a running cluster.
func (o *upFlags) printNext(w io.Writer, cluster *localcluster.Cluster) error {
	kubectl := "  kubectl --kubeconfig " + shellWord(cluster.Kubeconfig())
	lines := []string{
		"", "The control plane is ready. Commands to try:", "",
		kubectl + " create service clusterip demo --tcp=80",
		kubectl + " get services",
	}
	for _, name := range cluster.Contexts()[1:] { // without it, it is the first one
		lines = append(lines, kubectl+" --context "+name+" get services")
	}
	lines = append(lines,
		"  "+shellWord(os.Args[0])+" audit --endpoints "+strings.Join(cluster.EtcdEndpoints(), ","),
		"", "Ctrl-C stops it, and the next run goes on with it.", "")
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// shellWord quotes a text for a shell where it has to be.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+", r)
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
