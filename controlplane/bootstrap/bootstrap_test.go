package bootstrap_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/controller"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const clusterIPRange, nodePortRange = "10.96.0.0/16", "30000-32767"

// patience is for what takes a moment, on a machine that does much else.
const patience = 2 * time.Minute

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// host is a controller beside an API server.
type host struct {
	syncBuffer
	t          *testing.T
	controller *controller.Controller
	cancel     context.CancelFunc
	ended      chan error
}

// periods are those of hosts whose lease may not run out, and that have to remove it when they stop. On a machine that
// does much else a host may miss several turns; a request ends after the period of the endpoints, and a stop after two.
var periods = bootstrap.Periods{Endpoints: 5 * time.Second, LeaseTTL: 30 * time.Second, Namespaces: time.Second, Repairs: time.Minute}

func startHost(t *testing.T, etcd *embedded.Etcd, config *rest.Config, c bootstrap.Config) *host {
	t.Helper()
	if c.Periods == (bootstrap.Periods{}) {
		c.Periods = periods
	}
	c.SecurePort = cmp.Or(c.SecurePort, 6443)
	h := &host{t: t, ended: make(chan error, 1)}
	h.controller = must(controller.New(controller.Config{
		API: config, Etcd: etcd.Client(), Bootstrap: c, Metrics: prometheus.NewRegistry(),
		ClusterIPRanges: []rangekeeper.Range{must(rangekeeper.ParseCIDR(clusterIPRange))},
		NodePortRange:   must(rangekeeper.ParsePortRange(nodePortRange)),
		Log:             slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), h), nil)).With("host", c.AdvertiseAddress),
	}))
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() { h.ended <- h.controller.Run(ctx) }()
	t.Cleanup(func() { h.stop() })
	return h
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// said counts the lines that hold all of these words.
func (b *syncBuffer) said(words ...string) (n int) {
next:
	for line := range strings.Lines(b.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		n++
	}
	return n
}

// since returns what was written after the first so many lines.
func (b *syncBuffer) since(lines int) *syncBuffer {
	later := new(syncBuffer)
	for _, line := range slices.Collect(strings.Lines(b.String()))[lines:] {
		later.text.WriteString(line)
	}
	return later
}

// works succeeds if the last line about each of these works does not say that it fails.
func (b *syncBuffer) works(works ...string) func() error {
	return func() error {
		failing := map[string]bool{}
		for line := range strings.Lines(b.String()) {
			if _, about, ok := strings.Cut(line, "work="); ok {
				failing[strings.Fields(about)[0]] = strings.Contains(line, "failed")
			}
		}
		for _, work := range works {
			if failing[work] {
				return fmt.Errorf("%s does not work", work)
			}
		}
		return nil
	}
}

// fails succeeds if a failure of a work was reported after the first so many lines. One that was reported before is
// reported again a minute later at the earliest.
func (b *syncBuffer) fails(work string, before int) func() error {
	return func() error {
		if b.since(before).said("failed; retrying", "work="+work) == 0 {
			return fmt.Errorf("%s does not fail", work)
		}
		return nil
	}
}

// complaints counts the warnings and errors that a slow machine does not explain: there requests stay unanswered, and
// an API server that has just started cannot allocate yet.
func (b *syncBuffer) complaints() (n int) {
	for line := range strings.Lines(b.String()) {
		slow := strings.Contains(line, "reason=unanswered") || strings.Contains(line, "cannot allocate resources of type")
		if !slow && (strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")) {
			n++
		}
	}
	return n
}

// stop stops it in order.
func (h *host) stop() error {
	h.cancel()
	select {
	case err := <-h.ended:
		h.ended <- err
		return err
	case <-time.After(patience):
		h.t.Error("it does not end")
		return errors.New("it does not end")
	}
}

// eventually waits until the check succeeds.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// endpoints compares both objects with the addresses.
func endpoints(t *testing.T, client kubernetes.Interface, want ...string) func() error {
	return func() error { return apiservertest.CheckEndpoints(t.Context(), client, want...) }
}

// keepHistory is the flag of a server that does not compact etcd.
const keepHistory = "--etcd-compaction-interval=0"

// eachVersion runs a test beside a server of each release without loops. Tests read all revisions of its etcd.
func eachVersion(t *testing.T, test func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset)) {
	for _, v := range apiservertest.Versions() {
		t.Run(string(v), func(t *testing.T) {
			etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true}))
			t.Cleanup(etcd.Close)
			s := apiservertest.Start(t, apiservertest.Config{
				Version: v, Etcd: etcd.Endpoints(), ServiceClusterIPRange: clusterIPRange, ServiceNodePortRange: nodePortRange,
				Flags: []string{keepHistory},
			})
			config := rest.CopyConfig(s.RESTConfig(apiservertest.Admin))
			config.WarningHandler = rest.NoWarnings{}
			test(t, etcd, s, must(kubernetes.NewForConfig(config)))
		})
	}
}

// TestCluster starts on an empty etcd: namespaces, Service and endpoints appear, come
// back when they are gone, and follow three servers that come and go.
func TestCluster(t *testing.T) {
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		ctx := t.Context()
		first := startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: "192.0.2.11"})
		eventually(t, kubernetesObjects(t, client, "192.0.2.11")) // the endpoints come first if no address can be allocated yet
		service := must(client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
		if service.Spec.ClusterIP != "10.96.0.1" || service.Spec.Type != corev1.ServiceTypeClusterIP || len(service.Spec.Selector) > 0 {
			t.Errorf("%+v", service.Spec)
		}
		eventually(t, func() error {
			if !first.controller.Started() {
				return errors.New("not started")
			}
			return nil
		})
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			eventually(t, func() error {
				_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
				return err
			})
		}
		// What is removed in etcd comes back.
		for _, key := range []string{"/registry/namespaces/kube-node-lease", "/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes"} {
			if deleted := must(etcd.Client().Delete(ctx, key)).Deleted; deleted != 1 {
				t.Fatal(key, deleted)
			}
			eventually(t, func() error {
				if n := must(etcd.Client().Get(ctx, key)).Count; n != 1 {
					return fmt.Errorf("%s is not back", key)
				}
				return nil
			})
		}
		second := startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: "192.0.2.12"})
		third := startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: "192.0.2.13"})
		eventually(t, endpoints(t, client, "192.0.2.11", "192.0.2.12", "192.0.2.13"))
		if err := second.stop(); err != nil {
			t.Error(err)
		}
		// In order: it is gone when the stop ends.
		if err := endpoints(t, client, "192.0.2.11", "192.0.2.13")(); err != nil {
			t.Error(err)
		}
		if n := must(etcd.Client().Get(ctx, "/registry/masterleases/", clientv3.WithPrefix())).Count; n != 2 {
			t.Errorf("%d leases", n)
		}
		// Damage by hand.
		e := must(client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
		e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, corev1.EndpointAddress{IP: "192.0.2.99"})
		must(client.CoreV1().Endpoints("default").Update(ctx, e, metav1.UpdateOptions{}))
		eventually(t, endpoints(t, client, "192.0.2.11", "192.0.2.13"))
		if err := errors.Join(first.stop(), third.stop()); err != nil {
			t.Error(err)
		}
	})
}

// TestMasterCount keeps two addresses; nobody looks who lives.
func TestMasterCount(t *testing.T) {
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		mode := bootstrap.MasterCount(2)
		first := startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: "192.0.2.11", Mode: mode})
		eventually(t, endpoints(t, client, "192.0.2.11"))
		startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: "192.0.2.12", Mode: mode})
		eventually(t, endpoints(t, client, "192.0.2.11", "192.0.2.12"))
		if err := first.stop(); err != nil {
			t.Error(err)
		}
		if err := endpoints(t, client, "192.0.2.12")(); err != nil {
			t.Error(err)
		}
		if n := must(etcd.Client().Get(t.Context(), "/registry/masterleases/", clientv3.WithPrefix())).Count; n != 0 {
			t.Errorf("%d leases", n)
		}
	})
}

// TestServerRestarted has the API server gone for a while: each failure is reported once,
// and once that it is over.
func TestServerRestarted(t *testing.T) {
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		h := startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: "192.0.2.11"})
		eventually(t, kubernetesObjects(t, client, "192.0.2.11"))
		eventually(t, h.works("kubernetesService", "namespaces"))
		before := h.said() // at the start, while the server could not allocate yet
		s.Kill()
		works := []string{"kubernetesService", "namespaces"}
		for _, work := range works {
			eventually(t, h.fails(work, before))
		}
		time.Sleep(8 * time.Second) // many rounds
		s.Restart()
		must(etcd.Client().Delete(t.Context(), "/registry/services/endpoints/default/kubernetes"))
		eventually(t, func() error {
			if n := h.since(before).said("works again", "kubernetesService"); n != 1 {
				return fmt.Errorf("%d times", n)
			}
			return endpoints(t, client, "192.0.2.11")()
		})
		for _, work := range works {
			if n := h.since(before).said("failed; retrying", "work="+work); n < 1 || n > 2 { // not answered, and not ready
				t.Errorf("%s: reported %d times", work, n)
			}
		}
	})
}
