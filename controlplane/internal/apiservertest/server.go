// Package apiservertest runs a real kube-apiserver as a part of tests: a child process
// on loopback with RBAC, over an etcd of the test's, with the loops off that
// Rangekeeper does the work of. `make apiservers` builds the programs.
package apiservertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/child"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/clockskew"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/project"
	"github.com/rangekeeper/rangekeeper/controlplane/releases"
)

// Version is a release of Kubernetes.
type Version string

// The releases that `make apiservers` builds by default.
var (
	// V1_32 keeps ClusterIPs and NodePorts in RangeAllocations.
	V1_32 = Version(releases.Of("1.32"))
	// Newest keeps ClusterIPs in IPAddress objects and NodePorts in a RangeAllocation.
	Newest = Version(releases.All()[0])
)

// Versions returns all supported releases.
func Versions() (all []Version) {
	for _, release := range releases.All() {
		all = append(all, Version(release))
	}
	return all
}

// requiredVariable lists the releases whose tests fail if their server was not built.
const requiredVariable = "RANGEKEEPER_REQUIRE_APISERVER"

// Defaults of [Config].
const (
	DefaultServiceClusterIPRange = "10.96.0.0/16"
	DefaultServiceNodePortRange  = "30000-32767"
	// DefaultAdvertiseAddress is in a block for documentation: nobody connects to it.
	DefaultAdvertiseAddress = "192.0.2.1"
)

const (
	// readyTimeout and stopTimeout bound waiting on a machine that does much else.
	readyTimeout = 5 * time.Minute
	stopTimeout  = 2 * time.Minute
	// logTail is the number of bytes at the end of its log that a failed test shows.
	logTail = 64 << 10
)

// Config says how [Start] runs a server. Servers with the same etcd are those of one
// cluster.
type Config struct {
	Version Version
	// Etcd are the URLs of etcd; required.
	Etcd []string
	// ServiceClusterIPRange is one CIDR, or two of different IP families with a comma.
	ServiceClusterIPRange string
	ServiceNodePortRange  string
	AdvertiseAddress      string
	// Users may log in beside [Admin]. What they may do is for RBAC objects to say.
	Users []User
	// OwnLoops leaves the server's loops on, for comparisons: namespaces, the kubernetes
	// Service, its endpoints in the mode that --endpoint-reconciler-type says, and repair.
	OwnLoops bool
	// Rangekeeper runs the server that has Rangekeeper inside, with all its loops.
	Rangekeeper bool
	// ClockOffset is how far the server's wall clock is ahead, in whole seconds, or behind if it is negative. Where
	// that is not supported the test is skipped.
	ClockOffset time.Duration
	// Flags are further flags. They win over those that all the above makes.
	Flags []string
}

// Server is a kube-apiserver that runs as long as the test unless it is stopped. Its
// functions are for one goroutine at a time; their errors fail the test.
type Server struct {
	t           testing.TB
	config      Config
	program     string
	dir         string
	certificate []byte
	port        int
	child       *child.Process
}

// Start runs a server until the test ends and waits until it is ready. A test whose
// server was not built is skipped, or fails if RANGEKEEPER_REQUIRE_APISERVER lists the release.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	s := &Server{t: t, config: c.withDefaults(), program: Program(t, c), dir: t.TempDir(), port: etcdtest.ReservePort(t)}
	s.writeKeyPair()
	s.writeTokens()
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			fmt.Fprintf(t.Output(), "the end of the log of kube-apiserver %s at port %d:\n%s\n", c.Version, s.port, s.logTail())
		}
	})
	s.Restart()
	return s
}

func (c Config) withDefaults() Config {
	advertiseAddress := DefaultAdvertiseAddress
	if first, _, _ := strings.Cut(c.ServiceClusterIPRange, ","); strings.Contains(first, ":") {
		advertiseAddress = "2001:db8::1" // a server refuses the other IP family
	}
	for value, otherwise := range map[*string]string{
		&c.ServiceClusterIPRange: DefaultServiceClusterIPRange,
		&c.ServiceNodePortRange:  DefaultServiceNodePortRange,
		&c.AdvertiseAddress:      advertiseAddress,
	} {
		if *value == "" {
			*value = otherwise
		}
	}
	return c
}

// Program is the path of the program that [Start] runs. A test whose program was not
// built is skipped, or fails if RANGEKEEPER_REQUIRE_APISERVER lists the release. With -short
// no test runs a kube-apiserver.
func Program(t testing.TB, c Config) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: kube-apiservers are not run")
	}
	name, target := "kube-apiserver-", "apiservers"
	if c.Rangekeeper {
		name, target = "kube-apiserver-rangekeeper-", "dropin"
	}
	path := project.Path("bin", name+string(c.Version))
	if _, err := os.Stat(path); err != nil {
		missing := fmt.Sprintf("%v: `make %s` builds it", err, target)
		if slices.Contains(strings.Fields(os.Getenv(requiredVariable)), string(c.Version)) {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return path
}

// Restart runs a server again that was stopped or killed, with the same flags, port
// and certificate, and waits until it is ready.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	log, err := os.OpenFile(s.file("log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close() // the child has its own
	command := exec.Command(s.program, s.flags()...)
	command.Stdout, command.Stderr = log, log
	s.child, err = s.start(command)
	if errors.Is(err, errors.ErrUnsupported) {
		s.t.Skipf("a server whose clock is %v ahead: %v", s.config.ClockOffset, err)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), readyTimeout)
	defer cancel()
	if err := s.waitUntilReady(ctx); err != nil {
		s.t.Fatalf("kube-apiserver %s does not get ready: %v", s.config.Version, err)
	}
}

// RestartWith restarts a server with further flags, as [Config] has them.
func (s *Server) RestartWith(flags ...string) {
	s.t.Helper()
	s.config.Flags = append(slices.Clone(s.config.Flags), flags...)
	s.Restart()
}

func (s *Server) start(command *exec.Cmd) (*child.Process, error) {
	if s.config.ClockOffset == 0 {
		return child.Start(command)
	}
	return child.StartPrepared(command, func(pid int) error { return clockskew.Set(pid, s.config.ClockOffset) })
}

func (s *Server) flags() []string {
	flags := []string{
		"--etcd-servers=" + strings.Join(s.config.Etcd, ","),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(s.port),
		"--permit-port-sharing", // with etcdtest.ReservePort
		"--advertise-address=" + s.config.AdvertiseAddress,
		"--cert-dir=" + s.dir,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.file(keyFile),
		"--service-account-signing-key-file=" + s.file(keyFile),
		"--token-auth-file=" + s.file(tokenFile),
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=" + s.config.ServiceClusterIPRange,
		"--service-node-port-range=" + s.config.ServiceNodePortRange,
	}
	switch {
	case s.config.Rangekeeper:
	case s.config.OwnLoops:
		flags = append(flags, "--own-loops")
	default:
		flags = append(flags, "--endpoint-reconciler-type=none")
	}
	return append(flags, s.config.Flags...)
}

func (s *Server) waitUntilReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.RESTConfig(Admin))
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for {
		why := s.ready(ctx, client)
		if why == nil {
			return nil
		}
		select {
		case <-s.child.Ended():
			return fmt.Errorf("it has ended: %v", s.child.Err())
		case <-ctx.Done():
			return why
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) ready(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil { // so that the next request takes this connection
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New("/readyz: " + answer.Status)
	}
	return nil
}

// Kill ends the server by SIGKILL and returns when it is gone. Without a server that
// runs it does nothing.
func (s *Server) Kill() {
	if s.child != nil {
		s.child.Kill()
	}
}

// Pause stops the server's process, so that it does nothing until [Server.Resume].
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	if err := s.child.Signal(signal); err != nil {
		s.t.Errorf("kube-apiserver %s: %v: %v", s.config.Version, signal, err)
	}
}

// Stop ends the server in order, as SIGTERM does.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.child.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.child.Ended():
	case <-time.After(stopTimeout):
		s.t.Fatalf("kube-apiserver %s runs on %v after SIGTERM", s.config.Version, stopTimeout)
	}
	if err := s.child.Err(); err != nil {
		s.t.Fatalf("kube-apiserver %s: %v", s.config.Version, err)
	}
}

// Port is where it listens on 127.0.0.1.
func (s *Server) Port() int { return s.port }

func (s *Server) url() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) logTail() []byte {
	log, err := os.ReadFile(s.file("log"))
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(log[max(0, len(log)-logTail):])
}

// Rangekeeper reports whether it has Rangekeeper inside.
func (s *Server) Rangekeeper() bool { return s.config.Rangekeeper }
