// Package source is where a command reads a cluster's state from: a snapshot, a database of kine, a running etcd or the
// Kubernetes API, with the flags that name it, its audit, and the commands that come next.
package source

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Linked is what only some programs link. A part that is nil is missing.
type Linked struct {
	// ReadSQLite is [clusterstate.ReadSQLite], which links SQLite.
	ReadSQLite func(ctx context.Context, path string, o clusterstate.Options) (*clusterstate.State, error)
	// Judge is [rangekeeper.BootstrapPlan], which links the bootstrap controller, and WriteKey that of package
	// bootstrap, which writes what its judgement repairs.
	Judge    audit.Judge
	WriteKey func(ctx context.Context, client *clientv3.Client, key string, value []byte, modRevision int64, conditions ...clientv3.Cmp) (written bool, err error)
}

// Source is where a command reads a cluster's state from.
type Source struct {
	// ForUpgrade reads what else an upgrade depends on, and takes --service-cluster-ip-range with every source, to
	// compare it.
	ForUpgrade bool
	// ForServers reads what API servers keep, too.
	ForServers bool
	// Program is the name that the user calls the program by.
	Program string
	// Linked is what the program links.
	Linked Linked
	// Client is that of the running etcd, nil until it is connected.
	Client *clientv3.Client

	snapshot      string
	sqlite        string
	skipHashCheck bool
	connection    etcdflags.Connection
	prefix        string
	mode          string
	// services are the URLs of the etcd of Services, if that is another one, and servicesClient its client.
	services       []string
	servicesClient *clientv3.Client
	// kube is nil for a command that needs etcd.
	kube *kubeconfig
	// The ranges that the servers have, which the Kubernetes API does not serve.
	clusterIPRange, nodePortRange string
	// given are the flags of the source on the command line.
	given    []string
	progress *progress

	// isKine says that the state that was read is kine's.
	isKine bool
	// server is the URL of the API server that was read.
	server string
}

const (
	modeAuto   = "auto"
	modeBitmap = "bitmap"
)

// Online reports whether a running cluster is read.
func (s *Source) Online() bool { return s.File() == "" }

// File returns the name of the file that is read, or "".
func (s *Source) File() string { return s.snapshot + s.sqlite }

// OverAPI reports whether the Kubernetes API is read.
func (s *Source) OverAPI() bool { return s.kube != nil && s.File() == "" && !s.connection.Given() }

// Read returns the state as it is now; of an etcd as it was at the revision at, if that is not 0.
func (s *Source) Read(ctx context.Context, at int64) (*clusterstate.State, error) {
	state, err := s.readState(ctx, at)
	if err == nil {
		s.isKine = state.Kine
		err = s.Explain(s.checkMode(state))
	}
	return state, err
}

// checkMode refuses --mode bitmap where no bitmap of ClusterIPs is stored but ServiceCIDR objects are: no API server
// sets a bitmap up there.
func (s *Source) checkMode(state *clusterstate.State) error {
	_, hasBitmap := state.Ranges[clusterstate.ServiceIPs]
	if s.mode != modeBitmap || hasBitmap || len(state.ServiceCIDRs) == 0 {
		return nil
	}
	return errors.New("--mode bitmap: this cluster has no bitmap of ClusterIPs; its API servers record them as IPAddress objects, so leave out --mode")
}

func (s *Source) readState(ctx context.Context, at int64) (*clusterstate.State, error) {
	o := clusterstate.Options{Prefix: s.prefix, SkipHashCheck: s.skipHashCheck, Upgrade: s.ForUpgrade, Bootstrap: s.ForServers, Revision: at}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	if !s.Online() {
		o.Progress = s.progress.start("reading " + s.File())
		defer s.progress.end()
		if s.sqlite != "" {
			return s.Linked.ReadSQLite(ctx, s.sqlite, o)
		}
		return clusterstate.ReadSnapshotFile(ctx, s.snapshot, o)
	}
	if s.OverAPI() {
		state, err := s.readAPI(ctx)
		return state, s.Explain(err)
	}
	o.Progress = s.progress.start("reading etcd")
	defer s.progress.end()
	client, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if len(s.services) == 0 {
		return clusterstate.ReadEtcd(ctx, client, o)
	}
	if s.servicesClient == nil {
		if s.servicesClient, err = s.connection.ConnectTo(ctx, s.services); err != nil {
			return nil, err
		}
	}
	return clusterstate.ReadEtcds(ctx, client, s.servicesClient, o)
}

// gcPercent bounds the memory of a read and of an audit: little of what is read is kept, and that is flat, so that the
// collector has nearly no work.
const gcPercent = 60

func (s *Source) readAPI(ctx context.Context) (*clusterstate.State, error) {
	config, err := s.kube.config()
	if err != nil {
		return nil, err
	}
	report := s.progress.start("reading " + config.Host)
	defer s.progress.end()
	s.server = config.Host
	state, err := clusterstate.ReadAPI(ctx, config, clusterstate.APIOptions{
		Unseen:  clusterstate.Unseen{ClusterIPRanges: s.ClusterIPRanges(), NodePortRange: s.nodePortRange},
		Upgrade: s.ForUpgrade, Bootstrap: s.ForServers,
		Progress: report,
	})
	if err == nil && !s.ForUpgrade {
		err = s.checkClusterIPRange(state)
	}
	return state, err
}

// checkClusterIPRange refuses a flag that contradicts the default ServiceCIDR, which has the servers' flag.
func (s *Source) checkClusterIPRange(state *clusterstate.State) error {
	at := slices.IndexFunc(state.ServiceCIDRs, func(c networkingv1.ServiceCIDR) bool { return c.Name == clusterstate.DefaultServiceCIDR })
	cidrs := s.ClusterIPRanges()
	if at < 0 || len(cidrs) == 0 {
		return nil
	}
	for i, text := range cidrs {
		r, err := rangekeeper.ParseCIDR(text)
		if err != nil {
			return err
		}
		cidrs[i] = r.String()
	}
	if stored := state.ServiceCIDRs[at].Spec.CIDRs; !slices.Equal(cidrs, stored) {
		return fmt.Errorf("--service-cluster-ip-range is %s, and ServiceCIDR %s has %s", strings.Join(cidrs, ","), clusterstate.DefaultServiceCIDR, strings.Join(stored, ","))
	}
	return nil
}

// ProbeWait is the time between two looks at a leak. It is longer than the creation of a Service takes:
// kube-apiserver's --request-timeout is a minute. In StockProbeWait a stock server has repaired its node ports, too,
// which it does every three minutes (pkg/registry/core/rest).
var ProbeWait, StockProbeWait = time.Minute, 200 * time.Second

// Probe reads the state over the Kubernetes API and probes its node ports.
func (s *Source) Probe(ctx context.Context, namespace string) (*clusterstate.State, error) {
	config, err := s.kube.config()
	if err != nil {
		return nil, err
	}
	defer s.progress.end()
	state, err := clusterstate.ProbeNodePorts(ctx, config, func() (*clusterstate.State, error) { return s.readAPI(ctx) }, clusterstate.ProbeOptions{
		Range: audit.NodePortRange, Namespace: namespace, Wait: ProbeWait, StockWait: StockProbeWait, Progress: s.progress.start("probing node ports"),
		Log: func(text string) { s.progress.say("%s", text) },
	})
	return state, s.Explain(err)
}

// Follow has the source go on with an etcd that is restored between two reads. A read meanwhile fails.
func (s *Source) Follow() { s.connection.Restored = func(context.Context, error) error { return nil } }

// connect returns the client of the running etcd, which is connected at the first call.
func (s *Source) connect(ctx context.Context) (*clientv3.Client, error) {
	var err error
	if s.Client == nil {
		s.Client, err = s.connection.Connect(ctx)
	}
	return s.Client, err
}

// AuditOptions are those for a state that was just read.
func (s *Source) AuditOptions(state *clusterstate.State) audit.Options {
	o := audit.Options{Source: s.about(state), Bitmap: s.mode == modeBitmap, Judge: s.Linked.Judge}
	if s.Online() {
		o.Now = time.Now()
	}
	return o
}

// Audit reads the state and audits it.
func (s *Source) Audit(ctx context.Context) (*audit.Audit, error) {
	a, err := s.AuditOf(s.Read(ctx, 0))
	if err == nil && len(a.Report().Unreadable) > 0 {
		s.progress.say("%s cannot be read; rangekeeper audit lists what is uncertain", screen.Count(len(a.Report().Unreadable), "object"))
	}
	return a, err
}

// AuditOf audits a state that was just read.
func (s *Source) AuditOf(state *clusterstate.State, err error) (*audit.Audit, error) {
	if err != nil {
		return nil, err
	}
	return s.AuditWith(state, s.AuditOptions(state))
}

// AuditWith audits a state with options of its own.
func (s *Source) AuditWith(state *clusterstate.State, o audit.Options) (*audit.Audit, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	s.progress.start("auditing")
	defer s.progress.end()
	a, err := audit.New(state, o)
	return a, s.Explain(err)
}

// Explain puts the name of the source before an error about its content.
func (s *Source) Explain(err error) error {
	if err == nil || s.name() == "" { // no API server was found
		return err
	}
	return fmt.Errorf("%s: %w", s.name(), err)
}

// name is what a user knows the source by.
func (s *Source) name() string {
	switch {
	case s.OverAPI():
		return s.server
	case s.Online():
		return s.connection.String()
	case s.snapshot == snapshotfile.Stdin:
		return "standard input"
	default:
		return s.File()
	}
}

// Kind is the type of the source.
func (s *Source) Kind() string {
	switch {
	case s.OverAPI():
		return audit.FromAPI
	case s.sqlite != "":
		return audit.FromKine
	case s.Online():
		return audit.FromEtcd
	default:
		return audit.FromSnapshot
	}
}

// Close ends the connection, if there is one.
func (s *Source) Close() {
	for _, client := range []*clientv3.Client{s.Client, s.servicesClient} {
		if client != nil {
			client.Close() // nothing was written that this could lose
		}
	}
}

// completionTimeout is how long someone who pressed the tab key may have to wait.
const completionTimeout = 3 * time.Second

// Quietly does something with the state of the source, if one was given and can be read in time.
func (s *Source) Quietly(ctx context.Context, do func(*clusterstate.State)) {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	s.progress, s.ForServers = nil, false
	defer s.Close()
	if state, err := s.Read(ctx, 0); err == nil {
		do(state)
	}
}
