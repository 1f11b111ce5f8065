package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/controller"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	// etcdWait is how long the controller waits for etcd when it starts, as kube-apiserver does; etcdPause is between
	// two attempts.
	etcdWait  = time.Minute
	etcdPause = time.Second
)

const (
	reconcileLease       = "lease"
	reconcileMasterCount = "master-count"
	reconcileNone        = "none"
)

// The values of --logging-format.
const (
	logText = "text"
	logJSON = "json"
)

// rangeNames are the values of --replace-range.
var rangeNames = append(slices.Clone(controller.ClusterIPRangeNames), clusterstate.ServiceNodePorts)

var reconcilerTypes = []string{reconcileLease, reconcileMasterCount, reconcileNone}

// addReconcilerType adds the flag, which kube-apiserver has under the same name.
func addReconcilerType(c *cobra.Command, value *string) {
	const name = "endpoint-reconciler-type"
	c.Flags().StringVar(value, name, reconcileLease, "how the endpoints are kept: lease, master-count or none")
	c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(reconcilerTypes, cobra.ShellCompDirectiveNoFileComp))
}

func unknownReconcilerType(c *cobra.Command, value string) error {
	return usage.Error(c, "--endpoint-reconciler-type is lease, master-count or none, not %q", value)
}

// controllerFlags have the names of kube-apiserver's, where it has them.
type controllerFlags struct {
	connection         etcdflags.Connection
	prefix             string
	kubeconfig         string
	advertiseAddress   string
	securePort         uint16
	clusterIPRange     string
	nodePortRange      string
	kubernetesNodePort uint16
	reconcilerType     string
	apiserverCount     uint32
	healthAddress      string
	logFormat          string
	replaceRanges      []string
	reconcilePorts     bool
	dryRun             bool
}

func newController() *cobra.Command {
	o := new(controllerFlags)
	c := &cobra.Command{
		Use:   "controller",
		Short: "Do the work of kube-apiserver's bootstrap controller",
		Long: `Keeps the system namespaces, the Service kubernetes and its endpoints, and repairs
the ranges of ClusterIPs and node ports every three minutes, beside an API server that
leaves that to others (--endpoint-reconciler-type=none). Flags have the names that
kube-apiserver has for the same. There is no leader: one runs beside each API server.

The ranges are those of the API servers' flags. A stored range that is another one is
kept, and a missing one is not created, if a Service needs it as it is: no API server
with the stored range could allocate from then on. The log and /healthz say so, and
all other work goes on. --replace-range NAME replaces it once. With the etcd of another
cluster than the API server's it writes nothing and ends. With an etcd that was restored
from a snapshot of the API server's it leaves the endpoints alone.

/healthz, /livez, /readyz, /metrics and /version are served at --healthz-bind-address,
and /debug/pprof if that is a loopback address. It is ready, for systemd too, once the
first repairs have succeeded. SIGTERM and SIGINT stop it in order: its address is taken
out of the endpoints.`,
		Example: `  rangekeeper controller --kubeconfig admin.conf \
    --endpoints https://127.0.0.1:2379 --cacert ca.crt \
    --cert client.crt --key client.key \
    --service-cluster-ip-range 10.96.0.0/12 \
    --service-node-port-range 30000-32767
  rangekeeper controller --kubeconfig admin.conf --dry-run \
    --endpoints http://127.0.0.1:2379 \
    --service-cluster-ip-range 10.96.0.0/12 \
    --service-node-port-range 30000-32767`,
		Args:              usage.Arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), c)
		},
	}
	o.connection.AddFlags(c, "etcd of the cluster: URLs")
	f := c.Flags()
	etcdflags.AddPrefix(c, &o.prefix)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how the API server is reached; without it as a Pod of the cluster")
	f.StringVar(&o.advertiseAddress, "advertise-address", "", "address of the API server in the endpoints (default: that of the interface with the default route, of the IP family of the first range)")
	f.Uint16Var(&o.securePort, "secure-port", 6443, "port of the API server")
	f.StringVar(&o.clusterIPRange, "service-cluster-ip-range", "", "range of ClusterIPs, or two of different IP families, separated by a comma")
	f.StringVar(&o.nodePortRange, "service-node-port-range", "", "range of node ports")
	f.Uint16Var(&o.kubernetesNodePort, "kubernetes-service-node-port", 0, "node port of the Service kubernetes; 0 for none")
	addReconcilerType(c, &o.reconcilerType)
	f.Uint32Var(&o.apiserverCount, "apiserver-count", 1, "with master-count: number of API servers, the same in the flags of all of them")
	f.StringVar(&o.healthAddress, "healthz-bind-address", "127.0.0.1:10288", "where health, metrics and version are served; empty for nowhere")
	f.StringVar(&o.logFormat, "logging-format", logText, "text or json")
	f.StringSliceVar(&o.replaceRanges, "replace-range", nil, "replace a stored range by the configured one, once, though Services need it: "+strings.Join(rangeNames, ", "))
	f.BoolVar(&o.reconcilePorts, "reconcile-ports", false, "set the ports of the Service kubernetes and of its endpoints to those of the flags, as after a change of --secure-port; all API servers must have the same")
	f.BoolVar(&o.dryRun, "dry-run", false, "log the writes and make none of them")
	usage.Required(c, "endpoints")
	usage.Required(c, "service-cluster-ip-range")
	usage.Required(c, "service-node-port-range")
	c.MarkFlagFilename("kubeconfig")
	usage.CompleteNothing(c, "advertise-address", "secure-port", "service-cluster-ip-range", "service-node-port-range",
		"kubernetes-service-node-port", "apiserver-count", "healthz-bind-address")
	c.RegisterFlagCompletionFunc("replace-range", cobra.FixedCompletions(rangeNames, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("logging-format", cobra.FixedCompletions([]string{logText, logJSON}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// config returns the configuration of the flags, without the clients.
func (o *controllerFlags) config(c *cobra.Command) (controller.Config, error) {
	for _, name := range o.replaceRanges {
		if !slices.Contains(rangeNames, name) {
			return controller.Config{}, usage.Error(c, "--replace-range is one of %s, not %q", strings.Join(rangeNames, ", "), name)
		}
	}
	config := controller.Config{DryRun: o.dryRun, ReplaceRanges: o.replaceRanges, Bootstrap: bootstrap.Config{
		AdvertiseAddress: o.advertiseAddress, SecurePort: o.securePort,
		KubernetesServiceNodePort: o.kubernetesNodePort, EtcdPrefix: o.prefix, Reconcile: o.reconcilePorts,
	}}
	var err error
	for text := range strings.SplitSeq(o.clusterIPRange, ",") {
		var values rangekeeper.Range
		if values, err = rangekeeper.ParseCIDR(text); err != nil {
			return config, usage.Error(c, "--service-cluster-ip-range: %v", err)
		}
		config.ClusterIPRanges = append(config.ClusterIPRanges, values)
	}
	if config.NodePortRange, err = rangekeeper.ParsePortRange(o.nodePortRange); err != nil {
		return config, usage.Error(c, "--service-node-port-range: %v", err)
	}
	switch o.reconcilerType {
	case reconcileLease:
		config.Bootstrap.Mode = bootstrap.Lease
	case reconcileMasterCount:
		config.Bootstrap.Mode = bootstrap.MasterCount(o.apiserverCount)
	case reconcileNone:
		config.Bootstrap.Mode = bootstrap.None
	default:
		return config, unknownReconcilerType(c, o.reconcilerType)
	}
	var handler slog.Handler
	switch o.logFormat {
	case logText:
		handler = slog.NewTextHandler(c.ErrOrStderr(), nil)
	case logJSON:
		handler = slog.NewJSONHandler(c.ErrOrStderr(), nil)
	default:
		return config, usage.Error(c, "--logging-format is text or json, not %q", o.logFormat)
	}
	config.Log = slog.New(handler)
	klog.SetSlogLogger(slog.New(clientLog{handler}))
	return config, nil
}

// sameClusterTimeout bounds the look at an etcd that was restored or replaced; another request leads to the next look.
const sameClusterTimeout = 10 * time.Second

func (o *controllerFlags) run(ctx context.Context, c *cobra.Command) error {
	config, err := o.config(c)
	if err != nil {
		return err
	}
	if err := config.Check(); err != nil {
		return usage.Error(c, "%v", err)
	}
	if o.advertiseAddress == "" {
		address, err := hostAddress(config.ClusterIPRanges[0])
		if err != nil {
			return fmt.Errorf("--advertise-address is needed: %w", err)
		}
		config.Bootstrap.AdvertiseAddress = address.String()
	}
	if config.API, err = apiConfig(o.kubeconfig); err != nil {
		return err
	}
	var running *controller.Controller
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	o.connection.Restored = func(read context.Context, what error) error {
		if running == nil {
			return what // it checks that when it begins
		}
		read, cancel := context.WithTimeout(read, sameClusterTimeout)
		defer cancel()
		err := running.CheckSameCluster(read)
		switch {
		case err == nil:
			config.Log.Error("etcd was restored or replaced; going on with it", "error", what)
		case errors.Is(err, clusterstate.ErrOtherCluster):
			end(fmt.Errorf("%w: %w", what, err))
		}
		return err
	}
	if config.Etcd, err = o.awaitEtcd(ctx, config.Log); err != nil {
		return err
	}
	defer config.Etcd.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	config.Metrics = registry
	// Without systemd neither does anything.
	config.Started = func() { daemon.SdNotify(false, daemon.SdNotifyReady) }
	defer context.AfterFunc(ctx, func() { daemon.SdNotify(false, daemon.SdNotifyStopping) })()
	if running, err = controller.New(config); err != nil {
		return err
	}
	if o.healthAddress != "" {
		listener, err := net.Listen("tcp", o.healthAddress)
		if err != nil {
			return fmt.Errorf("--healthz-bind-address: %w", err)
		}
		mux := health(running, registry)
		mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, cli.VersionLine(c)) })
		if address, ok := listener.Addr().(*net.TCPAddr); ok && address.IP.IsLoopback() {
			profile(mux)
		}
		server := newHealthServer(mux)
		go server.Serve(listener)
		defer server.Close()
		config.Log.Info("serving /healthz, /livez, /readyz, /metrics and /version", "address", listener.Addr().String())
	}
	err = running.Run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, clusterstate.ErrOtherCluster) {
		return cause
	}
	if errors.Is(err, bootstrap.ErrFatal) {
		return cli.ErrFound // it was logged
	}
	return err
}

// newHealthServer returns a server that keeps no connection open that nobody uses: each one is a file of the process.
func newHealthServer(handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	server.SetKeepAlivesEnabled(false)
	return server
}

// hostAddress returns the address of the interface with the default route, of the IP family of a range if there is one.
func hostAddress(of rangekeeper.Range) (net.IP, error) {
	any := net.IPv4zero
	if first, _ := of.ValueAt(0); first.Addr().Is6() {
		any = net.IPv6zero
	}
	return utilnet.ResolveBindAddress(any)
}

// awaitEtcd connects to etcd, which may start later than this program on the same machine: kube-apiserver waits for it,
// too.
func (o *controllerFlags) awaitEtcd(ctx context.Context, log *slog.Logger) (*clientv3.Client, error) {
	for began, isLogged := time.Now(), false; ; isLogged = true {
		client, err := o.connection.Connect(ctx)
		if !errors.Is(err, clusterstate.ErrUnreachable) || time.Since(began) > etcdWait {
			return client, err
		}
		if !isLogged {
			log.Warn("waiting for etcd", "error", err, "for", etcdWait)
		}
		select {
		case <-time.After(etcdPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func apiConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig is needed: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}
