package storage

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// The timeouts of the API server's own connections to etcd
// (k8s.io/apiserver/pkg/storage/storagebackend/factory/etcd3.go).
const (
	dialTimeout      = 20 * time.Second
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// roundRobin is the service config that etcd's client has. The client of etcd 3.6 (client/v3/internal/resolver) tells
// gRPC the members without it first: gRPC begins to connect by its default policy, gives that connection up, and makes
// others.
const roundRobin = `{"loadBalancingPolicy": "round_robin"}`

// proxyOf returns how the API server connects to etcd through a proxy; nil if it does so directly.
func proxyOf(c storagebackend.TransportConfig) (utilnet.DialFunc, error) {
	if c.EgressLookup == nil {
		return nil, nil
	}
	return c.EgressLookup(egressselector.Etcd.AsNetworkContext())
}

// connect returns a client of the API server's etcd, through a proxy unless that is nil. It does not wait for the
// connection.
func connect(c storagebackend.TransportConfig, proxy utilnet.DialFunc, options ...grpc.DialOption) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints: c.ServerList, DialTimeout: dialTimeout,
		DialKeepAliveTime: keepaliveTime, DialKeepAliveTimeout: keepaliveTimeout,
		DialOptions: append(slices.Clip(options), grpc.WithDefaultServiceConfig(roundRobin)),
		Logger:      zap.NewNop(), // the callers get the errors
	}
	if c.CertFile != "" || c.KeyFile != "" || c.TrustedCAFile != "" {
		files := transport.TLSInfo{CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.TrustedCAFile}
		var err error
		if config.TLS, err = files.ClientConfig(); err != nil {
			return nil, err
		}
	}
	if proxy != nil {
		config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return proxy(ctx, "tcp", hostOf(address))
		}))
	}
	return clientv3.New(config)
}

// hostOf returns host:port of a URL. It returns other text unchanged.
func hostOf(address string) string {
	if strings.Contains(address, "//") {
		if u, err := url.Parse(address); err == nil {
			return u.Host
		}
	}
	return address
}
