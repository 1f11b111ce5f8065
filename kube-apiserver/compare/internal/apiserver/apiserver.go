// Package apiserver runs the kube-apiservers that the comparisons measure, and puts load on them.
package apiserver

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rangekeeper/rangekeeper/controlplane/localcluster"
)

// Side is one of the two programs that are compared.
type Side struct {
	Name, Program string
	flags         []string
}

// The names of the sides.
const (
	ReferenceName   = "reference"
	RangekeeperName = "rangekeeper"
)

// Reference is the stock kube-apiserver of a release in a folder.
func Reference(bin, release string) Side {
	return Side{Name: ReferenceName, Program: filepath.Join(bin, "kube-apiserver-"+release), flags: []string{"--own-loops"}}
}

// Rangekeeper is the same release with Rangekeeper inside.
func Rangekeeper(bin, release string) Side {
	return Side{Name: RangekeeperName, Program: filepath.Join(bin, "kube-apiserver-rangekeeper-"+release)}
}

// Config says how [Start] runs a server.
type Config struct {
	Side
	// Dir has etcd's data while the server runs, and keeps the server's log.
	Dir string
	// Port is the server's port on loopback.
	Port uint16
	// ClusterIPRange and NodePortRange are the flags of the server; empty for the defaults.
	ClusterIPRange, NodePortRange string
}

// etcdDir is etcd's data directory in [Config].Dir.
func (c Config) etcdDir() string { return filepath.Join(c.Dir, "etcd") }

// Server is a kube-apiserver on an etcd of its own that syncs to disk.
type Server struct {
	// Etcd is a client of its etcd.
	Etcd    *clientv3.Client
	config  Config
	rest    *rest.Config
	cluster *localcluster.Cluster
	metrics *kubernetes.Clientset
}

// Start runs a server, on an empty etcd or on one that [Fill] has filled, until [Server.Stop].
func Start(ctx context.Context, c Config) (*Server, error) {
	cluster, err := localcluster.Start(ctx, localcluster.Config{
		Dir: c.Dir, Program: c.Program, Servers: 1, SecurePort: c.Port, Flags: c.flags,
		ServiceClusterIPRange: c.ClusterIPRange, ServiceNodePortRange: c.NodePortRange, EndpointReconcilerType: "lease",
	})
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, cluster: cluster}
	if err := s.connect(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) connect(ctx context.Context) (err error) {
	if s.rest, err = clientcmd.BuildConfigFromFlags("", s.cluster.Kubeconfig()); err != nil {
		return err
	}
	s.rest.QPS = -1
	if s.Etcd, err = clientv3.New(clientv3.Config{Endpoints: s.cluster.EtcdEndpoints(), Logger: zap.NewNop()}); err != nil {
		return err
	}
	clients, err := s.Clients(1)
	if err == nil {
		s.metrics = clients[0]
	}
	return err
}

// Stop ends the server and removes etcd's data. It can be called again. If it fails, so does the next start in the same
// folder.
func (s *Server) Stop() {
	if s.Etcd != nil {
		s.Etcd.Close()
	}
	s.cluster.Stop()
	os.RemoveAll(s.config.etcdDir())
}

// Kubeconfig is the path of a kubeconfig with all rights on the server.
func (s *Server) Kubeconfig() string { return s.cluster.Kubeconfig() }

// Clients returns connected clients, each with a connection of its own, as those of different processes have.
func (s *Server) Clients(count int) ([]*kubernetes.Clientset, error) {
	clients := make([]*kubernetes.Clientset, count)
	for i := range clients {
		own := *s.rest
		own.Dial = newDialer()
		client, err := kubernetes.NewForConfig(&own)
		if err != nil {
			return nil, err
		}
		clients[i] = client
		if _, err := client.Discovery().ServerVersion(); err != nil { // connects
			return nil, err
		}
	}
	return clients, nil
}

// newDialer returns the dial function of one client: client-go shares connections among clients with equal
// configurations.
func newDialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 30 * time.Second}).DialContext
}

// Metrics are the server's metrics by name.
type Metrics map[string]*dto.MetricFamily

// Metrics reads the server's metrics.
func (s *Server) Metrics(ctx context.Context) (Metrics, error) {
	text, err := s.metrics.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	return families, err
}

// CPU is the server's CPU time in seconds.
func (m Metrics) CPU() float64 { return m.Sum("process_cpu_seconds_total", "", "") }

// Sum returns the sum of a family's counters, or of those with a label.
func (m Metrics) Sum(name, label, value string) (total float64) {
	for _, metric := range m[name].GetMetric() {
		matches := label == ""
		for _, pair := range metric.GetLabel() {
			matches = matches || pair.GetName() == label && pair.GetValue() == value
		}
		if matches {
			total += metric.GetCounter().GetValue()
		}
	}
	return total
}
