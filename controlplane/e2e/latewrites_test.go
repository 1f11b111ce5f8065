package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/server"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/tcpproxy"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	lateServices = 12
	// The ranges have as many ports as free addresses: a /27 without its first and last address and that of kubernetes.
	lateCIDR, latePorts, lateValues = "10.96.0.0/27", "30000-30028", 29
	// deliveryGap lets etcd begin a transaction before the cancellation of the request arrives, which is sent behind
	// it.
	deliveryGap = 20 * time.Millisecond
	// shortTimeout must be enough to allocate the values of all late Services.
	shortTimeout = 8 * time.Second
	// handOutTimeout bounds the wait until a repair has freed the values, and other Services have them.
	handOutTimeout = 3 * time.Minute
	// settleTime is for etcd to carry out what was delivered.
	settleTime = 3 * time.Second
)

// lateWrites is a run in which the writes of Services reach etcd after a delay.
type lateWrites struct {
	spec corev1.ServiceSpec
	// requestTimeout is the flag of the servers; 0 for their default. It is the grace of unused IPAddress objects, too.
	requestTimeout time.Duration
	// delay is how long the writes are held back; 0 for as long as it takes until their values are handed out again.
	delay time.Duration
	// isShuffled reorders the bytes of the connections to etcd.
	isShuffled bool
	// isDelayed gives all that the server sends the same delay, as a slow path does. Else all of it arrives after the
	// delay.
	isDelayed bool
}

// TestLateWrites holds back the writes of Services whose values are allocated, as a stalled gateway in front of etcd
// does, until a repair has freed the values and other Services have them. Then the writes arrive, and must not be
// carried out.
func TestLateWrites(t *testing.T) {
	onEachVersion(t, func(t *testing.T, version apiservertest.Version) {
		for name, spec := range map[string]corev1.ServiceSpec{"ClusterIP": clusterIP, "NodePort": nodePort} {
			runs := map[string]lateWrites{name: {spec: spec, requestTimeout: shortTimeout}}
			if isLong {
				runs[name+"/shuffled"] = lateWrites{spec: spec, requestTimeout: shortTimeout, isShuffled: true}
				runs[name+"/delayed"] = lateWrites{spec: spec, requestTimeout: shortTimeout, isDelayed: true, delay: 20 * time.Second}
				for _, delay := range []time.Duration{10 * time.Second, 75 * time.Second, 180 * time.Second} {
					runs[fmt.Sprintf("%s/%v", name, delay)] = lateWrites{spec: spec, delay: delay}
				}
			}
			for name, run := range runs {
				t.Run(name, func(t *testing.T) {
					t.Parallel() // it waits most of the time
					etcd := run.run(t, version, true)
					checkHistory(t, etcd)
				})
			}
		}
	})
}

// TestStockLateWrites logs the same for stock kube-apiservers.
func TestStockLateWrites(t *testing.T) {
	if os.Getenv(stockVariable) == "" {
		t.Skipf("%s is not set: stock kube-apiservers are only counted for a comparison", stockVariable)
	}
	onEachVersion(t, func(t *testing.T, version apiservertest.Version) {
		for name, spec := range map[string]corev1.ServiceSpec{"ClusterIP": clusterIP, "NodePort": nodePort} {
			// An unused IPAddress object is removed after a minute.
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				lateWrites{spec: spec, delay: 85 * time.Second}.run(t, version, false)
			})
		}
	})
}

func (l lateWrites) run(t *testing.T, version apiservertest.Version, isRangekeeper bool) *clientv3.Client {
	etcd, proxy, clients := startBehindProxy(t, version, isRangekeeper, lateCIDR, l.requestTimeout)
	gate := newGate()
	defer gate.open()
	startWebhook(t, clients, gate.wait)

	var answers sync.WaitGroup
	for i := range lateServices {
		answers.Go(func() {
			// It fails with the timeout of the server, or because its values are not its own any more.
			clients[1].CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), slow(fmt.Sprintf("late-%d", i), l.spec), metav1.CreateOptions{})
		})
	}
	gate.await(t, lateServices)
	if l.isDelayed {
		proxy.Delay(l.delay)
	} else {
		proxy.Hold()
	}
	held := time.Now()
	gate.open()

	ctx, cancel := context.WithTimeout(t.Context(), l.holdTime())
	defer cancel()
	var repairs sync.WaitGroup
	if l.requestTimeout > 0 {
		repairs.Go(func() { repairOften(ctx, t, etcd.Client(), version, lateCIDR, latePorts, l.requestTimeout) })
	} else {
		repairs.Go(func() { repairByCommand(ctx, t, etcd) })
	}
	created := createOthers(ctx, t, clients[0].CoreV1().Services(metav1.NamespaceDefault), "other", l.spec, lateValues)
	if l.delay > 0 {
		<-ctx.Done()
	}
	cancel()
	repairs.Wait()
	took := time.Since(held)
	bytes := proxy.Held()
	proxy.Delay(0)
	if l.isShuffled {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		proxy.DeliverShuffled(rand.New(rand.NewPCG(seed, seed)), deliveryGap)
	} else {
		proxy.Deliver(deliveryGap)
	}
	answers.Wait()
	time.Sleep(settleTime)

	late := 0
	for _, service := range storedServices(t.Context(), etcd.Client()) {
		if strings.HasPrefix(service.Name, "late-") {
			late++
		}
	}
	t.Logf("%d bytes held back for %v; %d of %d values of the late Services were handed out again; %d of %d late Services were written; %v",
		bytes, took.Round(time.Second), created+lateServices-lateValues, lateServices, late, lateServices, readHistory(t, etcd.Client(), 1))
	if l.delay == 0 && created < lateValues {
		t.Errorf("only %d of %d values were handed out in %v", created, lateValues, took)
	}
	return etcd.Client()
}

// startBehindProxy starts two servers on an etcd. The second one reaches it through a proxy.
func startBehindProxy(t *testing.T, version apiservertest.Version, isRangekeeper bool, cidr string, requestTimeout time.Duration) (*embedded.Etcd, *tcpproxy.Proxy, []*kubernetes.Clientset) {
	t.Helper()
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true}))
	t.Cleanup(etcd.Close)
	proxy := tcpproxy.Start(t, must(url.Parse(etcd.Endpoints()[0])).Host)
	var servers []*apiservertest.Server
	for i, endpoint := range []string{etcd.Endpoints()[0], "http://" + proxy.Address()} {
		config := serverConfig([]string{endpoint}, version, isRangekeeper, i)
		config.ServiceClusterIPRange, config.ServiceNodePortRange = cidr, latePorts
		if requestTimeout > 0 {
			config.Flags = append(config.Flags, "--request-timeout="+requestTimeout.String())
		}
		servers = append(servers, startServer(t, config))
	}
	return etcd, proxy, newWorkload(0, servers...).servers
}

func (l lateWrites) holdTime() time.Duration {
	if l.delay > 0 {
		return l.delay
	}
	return handOutTimeout
}

// createOthers creates so many Services, unless the time is over before. They have to wait for values.
func createOthers(ctx context.Context, t *testing.T, services typedv1.ServiceInterface, name string, spec corev1.ServiceSpec, count int) (created int) {
	for created < count && ctx.Err() == nil {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, created)}, Spec: spec}
		_, err := services.Create(ctx, service, metav1.CreateOptions{})
		switch {
		case err == nil || apierrors.IsAlreadyExists(err): // an attempt without an answer has created it
			created++
		case ctx.Err() == nil && !strings.Contains(err.Error(), "range is full"):
			t.Logf("create %s: %v", service.Name, err)
			fallthrough
		default:
			time.Sleep(100 * time.Millisecond)
		}
	}
	return created
}

// repairByCommand frees leaks as soon as an operator can.
func repairByCommand(ctx context.Context, t *testing.T, etcd *embedded.Etcd) {
	for ctx.Err() == nil {
		var out bytes.Buffer
		code := server.Program.Run(ctx, []string{"repair", "--apply", "--clean-leaks", "--passes", "2", "--interval", "1m", "--endpoints", strings.Join(etcd.Endpoints(), ",")}, &out, &out)
		if ctx.Err() == nil && code > 1 {
			t.Errorf("repair ends with %d:\n%s", code, out.String())
		}
	}
}

// repairOften does what the command does, with a shorter interval, which is at least the time of a request as well.
func repairOften(ctx context.Context, t *testing.T, etcd *clientv3.Client, version apiservertest.Version, cidr, ports string, interval time.Duration) {
	names := map[string]rangekeeper.Range{clusterstate.ServiceNodePorts: must(rangekeeper.ParsePortRange(ports))}
	if version == apiservertest.V1_32 {
		names[clusterstate.ServiceIPs] = must(rangekeeper.ParseCIDR(cidr))
	}
	passes := must(rangekeeper.NewLeakTracker(2, interval))
	defer passes.Close()
	var ranges []repair.Range
	options := audit.Options{CleansLeaks: true}
	for name, values := range names {
		store := must(etcdstore.Open(etcdstore.Config{
			Client: etcd, Key: clusterstate.RangeKey(clusterstate.DefaultPrefix, name), Range: values,
			Services: clusterstate.ServiceKeys(clusterstate.DefaultPrefix), Grace: interval,
		}))
		defer store.Close(context.Background())
		ranges = append(ranges, store)
		options.Read = append(options.Read, audit.ReadRange{Name: name, Range: values.String()})
	}
	for ctx.Err() == nil {
		_, err := repair.Drive(ctx, passes, ranges, false, func(pass *rangekeeper.RepairPass, at int64) (*rangekeeper.Report, rangekeeper.ServiceList, error) {
			state, err := clusterstate.ReadEtcd(ctx, etcd, clusterstate.Options{Revision: at})
			if err != nil {
				return nil, rangekeeper.ServiceList{}, err
			}
			options := options
			options.Pass = pass
			audited, err := audit.New(state, options)
			if err != nil {
				return nil, rangekeeper.ServiceList{}, err
			}
			return audited.Core(), rangekeeper.ServiceList{Revision: state.Revision, Guards: true}, nil
		})
		if err != nil && ctx.Err() == nil {
			t.Logf("repair: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}
