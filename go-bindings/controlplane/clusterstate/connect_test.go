package clusterstate_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/internal/etcdtest"
)

// authority signs certificates and writes them to files.
type authority struct {
	dir, file string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.file, _ = a.issue(t, "ca", a.cert)
	return a
}

// issue signs a certificate; the first one issued is the authority's own.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a.key == nil {
		a.key = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func (a *authority) leaf(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	return a.issue(t, name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// startTLS runs an etcd that wants client certificates.
func startTLS(t *testing.T, a *authority) string {
	t.Helper()
	cert, key := a.leaf(t, "server")
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	client, peer := url.URL{Scheme: "https", Host: "127.0.0.1:0"}, url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: a.file, ClientCertAuth: true}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return e.Clients[0].Addr().String()
}

func TestConnectTLS(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	cert, key := a.leaf(t, "client")
	otherCert, otherKey := other.leaf(t, "client")
	address := startTLS(t, a)
	garbage := etcdtest.Write(t, []byte("not PEM"))
	https := []string{"https://" + address}

	for _, endpoints := range [][]string{https, {address}, {"https://127.0.0.1:1", https[0]}} {
		client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: endpoints, CACert: a.file, Cert: cert, Key: key})
		if err != nil {
			t.Errorf("%v: %v", endpoints, err)
			continue
		}
		if _, err := clusterstate.ReadEtcd(t.Context(), client, clusterstate.Options{}); err != nil {
			t.Error(err)
		}
		client.Close()
	}
	for _, c := range []struct {
		name, want  string
		unreachable bool
		o           clusterstate.ConnectOptions
	}{
		{"unknown authority", "unknown authority", true, clusterstate.ConnectOptions{Endpoints: https, CACert: other.file, Cert: cert, Key: key}},
		{"system authorities", "unknown authority", true, clusterstate.ConnectOptions{Endpoints: https}},
		{"no client certificate", "certificate required", true, clusterstate.ConnectOptions{Endpoints: https, CACert: a.file}},
		{"foreign client certificate", "unknown certificate authority", true, clusterstate.ConnectOptions{Endpoints: https, CACert: a.file, Cert: otherCert, Key: otherKey}},
		{"without TLS", "does not answer", true, clusterstate.ConnectOptions{Endpoints: []string{"http://" + address}}},
		{"missing file", "none.crt", false, clusterstate.ConnectOptions{Endpoints: https, CACert: filepath.Join(a.dir, "none.crt")}},
		{"CA is garbage", garbage, false, clusterstate.ConnectOptions{Endpoints: https, CACert: garbage}},
		{"certificate is garbage", garbage, false, clusterstate.ConnectOptions{Endpoints: https, Cert: garbage, Key: key}},
		{"key of another", otherKey, false, clusterstate.ConnectOptions{Endpoints: https, Cert: cert, Key: otherKey}},
		{"certificate without key", "together", false, clusterstate.ConnectOptions{Endpoints: https, Cert: cert}},
		{"key without certificate", "together", false, clusterstate.ConnectOptions{Endpoints: https, Key: key}},
		{"files without TLS", "does not use TLS", false, clusterstate.ConnectOptions{Endpoints: []string{"http://" + address}, CACert: a.file}},
		{"mixed", "does not use TLS", false, clusterstate.ConnectOptions{Endpoints: []string{"http://" + address, https[0]}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.DialTimeout = time.Second
			checkRefused(t, c.o, c.want, c.unreachable)
		})
	}
}

func checkRefused(t *testing.T, o clusterstate.ConnectOptions, want string, unreachable bool) {
	t.Helper()
	client, err := clusterstate.Connect(t.Context(), o)
	if err == nil {
		client.Close()
		t.Fatal("connected")
	}
	if !strings.Contains(err.Error(), want) || errors.Is(err, clusterstate.ErrUnreachable) != unreachable {
		t.Errorf("got %v, want %q, unreachable %v", err, want, unreachable)
	}
}

func TestConnectRefusesOptions(t *testing.T) {
	for want, o := range map[string]clusterstate.ConnectOptions{
		"no etcd endpoint":   {},
		"a host and a port":  {Endpoints: []string{"localhost"}},
		"expected http":      {Endpoints: []string{"ftp://localhost:21"}},
		`endpoint ""`:        {Endpoints: []string{""}},
		"http://host:port":   {Endpoints: []string{"http://localhost:2379/v3"}},
		"missing protocol":   {Endpoints: []string{"://"}},
		"password are":       {Endpoints: []string{"localhost:2379"}, User: "root"},
		"password are neede": {Endpoints: []string{"localhost:2379"}, Password: "root"},
	} {
		checkRefused(t, o, want, false)
	}
}

func TestConnectUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refused, mute := "http://"+closed.Addr().String(), "http://"+silent.Addr().String()
	o := clusterstate.ConnectOptions{Endpoints: []string{refused, mute}, DialTimeout: 300 * time.Millisecond}
	checkRefused(t, o, "connection refused", true)
	checkRefused(t, o, mute+": accepts connections but does not answer", true)
	o.User, o.Password = "root", "secret"
	checkRefused(t, o, "connection refused", true)

	// The caller's end is not etcd's fault.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := clusterstate.Connect(ctx, o); !errors.Is(err, context.Canceled) || errors.Is(err, clusterstate.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

func TestReadEtcdStopped(t *testing.T) {
	t.Parallel() // it waits for a timeout
	e := etcdtest.Start(t, "")
	client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: e.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	e.Close()
	if _, err := clusterstate.ReadEtcd(t.Context(), client, clusterstate.Options{}); !errors.Is(err, clusterstate.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

func TestConnectAuth(t *testing.T) {
	e := etcdtest.Start(t, "")
	c, ctx := e.Client(), t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.UserAdd(ctx, "root", "secret"))
	must(c.UserGrantRole(ctx, "root", "root"))
	must(c.UserAdd(ctx, "auditor", "look"))
	must(c.RoleAdd(ctx, "auditor"))
	must(c.RoleGrantPermission(ctx, "auditor", "/registry/", clientv3.GetPrefixRangeEnd("/registry/"), clientv3.PermissionType(clientv3.PermRead)))
	must(c.UserGrantRole(ctx, "auditor", "auditor"))
	must(c.UserAdd(ctx, "guest", "guest"))
	must(c.AuthEnable(ctx))

	connect := func(user, password string) (*clientv3.Client, error) {
		client, err := clusterstate.Connect(ctx, clusterstate.ConnectOptions{Endpoints: e.Endpoints(), User: user, Password: password})
		if err == nil {
			t.Cleanup(func() { client.Close() })
		}
		return client, err
	}
	for user, password := range map[string]string{"root": "secret", "auditor": "look"} {
		client, err := connect(user, password)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clusterstate.ReadEtcd(ctx, client, clusterstate.Options{}); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	guest, err := connect("guest", "guest")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clusterstate.ReadEtcd(ctx, guest, clusterstate.Options{}); err == nil || !strings.Contains(err.Error(), "may not read") || errors.Is(err, clusterstate.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	for want, user := range map[string][2]string{"refuses the user or password": {"root", "wrong"}, "asks for a user": {}} {
		checkRefused(t, clusterstate.ConnectOptions{Endpoints: e.Endpoints(), User: user[0], Password: user[1]}, want, false)
	}
}
