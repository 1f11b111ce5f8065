package bootstrap_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// rustVariable names the program of examples/bootstrap-rs, whose run.sh builds it and runs the tests here.
const rustVariable = "RANGEKEEPER_BOOTSTRAP_RS"

func rustProgram(t *testing.T) string {
	t.Helper()
	program := os.Getenv(rustVariable)
	if program == "" {
		t.Skip(rustVariable + " is not set: examples/bootstrap-rs/run.sh runs this test")
	}
	return program
}

// rustHost is the program beside an API server.
type rustHost struct {
	syncBuffer
	t       *testing.T
	command *exec.Cmd
	ended   chan error
}

func startRust(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, address string) *rustHost {
	t.Helper()
	command := exec.Command(rustProgram(t), "--kubeconfig", s.Kubeconfig(apiservertest.Admin),
		"--endpoints", strings.Join(etcd.Endpoints(), ","), "--advertise-address", address,
		"--service-cluster-ip-range", clusterIPRange, "--service-node-port-range", nodePortRange)
	h := &rustHost{t: t, command: command, ended: make(chan error, 1)}
	command.Stderr = io.MultiWriter(t.Output(), h)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { h.ended <- command.Wait() }()
	t.Cleanup(func() {
		command.Process.Kill() // fails only if it has ended
		h.wait()
	})
	return h
}

func (h *rustHost) wait() error {
	err := <-h.ended
	h.ended <- err
	return err
}

// stop ends it in order.
func (h *rustHost) stop() error {
	h.t.Helper()
	if err := h.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-h.ended:
		h.ended <- err
		return err
	case <-time.After(patience):
		return errors.New("it does not end")
	}
}

// leases compares the keys of the servers' leases with the addresses.
func leases(t *testing.T, etcd *embedded.Etcd, want ...string) func() error {
	return func() error {
		const directory = "/registry/masterleases/"
		var got []string
		for _, kv := range must(etcd.Client().Get(t.Context(), directory, clientv3.WithPrefix())).Kvs {
			got = append(got, strings.TrimPrefix(string(kv.Key), directory))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("leases %v, want %v", got, want)
		}
		return nil
	}
}

// failing distinguishes the failures that the program reports.
var failing = regexp.MustCompile(`WARN failed; retrying (work=\w+) reason=\w+`)

// recovered is the work that works again.
var recovered = regexp.MustCompile(`works again (work=\w+)`)

// TestRust lets the program of examples/bootstrap-rs start on an empty etcd, first alone and then beside a controller
// in Go: they keep the same objects, and each notices when the other one goes.
func TestRust(t *testing.T) {
	rustProgram(t)
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		ctx := t.Context()
		first := startRust(t, etcd, s, "192.0.2.21")
		eventually(t, endpoints(t, client, "192.0.2.21"))
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			eventually(t, func() error {
				_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
				return err
			})
		}
		var service corev1.ServiceSpec
		eventually(t, func() error {
			found, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
			if err == nil {
				service = found.Spec
			}
			return err
		})
		port := corev1.ServicePort{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(6443)}
		if service.ClusterIP != "10.96.0.1" || service.Type != corev1.ServiceTypeClusterIP || len(service.Selector) > 0 || !slices.Equal(service.Ports, []corev1.ServicePort{port}) {
			t.Errorf("%+v", service)
		}
		// Without its ranges the server would give neither address nor port.
		web := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		eventually(t, func() error {
			_, err := client.CoreV1().Services("default").Create(ctx, web, metav1.CreateOptions{})
			return err
		})
		// What is removed in etcd comes back, and damage by hand is repaired.
		removed := []string{"/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes"}
		for _, key := range removed {
			if deleted := must(etcd.Client().Delete(ctx, key)).Deleted; deleted != 1 {
				t.Fatal(key, deleted)
			}
		}
		eventually(t, endpoints(t, client, "192.0.2.21"))
		e := must(client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
		e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, corev1.EndpointAddress{IP: "192.0.2.99"})
		must(client.CoreV1().Endpoints("default").Update(ctx, e, metav1.UpdateOptions{}))
		eventually(t, endpoints(t, client, "192.0.2.21"))

		// An outage of the server is reported once for each reason, and when it is over.
		eventually(t, func() error {
			if first.said("the first repairs have succeeded") == 0 {
				return errors.New("not started")
			}
			return first.works("KubernetesService", "Namespaces")()
		})
		before := len(first.String())
		says := func(text string) func() error {
			return func() error {
				if log := first.String()[before:]; !strings.Contains(log, text) {
					return fmt.Errorf("it does not say %q: %s", text, log)
				}
				return nil
			}
		}
		s.Kill()
		eventually(t, says("failed; retrying"))
		if says("works again")() == nil {
			t.Error("it works without the server")
		}
		s.Restart()
		eventually(t, says("works again"))
		eventually(t, endpoints(t, client, "192.0.2.21"))
		reported := map[string]string{} // with the work
		for line := range strings.Lines(first.String()[before:]) {
			if strings.Contains(line, "another number of API servers") {
				continue // a round says what it found before it repaired, so the damage above is over one round later
			}
			if over := recovered.FindStringSubmatch(line); over != nil {
				maps.DeleteFunc(reported, func(_, work string) bool { return work == over[1] })
				continue
			}
			about := failing.FindStringSubmatch(line)
			if about == nil || reported[about[0]] != "" {
				t.Errorf("it should not say %q", line)
				continue
			}
			reported[about[0]] = about[1]
		}

		// Its lease does not run out while a busy machine stops the test: it is never killed.
		lasting := periods
		lasting.LeaseTTL = 10 * time.Minute
		goes := startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: "192.0.2.11", Periods: lasting})
		both := []string{"192.0.2.11", "192.0.2.21"}
		eventually(t, endpoints(t, client, both...))
		eventually(t, leases(t, etcd, both...))
		signalled := time.Now()
		if err := first.stop(); err != nil {
			t.Error(err)
		}
		t.Logf("SIGTERM: ended after %v", time.Since(signalled))
		// In order: both are gone when it has ended.
		if err := errors.Join(endpoints(t, client, "192.0.2.11")(), leases(t, etcd, "192.0.2.11")()); err != nil {
			t.Error(err)
		}

		second := startRust(t, etcd, s, "192.0.2.22")
		both = []string{"192.0.2.11", "192.0.2.22"}
		eventually(t, endpoints(t, client, both...))
		killed := time.Now()
		if err := second.command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		second.wait()
		// Nobody has removed anything, so the lease runs out; after the next round the address is gone.
		if err := errors.Join(endpoints(t, client, both...)(), leases(t, etcd, both...)()); err != nil {
			t.Error(err)
		}
		eventually(t, leases(t, etcd, "192.0.2.11"))
		eventually(t, endpoints(t, client, "192.0.2.11"))
		t.Logf("SIGKILL: the address is gone after %v", time.Since(killed))

		// The last one of all removes its address, too.
		third := startRust(t, etcd, s, "192.0.2.23")
		eventually(t, endpoints(t, client, "192.0.2.11", "192.0.2.23"))
		if err := goes.stop(); err != nil {
			t.Error(err)
		}
		if err := endpoints(t, client, "192.0.2.23")(); err != nil {
			t.Error(err)
		}
		if err := third.stop(); err != nil {
			t.Error(err)
		}
		if err := leases(t, etcd)(); err != nil {
			t.Error(err)
		}
		e, err := client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil && len(e.Subsets) > 0 || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// TestRustBadInput returns the program what it cannot use: it names that, and writes nothing.
func TestRustBadInput(t *testing.T) {
	program := rustProgram(t)
	for _, bad := range []struct{ names, flag, value string }{
		{"127.0.0.1", "--advertise-address", "127.0.0.1"},
		{"10.96.0.0/33", "--service-cluster-ip-range", "10.96.0.0/33"},
		{"--service-cluster-ip-range", "--service-cluster-ip-range", "10.96.0.0/16,10.97.0.0/16"},
		{"40000-30000", "--service-node-port-range", "40000-30000"},
		{"65536", "--secure-port", "65536"},
		{"/none/kubeconfig", "--kubeconfig", "/none/kubeconfig"},
		{"--endpoints", "--endpoints", "not a URL"},
		{"--unknown", "--unknown", "x"},
	} {
		flags := map[string]string{"--kubeconfig": "/none", "--endpoints": "http://127.0.0.1:1", "--advertise-address": "192.0.2.1"}
		flags[bad.flag] = bad.value
		var arguments []string
		for flag, value := range flags {
			arguments = append(arguments, flag, value)
		}
		var output bytes.Buffer
		command := exec.Command(program, arguments...)
		command.Stdout, command.Stderr = &output, &output
		err := command.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(output.String(), bad.names) {
			t.Errorf("%s %s: %v: %s", bad.flag, bad.value, err, &output)
		}
	}
}
