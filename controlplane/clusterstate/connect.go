package clusterstate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// ErrUnreachable: no etcd answered.
var ErrUnreachable = errors.New("etcd is not reachable")

// DefaultDialTimeout is how long [Connect] waits for a first answer.
const DefaultDialTimeout = 5 * time.Second

// reconnect is how connections that are lost are made again. By gRPC's own waits, of up
// to 2 minutes, etcd can long be back while a client still finds it gone, and the lease
// of its server runs out.
var reconnect = backoff.Config{BaseDelay: 250 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}

// ConnectOptions say how to reach etcd.
type ConnectOptions struct {
	// Endpoints are URLs, https://host:port, http://host:port or unix:///path (unixs with TLS); a bare
	// host:port uses TLS if another one does or any of the files below is given.
	Endpoints []string
	// CACert is the file with the authorities that may have signed etcd's
	// certificate; empty for those of the system. Cert and Key are the files of
	// the client's own certificate: both or none. All are PEM.
	CACert, Cert, Key string
	// User and Password are for an etcd with authentication on: both or none.
	User, Password string
	// DialTimeout is how long to wait until an endpoint answers; 0 for
	// DefaultDialTimeout.
	DialTimeout time.Duration
	// Restored, if not nil, is asked whether to go on when another etcd cluster answers than before, as all endpoints
	// do that answer: etcd was restored with a new --initial-cluster-token, or replaced. With its context the client
	// gets answers of that cluster. The requests that show it fail, also if it returns nil; after an error it is asked
	// again. It is for programs that run long.
	Restored func(ctx context.Context, what error) error
}

// Connect returns a client of etcd after one endpoint has answered. The client
// must be closed and ends with ctx. The error wraps [ErrUnreachable] if no
// endpoint answered within the timeout; every other one is about the options. The
// client refuses answers of another etcd cluster than the one that answered first,
// unless o.Restored agrees.
func Connect(ctx context.Context, o ConnectOptions) (*clientv3.Client, error) {
	config, err := o.clientConfig(ctx)
	if err != nil {
		return nil, err
	}
	cluster := &oneCluster{restored: o.Restored}
	config.DialOptions = append(config.DialOptions, cluster.options()...)
	client, err := clientv3.New(config) // waits only if there is a user
	if err == nil {
		cluster.client = client
		pingCtx, cancel := context.WithTimeout(ctx, config.DialTimeout)
		defer cancel()
		// Any key will do: that it may not be read is an answer, too.
		if _, err = client.Get(pingCtx, "health"); err == nil || errors.Is(err, rpctypes.ErrPermissionDenied) {
			err = nil
			if len(o.Endpoints) > 1 { // before anything is written to one of them
				_, err = cluster.ask()
			}
			if err == nil {
				return client, nil
			}
		}
		client.Close()
	}
	if err = explain(ctx, err); errors.Is(err, ErrUnreachable) {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, o.diagnose(ctx, config.TLS))
	}
	return nil, fmt.Errorf("%s: %w", strings.Join(o.Endpoints, ","), err)
}

func (o ConnectOptions) clientConfig(ctx context.Context) (clientv3.Config, error) {
	config := clientv3.Config{
		Context:     ctx,
		Endpoints:   o.Endpoints,
		Username:    o.User,
		Password:    o.Password,
		DialTimeout: o.DialTimeout,
		Logger:      zap.NewNop(), // failures come back as errors
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: DefaultDialTimeout}),
		},
	}
	if config.DialTimeout == 0 {
		config.DialTimeout = DefaultDialTimeout
	}
	if len(o.Endpoints) == 0 {
		return config, errors.New("no etcd endpoint given")
	}
	if (o.User == "") != (o.Password == "") {
		return config, errors.New("etcd user and password are needed together")
	}
	if (o.Cert == "") != (o.Key == "") {
		return config, errors.New("certificate and key are needed together")
	}
	files := o.CACert != "" || o.Cert != ""
	secure, plain := files, ""
	for _, e := range o.Endpoints {
		scheme, _, err := splitEndpoint(e)
		if err != nil {
			return config, err
		}
		secure = secure || scheme == "https" || scheme == "unixs"
		if scheme == "http" {
			plain = e
		}
	}
	// etcd's client uses TLS for all of its endpoints or for none.
	if secure && plain != "" {
		return config, fmt.Errorf("endpoint %s does not use TLS, but other endpoints or the certificate files ask for it", plain)
	}
	if !secure {
		return config, nil
	}
	var err error
	config.TLS, err = o.tlsConfig()
	return config, err
}

func (o ConnectOptions) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CACert != "" {
		pem, err := os.ReadFile(o.CACert)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: holds no PEM certificate", o.CACert)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s, key %s: %w", o.Cert, o.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// diagnose says for each endpoint why it did not answer. etcd's client only
// knows that time ran out.
func (o ConnectOptions) diagnose(ctx context.Context, config *tls.Config) error {
	var causes []error
	for _, e := range o.Endpoints {
		scheme, address, _ := splitEndpoint(e)
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			network := "tcp"
			if strings.HasPrefix(scheme, "unix") {
				network = "unix"
			}
			if config == nil || scheme == "http" {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				if err == nil {
					conn.Close()
				}
				return err
			}
			conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
			if err != nil {
				return err
			}
			defer conn.Close()
			// A server that refuses the client's certificate says so only after
			// the handshake of TLS 1.3; one that accepts it waits.
			conn.SetReadDeadline(time.Now().Add(time.Second))
			if _, err = conn.Read(make([]byte, 1)); isTimeout(err) {
				return nil
			}
			return err
		}()
		if err == nil {
			err = errors.New("accepts connections but does not answer")
		}
		causes = append(causes, fmt.Errorf("%s: %w", e, err))
	}
	return errors.Join(causes...)
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// splitEndpoint returns an endpoint's scheme, empty for a bare host:port, and its
// address: host:port, or the path of a socket.
func splitEndpoint(endpoint string) (scheme, address string, err error) {
	address = endpoint
	// A password would stand in each report. etcd's client does not use it.
	if i := strings.LastIndexByte(endpoint, '@'); i >= 0 && !strings.HasPrefix(endpoint, "unix") {
		return "", "", fmt.Errorf("endpoint %q: has a user or a password before it, which belong in --user", endpoint[i+1:])
	}
	if strings.Contains(endpoint, "://") {
		u, err := url.Parse(endpoint)
		if err != nil {
			return "", "", fmt.Errorf("endpoint %q: %w", endpoint, err)
		}
		if u.Scheme == "unix" || u.Scheme == "unixs" {
			if address = u.Host + u.Path; address == "" {
				return "", "", fmt.Errorf("endpoint %q: expected the path of a socket", endpoint)
			}
			return u.Scheme, address, nil
		}
		if u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return "", "", fmt.Errorf("endpoint %q: expected http://host:port, https://host:port or unix:///path", endpoint)
		}
		scheme, address = u.Scheme, u.Host
	}
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return "", "", fmt.Errorf("endpoint %q: expected a host and a port", endpoint)
	}
	return scheme, address, nil
}
