package localcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// wait bounds waiting on a machine that does much else, where a server may take as long to start.
const wait = readyTimeout

// testConfig is for a cluster of unchanged servers in a new directory: what is tested
// here does not depend on who allocates.
func testConfig(t *testing.T, servers int) Config {
	return Config{
		Dir: filepath.Join(t.TempDir(), "a", "cluster"), Program: apiservertest.Program(t, apiservertest.Config{Version: apiservertest.Newest}), Servers: servers,
		EndpointReconcilerType: "lease", SecurePort: uint16(etcdtest.FreePort(t)), Flags: []string{"--own-loops"},
		Progress: func(line string) { fmt.Fprintln(t.Output(), line) },
	}
}

func start(t *testing.T, config Config) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.child.Kill() // if the test has not stopped it
		}
		c.etcd.Close()
	})
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
}

// clients give one for each server, by the kubeconfig.
func clients(t *testing.T, c *Cluster) (all []*kubernetes.Clientset) {
	t.Helper()
	for _, name := range c.Contexts() {
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig()}, &clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		config.WarningHandler = rest.NoWarnings{}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, client)
	}
	return all
}

// create waits until the server has allocated: a stock one that has just started may not have read its ServiceCIDR yet.
func create(t *testing.T, client *kubernetes.Clientset, name string, kind corev1.ServiceType) *corev1.Service {
	t.Helper()
	for deadline := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		service, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err == nil {
			return service
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestRuns starts a cluster, creates a Service, and starts it again with three servers:
// each has the Service, all are in the endpoints, and the ranges are still those that were
// given the first time, though they were others in a run that failed. They end in order.
func TestRuns(t *testing.T) {
	config := testConfig(t, 1)
	config.ServiceClusterIPRange, config.ServiceNodePortRange = "10.97.0.1/16", "31000-31009"
	c := start(t, config)
	for _, name := range []string{"pki", "logs"} {
		private(t, c.file(name))
	}
	if info, err := os.Stat(c.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	before := create(t, clients(t, c)[0], "a", corev1.ServiceTypeNodePort)
	if _, err := Start(t.Context(), config); !errors.Is(err, embedded.ErrInUse) || !strings.Contains(err.Error(), config.Dir) {
		t.Errorf("a second run in the same directory: %v", err)
	}
	stop(t, c)
	if _, err := clients(t, c)[0].Discovery().ServerVersion(); err == nil {
		t.Error("the stopped server answers")
	}

	mistaken := config
	mistaken.ServiceNodePortRange, mistaken.Flags = "32000-32009", append(slices.Clone(config.Flags), "--nonsense")
	if _, err := Start(t.Context(), mistaken); !errors.Is(err, ErrServer) {
		t.Errorf("with a wrong flag: %v", err)
	}

	t.Chdir(filepath.Dir(config.Program))
	config.Program = filepath.Base(config.Program)
	config.Servers, config.ServiceClusterIPRange, config.ServiceNodePortRange = 3, "", ""
	c = start(t, config)
	all := clients(t, c)
	if len(all) != 3 {
		t.Fatal(c.Contexts())
	}
	for i, client := range all {
		after, err := client.CoreV1().Services("default").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || after.UID != before.UID || after.Spec.ClusterIP != before.Spec.ClusterIP {
			t.Errorf("at server %d: %v, %v", i+1, after, err)
		}
		service := create(t, client, fmt.Sprint("b", i), corev1.ServiceTypeNodePort)
		if port := service.Spec.Ports[0].NodePort; !strings.HasPrefix(service.Spec.ClusterIP, "10.97.") || port < 31000 || port > 31009 {
			t.Errorf("at server %d, outside of the ranges: %+v", i+1, service.Spec)
		}
	}
	addresses := func() (addresses []string, port int32) {
		found, err := all[0].DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return nil, 0
		}
		for _, e := range found.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
		return addresses, *found.Ports[0].Port
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		got, port := addresses()
		if len(got) == 3 && port == int32(config.SecurePort) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("endpoints %v, port %d", got, port)
		}
	}

	var logged [3]int
	for i, s := range c.servers {
		log, err := os.ReadFile(s.logFile)
		if err != nil {
			t.Fatal(err)
		}
		logged[i] = len(log)
	}
	stop(t, c)
	// The last one ended before the one before it began to: by the time of its last line, and
	// the first one there about an end.
	for i := range 2 {
		last, err := os.Stat(c.servers[i+1].logFile)
		if err != nil {
			t.Fatal(err)
		}
		log, err := os.ReadFile(c.servers[i].logFile)
		if err != nil {
			t.Fatal(err)
		}
		began := ""
		for line := range bytes.Lines(log[logged[i]:]) {
			if bytes.Contains(line, []byte("hutting down")) {
				began = string(line[1:]) // after the severity
				break
			}
		}
		if ended := last.ModTime().Format("0102 15:04:05.000000"); began == "" || ended > began {
			t.Errorf("server %d ended at %s, server %d began to at %q", i+2, ended, i+1, began)
		}
	}
}

// TestFlags has each flag of the caller in the place of the one of the same name.
func TestFlags(t *testing.T) {
	own := []string{"--authorization_mode", "RBAC", "--v=4", "--secure-port=1"}
	got := replaced([]string{"--secure-port=6443", "--authorization-mode=Node", "--secure-port-of-others=1"}, own)
	if want := append([]string{"--secure-port-of-others=1"}, own...); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestServerIsStartedAgain kills one of two servers: the other one serves, and the first one gets ready again.
func TestServerIsStartedAgain(t *testing.T) {
	config := testConfig(t, 2)
	lines := make(chan string, 1000)
	config.Progress = func(line string) { lines <- line }
	c := start(t, config)
	for len(lines) > 0 {
		<-lines
	}
	if err := c.servers[1].child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if line := <-lines; line != "kube-apiserver 2 has ended, signal: killed; starting it again" {
		t.Error(line)
	}
	create(t, clients(t, c)[0], "meanwhile", corev1.ServiceTypeClusterIP)
	for ready, end := false, time.After(wait); !ready; {
		select {
		case line := <-lines:
			ready = line == "kube-apiserver 2 is ready"
		case err := <-c.Failed():
			t.Fatal(err)
		case <-end:
			t.Fatal("it is not ready")
		}
	}
	if _, err := clients(t, c)[1].CoreV1().Services("default").Get(t.Context(), "meanwhile", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	stop(t, c)
}

// TestServerEnds kills the only server.
func TestServerEnds(t *testing.T) {
	c := start(t, testConfig(t, 1))
	if err := c.servers[0].child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.Failed():
		if !errors.Is(err, ErrServer) {
			t.Error(err)
		}
		for _, word := range []string{"kube-apiserver 1", "killed", c.servers[0].logFile, "\nI"} { // a line of the log
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v, want %q", err, word)
			}
		}
	case <-time.After(wait):
		t.Fatal("no error was reported")
	}
	stop(t, c)
}

// TestServerDoesNotStart starts what is no server, or not for long. Nothing runs on: the
// directory can be used again at once.
func TestServerDoesNotStart(t *testing.T) {
	config := testConfig(t, 2)
	config.Flags = append(config.Flags, "--nonsense")
	_, err := Start(t.Context(), config)
	log := filepath.Join(config.Dir, "logs", "kube-apiserver-1.log")
	if !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "--nonsense") || !strings.Contains(err.Error(), log) {
		t.Error(err)
	}
	config.Program = config.Dir
	if _, err := Start(t.Context(), config); err == nil || errors.Is(err, ErrServer) || !strings.Contains(err.Error(), config.Dir) {
		t.Error(err)
	}
}

// TestCancelledStart returns a start up while it waits for a server.
func TestCancelledStart(t *testing.T) {
	config := testConfig(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	var said []string
	config.Progress = func(line string) {
		said = append(said, line)
		if strings.HasPrefix(line, "starting kube-apiserver") {
			once.Do(func() { time.AfterFunc(time.Second, cancel) })
		}
	}
	if _, err := Start(ctx, config); !errors.Is(err, context.Canceled) || errors.Is(err, ErrServer) {
		t.Error(err)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "stopping kube-apiserver 1\nstopping etcd") {
		t.Error(all)
	}
}

// TestPortsTaken takes each port that is needed.
func TestPortsTaken(t *testing.T) {
	for address, what := range map[string]string{"127.0.0.1": APIServer, "127.0.0.3": APIServer, "": Etcd} {
		config := testConfig(t, 3)
		port := &config.SecurePort
		if what == Etcd {
			config.EtcdPort, port, address = uint16(etcdtest.FreePort(t)), &config.EtcdPort, "127.0.0.1"
		}
		l, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(*port)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Start(t.Context(), config)
		taken := new(PortTakenError)
		if !errors.As(err, &taken) || *taken != (PortTakenError{what, l.Addr().String()}) || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("%s %s: %v", what, l.Addr(), err)
		}
		l.Close()
	}
}

// TestRefuses starts with what cannot be used, or on what is damaged.
func TestRefuses(t *testing.T) {
	write := func(dir, name string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<16), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		words  []string
	}{
		{"no server", func(c *Config) { c.Servers = 0 }, []string{"0", "1 to 3"}},
		{"four servers", func(c *Config) { c.Servers = 4 }, []string{"4", "1 to 3"}},
		{"no port", func(c *Config) { c.SecurePort = 0 }, []string{"port"}},
		{"no CIDR", func(c *Config) { c.ServiceClusterIPRange = "10.0.0.0/33" }, []string{"--service-cluster-ip-range", "10.0.0.0/33"}},
		{"one IP family", func(c *Config) { c.ServiceClusterIPRange = "10.0.0.0/24,10.1.0.0/24" }, []string{"--service-cluster-ip-range", "10.0.0.0/24,10.1.0.0/24"}},
		{"three ranges", func(c *Config) { c.ServiceClusterIPRange = "10.0.0.0/24,fd00::/112,fd01::/112" }, []string{"--service-cluster-ip-range", "fd01::/112"}},
		{"no ports", func(c *Config) { c.ServiceNodePortRange = "1-70000" }, []string{"--service-node-port-range", "70000"}},
		{"a file", func(c *Config) { write(filepath.Dir(c.Dir), "cluster") }, []string{"/a/cluster", "not a directory"}},
		{"damaged etcd", func(c *Config) { write(c.Dir, "etcd/member/snap/db") }, []string{"/etcd"}},
		{"damaged certificate", func(c *Config) { write(c.Dir, "pki/ca.crt"); write(c.Dir, "pki/ca.key") }, []string{"/pki/ca.crt"}},
		{"damaged settings", func(c *Config) { write(c.Dir, "settings.json") }, []string{"/settings.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := testConfig(t, 1)
			c.change(&config)
			cluster, err := Start(t.Context(), config)
			if err == nil {
				cluster.Stop()
				t.Fatal("it started")
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v, want %q", err, word)
				}
			}
			if errors.Is(err, ErrServer) || errors.Is(err, embedded.ErrInUse) {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(config.Dir, "logs")); err == nil {
				t.Error("a server was started")
			}
		})
	}
}
