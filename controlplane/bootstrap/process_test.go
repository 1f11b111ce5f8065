package bootstrap_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

const (
	// leaseTTL and endpointsPeriod are what the process has; nothing sets them.
	leaseTTL, endpointsPeriod = 15 * time.Second, 10 * time.Second
	// room is for a machine that does much else.
	room = time.Minute
)

// process is `rangekeeper controller` beside an API server.
type process struct {
	*etcdtest.Process
	syncBuffer
}

// processes returns what starts them beside a server.
func processes(t *testing.T, etcd []string, s *apiservertest.Server) func(address string, flags ...string) *process {
	kubeconfig := s.Kubeconfig(apiservertest.Admin)
	return func(address string, flags ...string) *process {
		t.Helper()
		p := &process{Process: etcdtest.StartProcess(t, rangekeeperRole, append([]string{
			"controller", "--kubeconfig", kubeconfig, "--endpoints", strings.Join(etcd, ","), "--advertise-address", address,
			"--service-cluster-ip-range", clusterIPRange, "--service-node-port-range", nodePortRange, "--healthz-bind-address", "",
		}, flags...)...)}
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			io.Copy(io.MultiWriter(&p.syncBuffer, t.Output()), p.Stdout)
		}()
		t.Cleanup(func() {
			p.Kill()
			<-copied
		})
		return p
	}
}

// TestProcesses runs three controllers as processes: in lease mode, where one that is
// killed goes with its lease, and in master-count mode, where it stays until there are
// too many; who stops in order is gone at once in both.
func TestProcesses(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		t.Parallel()
		start := processes(t, etcd.Endpoints(), s)
		terminate := func(p *process, left ...string) {
			t.Helper()
			if err := p.Terminate(); err != nil {
				t.Error(err)
			}
			if err := endpoints(t, client, left...)(); err != nil { // in order: it is gone with its process
				t.Error(err)
			}
		}
		const a, b, c = "192.0.2.11", "192.0.2.12", "192.0.2.13"

		first, second, third := start(a), start(b), start(c)
		eventually(t, kubernetesObjects(t, client, a, b, c))
		eventually(t, leases(t, etcd, a, b, c))
		second.Kill()
		// Its lease lives as long as the test needs it to.
		lease := clientv3.LeaseID(must(etcd.Client().Get(t.Context(), leaseDirectory+b)).Kvs[0].Lease)
		if granted := must(etcd.Client().TimeToLive(t.Context(), lease)).GrantedTTL; granted != int64(leaseTTL.Seconds()) {
			t.Errorf("the lease lives for %d s", granted)
		}
		needed, lapse := context.WithCancel(t.Context())
		must(etcd.Client().KeepAlive(needed, lease))
		terminate(third, a, b)
		if err := leases(t, etcd, a, b)(); err != nil {
			t.Error(err)
		}
		third = start(c)
		eventually(t, endpoints(t, client, a, b, c))
		lapse()
		var ended time.Time // of the lease
		for gone := false; !gone; time.Sleep(50 * time.Millisecond) {
			listed := endpoints(t, client, a, c)
			err := listed()
			lives := must(etcd.Client().Get(t.Context(), leaseDirectory+b, clientv3.WithCountOnly())).Count > 0
			if !lives && ended.IsZero() {
				ended = time.Now()
			}
			switch {
			case err == nil && lives:
				t.Fatal("it is gone before its lease")
			case err == nil:
				gone = true
			case !lives && time.Since(ended) > endpointsPeriod+room:
				t.Fatalf("%v after its lease has ended: %v", time.Since(ended), err)
			}
		}
		t.Logf("killed: gone %v after its lease", time.Since(ended))
		second = start(b)
		eventually(t, kubernetesObjects(t, client, a, b, c))
		terminate(first, b, c)
		terminate(second, c)
		terminate(third)
		if err := leases(t, etcd)(); err != nil {
			t.Error(err)
		}

		const d = "192.0.2.120" // as text between b and c: c is the one to go when it comes
		count := []string{"--endpoint-reconciler-type", "master-count", "--apiserver-count", "3"}
		first, second, third = start(a, count...), start(b, count...), start(c, count...)
		eventually(t, kubernetesObjects(t, client, a, b, c))
		third.Kill()
		for end := time.Now().Add(leaseTTL + endpointsPeriod); time.Now().Before(end); time.Sleep(time.Second) {
			if err := kubernetesObjects(t, client, a, b, c)(); err != nil {
				t.Fatal("nobody looks who lives: ", err)
			}
		}
		fourth := start(d, count...)
		eventually(t, kubernetesObjects(t, client, a, b, d))
		terminate(second, a, d)
		terminate(first, d)
		terminate(fourth)
		if err := leases(t, etcd)(); err != nil {
			t.Error(err)
		}
		for _, p := range []*process{first, second, third, fourth} {
			if n := p.complaints(); n > 0 {
				t.Errorf("%d complaints", n)
			}
		}
	})
}
