package clusterstate_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// patience bounds waiting for an answer that comes at once on a machine that has nothing else to do.
const patience = time.Minute

func TestConnectTLS(t *testing.T) {
	a, other := etcdtest.NewAuthority(t), etcdtest.NewAuthority(t)
	cert, key := a.Leaf(t, "client")
	otherCert, otherKey := other.Leaf(t, "client")
	address := etcdtest.StartTLS(t, a)
	garbage := etcdtest.Write(t, []byte("not PEM"))
	https := []string{"https://" + address}

	for _, endpoints := range [][]string{https, {address}, {"https://127.0.0.1:1", https[0]}} {
		client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: endpoints, CACert: a.File, Cert: cert, Key: key, DialTimeout: patience})
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
		{"unknown authority", "unknown authority", true, clusterstate.ConnectOptions{Endpoints: https, CACert: other.File, Cert: cert, Key: key}},
		{"system authorities", "unknown authority", true, clusterstate.ConnectOptions{Endpoints: https}},
		{"no client certificate", "certificate required", true, clusterstate.ConnectOptions{Endpoints: https, CACert: a.File}},
		{"foreign client certificate", "unknown certificate authority", true, clusterstate.ConnectOptions{Endpoints: https, CACert: a.File, Cert: otherCert, Key: otherKey}},
		{"without TLS", "does not answer", true, clusterstate.ConnectOptions{Endpoints: []string{"http://" + address}}},
		{"missing file", "none.crt", false, clusterstate.ConnectOptions{Endpoints: https, CACert: filepath.Join(t.TempDir(), "none.crt")}},
		{"CA is garbage", garbage, false, clusterstate.ConnectOptions{Endpoints: https, CACert: garbage}},
		{"certificate is garbage", garbage, false, clusterstate.ConnectOptions{Endpoints: https, Cert: garbage, Key: key}},
		{"key of another", otherKey, false, clusterstate.ConnectOptions{Endpoints: https, Cert: cert, Key: otherKey}},
		{"certificate without key", "together", false, clusterstate.ConnectOptions{Endpoints: https, Cert: cert}},
		{"key without certificate", "together", false, clusterstate.ConnectOptions{Endpoints: https, Key: key}},
		{"files without TLS", "does not use TLS", false, clusterstate.ConnectOptions{Endpoints: []string{"http://" + address}, CACert: a.File}},
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
		"no etcd endpoint":    {},
		"a host and a port":   {Endpoints: []string{"localhost"}},
		"expected http":       {Endpoints: []string{"ftp://localhost:21"}},
		`endpoint ""`:         {Endpoints: []string{""}},
		"http://host:port":    {Endpoints: []string{"http://localhost:2379/v3"}},
		"missing protocol":    {Endpoints: []string{"://"}},
		`endpoint "a:1": has`: {Endpoints: []string{"http://root:secret@a:1"}},
		`endpoint "b:1": has`: {Endpoints: []string{"root:sec@ret@b:1"}},
		"password are":        {Endpoints: []string{"localhost:2379"}, User: "root"},
		"password are neede":  {Endpoints: []string{"localhost:2379"}, Password: "root"},
	} {
		checkRefused(t, o, want, false)
	}
}

// TestConnectToHTTP connects to a server that speaks HTTP/2 as an API server does.
func TestConnectToHTTP(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		defer server.Close()
		ca := etcdtest.Write(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		checkRefused(t, clusterstate.ConnectOptions{Endpoints: []string{server.URL}, CACert: ca}, server.URL+": an HTTP server answers", false)
	}
}

func TestConnectUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refused := fmt.Sprintf("http://127.0.0.1:%d", etcdtest.ReservePort(t)) // where nobody comes to listen meanwhile
	mute := "http://" + silent.Addr().String()
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
	etcdtest.AddUser(t, c, "auditor", "look", clientv3.PermissionType(clientv3.PermRead), "/registry/")
	etcdtest.AddUser(t, c, "guest", "guest", clientv3.PermissionType(clientv3.PermRead))
	etcdtest.EnableAuth(t, c, "secret")

	connect := func(user, password string) (*clientv3.Client, error) {
		client, err := clusterstate.Connect(ctx, clusterstate.ConnectOptions{Endpoints: e.Endpoints(), User: user, Password: password, DialTimeout: patience})
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
		checkRefused(t, clusterstate.ConnectOptions{Endpoints: e.Endpoints(), User: user[0], Password: user[1], DialTimeout: patience}, want, false)
	}
}
