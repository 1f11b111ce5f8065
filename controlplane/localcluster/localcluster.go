// Package localcluster runs the control plane of a small cluster on loopback: an etcd
// in the process, and one to three kube-apiservers as children on it.
package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// MaxServers is the largest number of API servers in a cluster.
const MaxServers = 3

// compactTimeout is how long the last compaction of etcd may take.
const compactTimeout = 2 * time.Second

// watchGrace lets a server end the watches of its clients when it stops. Without it a
// `kubectl get --watch` that runs on would hold it up for a minute.
const watchGrace = 5 * time.Second

// masterCount is the reconciler type that has to know how many servers there are.
const masterCount = "master-count"

// ErrServer: an API server has ended by itself, or did not get ready.
var ErrServer = errors.New("an API server failed")

// The programs that a [PortTakenError] can be about.
const (
	Etcd      = "etcd"
	APIServer = "kube-apiserver"
)

// PortTakenError: another program listens at an address.
type PortTakenError struct {
	// For is the user of the address, [Etcd] or [APIServer].
	For     string
	Address string
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("the address %s, for %s, is taken by another program", e.Address, e.For)
}

// Config says how [Start] runs a cluster.
type Config struct {
	// Dir keeps the cluster between runs; it is made if it does not exist.
	Dir string
	// Program is the kube-apiserver.
	Program string
	// Servers is the number of API servers, 1 to [MaxServers].
	Servers int
	// ServiceClusterIPRange is one CIDR, or two of different IP families with a comma;
	// empty for the range of the cluster's last run, or else the default. The same for
	// ServiceNodePortRange.
	ServiceClusterIPRange, ServiceNodePortRange string
	// EndpointReconcilerType says how the servers keep the endpoints of the Service
	// kubernetes: as kube-apiserver's flag does.
	EndpointReconcilerType string
	// EtcdPort is where etcd serves on 127.0.0.1; 0 for a free port.
	EtcdPort uint16
	// SecurePort is where the servers serve, each at an address of its own, 127.0.0.1 and up.
	SecurePort uint16
	// Flags are further flags of all servers. They take the place of those of the same name.
	Flags []string
	// Progress, if set, is called with a line about each step.
	Progress func(line string)
}

// Cluster is a running cluster. It must be stopped.
type Cluster struct {
	config  Config
	dir     string
	etcd    *embedded.Etcd
	servers []*server
	failed  chan error
	// stop ends the keepers of the servers, which then do not start one again.
	stop    context.CancelFunc
	keepers sync.WaitGroup
}

// Start runs a cluster and waits until its servers are ready. Cancelling ctx while it
// does stops it again; a cluster that was started runs on.
//
// Errors: [embedded.ErrInUse] if the directory is in use by another process,
// *[PortTakenError], [ErrServer]; else the configuration or a file in the directory
// cannot be used.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if config.Servers < 1 || config.Servers > MaxServers {
		return nil, fmt.Errorf("%d API servers: there can be 1 to %d", config.Servers, MaxServers)
	}
	if config.SecurePort == 0 {
		return nil, errors.New("no port for the API servers is configured")
	}
	if config.Progress == nil {
		config.Progress = func(string) {}
	}
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, err
	}
	// A name without a directory is a file, as it is for a test of its existence, and not a command in $PATH.
	if config.Program, err = filepath.Abs(config.Program); err != nil {
		return nil, err
	}
	c := &Cluster{config: config, dir: dir, failed: make(chan error, MaxServers), stop: func() {}}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	c.config.Progress("starting etcd in " + c.file("etcd"))
	c.etcd, err = embedded.Start(ctx, embedded.Config{Dir: c.file("etcd"), ClientPort: c.config.EtcdPort})
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortTakenError{Etcd, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(c.config.EtcdPort)))}
	}
	if err != nil {
		return err
	}
	for i := range c.config.Servers {
		address := net.JoinHostPort(bindAddress(i).String(), strconv.Itoa(int(c.config.SecurePort)))
		if err := checkFree(address); err != nil {
			return err
		}
		c.servers = append(c.servers, &server{
			name: fmt.Sprintf("kube-apiserver %d", i+1), address: address, logFile: c.file("logs", fmt.Sprintf("kube-apiserver-%d.log", i+1)),
		})
	}
	var addresses []net.IP
	for i := range MaxServers { // so that the certificate is for any number of servers
		addresses = append(addresses, bindAddress(i))
	}
	pki, err := openPKI(c.file("pki"), addresses, time.Now())
	if err != nil {
		return err
	}
	if err := writeKubeconfig(c.Kubeconfig(), pki, c.servers); err != nil {
		return err
	}
	if err := os.MkdirAll(c.file("logs"), 0o700); err != nil {
		return err
	}
	for i, s := range c.servers {
		c.config.Progress(fmt.Sprintf("starting %s at %s, its log is %s", s.name, s.url(), s.logFile))
		if err := s.start(c.config.Program, c.flags(i, pki, settings)); err != nil {
			return err
		}
	}
	for i, s := range c.servers {
		if err := s.waitUntilReady(ctx, pki.restConfig(s), c.config.Progress); err != nil {
			return err
		}
		if i == 0 {
			// Not before one is ready: the next run is not to have ranges that servers refuse, or that came with
			// another mistake.
			if err := settings.write(); err != nil {
				return err
			}
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	for i, s := range c.servers {
		c.keepers.Go(func() {
			if err := c.keep(running, s, c.flags(i, pki, settings), pki.restConfig(s)); err != nil {
				c.failed <- err
			}
		})
	}
	return nil
}

// keep starts a server again each time that it ends, as others serve meanwhile, until the context is done. It returns
// an error if the server is the only one, or does not get ready again.
func (c *Cluster) keep(ctx context.Context, s *server, flags []string, config *rest.Config) error {
	for {
		select {
		case <-s.child.Ended():
		case <-ctx.Done():
			return nil
		}
		if len(c.servers) == 1 {
			return s.ended("has ended")
		}
		c.config.Progress(fmt.Sprintf("%s has ended, %s; starting it again", s.name, s.how()))
		if err := s.start(c.config.Program, flags); err != nil {
			return err
		}
		if err := s.waitUntilReady(ctx, config, c.config.Progress); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// bindAddress is where a server listens. The servers of a cluster have the same port, as
// the endpoints of the Service kubernetes do, so the addresses differ: on Linux all of
// 127.0.0.0/8 is loopback.
func bindAddress(i int) net.IP { return net.IPv4(127, 0, 0, byte(1+i)) }

// advertiseAddress is a server's address in the endpoints of the Service kubernetes. A
// loopback address is not allowed there, so it is one of a block for documentation, of the
// primary IP family. Nobody connects to it: there are no Pods.
func advertiseAddress(i int, primary rangekeeper.Range) string {
	if first, _ := primary.ValueAt(0); first.Addr().Is6() {
		return fmt.Sprintf("2001:db8::%d", 1+i)
	}
	return fmt.Sprintf("192.0.2.%d", 1+i)
}

func (c *Cluster) flags(i int, p *pki, s *settings) []string {
	flags := []string{
		"--etcd-servers=" + strings.Join(c.etcd.Endpoints(), ","),
		"--bind-address=" + bindAddress(i).String(),
		"--secure-port=" + strconv.Itoa(int(c.config.SecurePort)),
		"--advertise-address=" + advertiseAddress(i, s.clusterIPRanges[0]),
		"--tls-cert-file=" + p.server.certFile,
		"--tls-private-key-file=" + p.server.keyFile,
		"--client-ca-file=" + p.authority.certFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.serviceAccountKey,
		"--service-account-signing-key-file=" + p.serviceAccountKey,
		"--authorization-mode=RBAC",
		"--shutdown-watch-termination-grace-period=" + watchGrace.String(),
		clusterIPRangeFlag + "=" + s.ServiceClusterIPRange,
		nodePortRangeFlag + "=" + s.ServiceNodePortRange,
		"--endpoint-reconciler-type=" + c.config.EndpointReconcilerType,
	}
	if c.config.EndpointReconcilerType == masterCount {
		flags = append(flags, "--apiserver-count="+strconv.Itoa(c.config.Servers))
	}
	return replaced(flags, c.config.Flags)
}

// replaced returns flags with others in place of those of the same name: of a flag that is a list a server would take
// both values, or refuse them.
func replaced(flags, others []string) []string {
	isReplaced := func(flag string) bool {
		return slices.ContainsFunc(others, func(other string) bool { return flagName(other) == flagName(flag) })
	}
	return append(slices.DeleteFunc(flags, isReplaced), others...)
}

// flagName returns the name of a flag, as kube-apiserver reads it.
func flagName(flag string) string {
	name, _, _ := strings.Cut(flag, "=")
	return strings.ReplaceAll(name, "_", "-")
}

func (c *Cluster) file(names ...string) string {
	return filepath.Join(append([]string{c.dir}, names...)...)
}

// Kubeconfig is the path of a file by which an administrator reaches the servers.
func (c *Cluster) Kubeconfig() string { return c.file("kubeconfig") }

// EtcdEndpoints are the URLs at which clients reach etcd.
func (c *Cluster) EtcdEndpoints() []string { return c.etcd.Endpoints() }

// Failed receives an [ErrServer] if the only server ends before [Cluster.Stop], or one of several that is started again
// then does not get ready.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Stop ends the servers in order, the last one first, and then etcd. The error names
// the programs that did not end in order; nothing runs any more in any case.
func (c *Cluster) Stop() error {
	c.stop()
	c.keepers.Wait()
	var errs []error
	for i := len(c.servers) - 1; i >= 0; i-- {
		errs = append(errs, c.servers[i].stop(c.config.Progress))
	}
	if c.etcd != nil {
		c.config.Progress("stopping etcd")
		ctx, cancel := context.WithTimeout(context.Background(), compactTimeout)
		defer cancel()
		c.etcd.Compact(ctx) // the servers do it every five minutes, and the next run can as well
		c.etcd.Close()
	}
	return errors.Join(errs...)
}
