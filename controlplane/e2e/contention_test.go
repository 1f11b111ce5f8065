package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// stockVariable runs the scenarios on stock kube-apiservers, too.
const stockVariable = "RANGEKEEPER_E2E_STOCK"

const (
	shortRounds, longRounds = 10, 200
	// creators is the number of clients that try to create a Service with the value of the scenario's Service.
	creators = 4
	// lingerTime is how long creators retry after the requests are answered. If the value is released twice, the second
	// release can be late.
	lingerTime   = 20 * time.Millisecond
	roundTimeout = time.Minute
)

// testContention releases values while several clients try to create Services with them, and checks that no two
// Services ever have the same value. With one server, all requests go to it. With two servers, the creations go to the
// second one and the deletion or update goes to the first one. If two clients send the update, each has its own server.
func testContention(t *testing.T, etcd *clientv3.Client, servers []*apiservertest.Server) {
	runScenarios(t, etcd, servers, func(t *testing.T, c *contention) {
		if c.duplicates > 0 {
			t.Errorf("two live Services have the same value after %d of %d rounds", c.duplicates, c.played)
		}
		if len(c.violations) > 0 {
			t.Errorf("%d Services were stored with a value of another Service, the first ones:\n%s",
				len(c.violations), strings.Join(c.violations[:min(5, len(c.violations))], "\n"))
		}
		if c.contended < c.floor() {
			t.Errorf("%d of %d rounds contended, want at least %d", c.contended, c.played, c.floor())
		}
		for err, count := range c.otherErrors {
			t.Errorf("%d creations failed: %s", count, err)
		}
	})
	checkAudit(t, etcd)
}

// TestStockContention runs the same scenarios on stock kube-apiservers and logs the counts for docs/differences.md.
// Duplicates do not fail it.
func TestStockContention(t *testing.T) {
	if os.Getenv(stockVariable) == "" {
		t.Skipf("%s is not set: stock kube-apiservers are only counted for a comparison", stockVariable)
	}
	onEachVersion(t, func(t *testing.T, version apiservertest.Version) {
		etcd, servers := startCluster(t, version, false, 2)
		runScenarios(t, etcd, servers, func(t *testing.T, c *contention) {
			for err, count := range c.otherErrors {
				t.Logf("%d creations failed: %s", count, err)
			}
		})
	})
}

// contention counts the rounds of a scenario.
type contention struct {
	scenario
	etcd *clientv3.Client
	// first is the server of the first request, second that of the second request and of the creations.
	first, second typedv1.ServiceInterface

	// rounds are to be played, or more until enough have contended.
	rounds, played int
	// contended is the number of rounds in which a creation that was sent before the last answer to the requests got
	// the value. If the Service keeps its value, it is the number of rounds in which such a creation was refused after
	// this answer.
	contended int
	// duplicates is the number of rounds after which several live Services have the value.
	duplicates int
	// violations are all Services that were stored with a value of another one, even if one of the two is gone after
	// the round.
	violations []string

	mutex sync.Mutex
	// otherErrors are failed creations by their error, except that the value is already allocated.
	otherErrors map[string]int
}

// floor is the number of rounds that have to contend: one proves little if no creation competes with the release. On a
// busy machine one does in 12 of 20 rounds, or in fewer.
func (c *contention) floor() int { return c.rounds / 5 }

// runScenarios runs each scenario with one server and with two. The second server is idle while only one is used.
func runScenarios(t *testing.T, etcd *clientv3.Client, servers []*apiservertest.Server, check func(*testing.T, *contention)) {
	clients := newWorkload(0, servers...).servers
	services := func(client *kubernetes.Clientset) typedv1.ServiceInterface {
		return client.CoreV1().Services(metav1.NamespaceDefault)
	}
	for _, s := range scenarios {
		for i, name := range []string{"one-server", "two-servers"} {
			t.Run(s.name+"/"+name, func(t *testing.T) {
				c := &contention{
					scenario: s, etcd: etcd, first: services(clients[0]), second: services(clients[i]),
					rounds: shortRounds, otherErrors: make(map[string]int),
				}
				if isLong {
					c.rounds = longRounds
				}
				start := must(etcd.Get(t.Context(), "/")).Header.Revision
				for ; c.played < c.rounds || c.contended < c.floor() && c.played < 10*c.rounds; c.played++ {
					c.round(t, c.played)
				}
				c.violations = readHistory(t, etcd, start+1).duplicates
				t.Logf("%d rounds, %d contended, %d ended with a duplicate, %d Services stored with a value of another one, %d other errors",
					c.played, c.contended, c.duplicates, len(c.violations), len(c.otherErrors))
				check(t, c)
			})
		}
	}
}

// round creates the Service, sends the requests while creators compete for its value, counts, and deletes all Services.
func (c *contention) round(t *testing.T, round int) {
	ctx, cancel := context.WithTimeout(t.Context(), roundTimeout)
	defer cancel()
	service := c.createService(ctx, t, fmt.Sprintf("owner-%d", round))
	value, wanted := service.Spec.ClusterIP, *clusterIP.DeepCopy()
	if port := service.Spec.Ports[0].NodePort; port == 0 {
		wanted.ClusterIP = value
	} else {
		value, wanted = portValue(port), *nodePort.DeepCopy()
		wanted.Ports[0].NodePort = port
	}

	var (
		tried, creating, requests sync.WaitGroup
		answered                  atomic.Pointer[time.Time]
		isContended               atomic.Bool
	)
	for i := range creators {
		tried.Add(1)
		creating.Go(func() {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("creator-%d-%d", round, i)}, Spec: wanted}
			if c.create(ctx, service, sync.OnceFunc(tried.Done), &answered) {
				isContended.Store(true)
			}
		})
	}
	tried.Wait()
	for i, send := range c.requests {
		requests.Go(func() {
			if err := send(ctx, []typedv1.ServiceInterface{c.first, c.second}[i], service); err != nil {
				t.Errorf("round %d, request %d: %v", round, i, err)
			}
		})
	}
	requests.Wait()
	answered.Store(new(time.Now()))
	creating.Wait()

	if isContended.Load() {
		c.contended++
	}
	live, owners := c.liveServices(ctx, value)
	if len(owners) > 1 {
		c.duplicates++
	}
	if c.isTerminating && slices.Contains(live, service.Name) {
		t.Fatalf("round %d: %s is not deleted", round, service.Name)
	}
	if c.keepsValue && !slices.Contains(owners, service.Name) {
		t.Errorf("round %d: %s does not have %s any more, the owners are %v", round, service.Name, value, owners)
	}
	for _, name := range live {
		if err := c.first.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("round %d: delete %s: %v", round, name, err)
		}
	}
}

// create retries until the Service is created, or until lingerTime after the requests were answered. It returns whether
// it has contended.
func (c *contention) create(ctx context.Context, service *corev1.Service, tried func(), answered *atomic.Pointer[time.Time]) (contended bool) {
	for {
		start := time.Now()
		_, err := c.second.Create(ctx, service, metav1.CreateOptions{})
		tried()
		end := answered.Load()
		if err == nil {
			return !c.keepsValue && (end == nil || start.Before(*end))
		}
		c.countError(service.Name, err)
		if end != nil {
			contended = contended || c.keepsValue && start.Before(*end)
		}
		if ctx.Err() != nil || end != nil && start.Sub(*end) > lingerTime {
			return contended
		}
	}
}

// liveServices returns the names of all Services but "kubernetes", and of those that have a value.
func (c *contention) liveServices(ctx context.Context, value string) (live, owners []string) {
	for _, s := range storedServices(ctx, c.etcd) {
		if s.Name == "kubernetes" {
			continue
		}
		live = append(live, s.Name)
		if slices.Contains(valuesOf(&s), value) {
			owners = append(owners, s.Name)
		}
	}
	return live, owners
}

// createService creates the scenario's Service. The server chooses the value, so a leaked value of an earlier round
// does no harm.
func (c *contention) createService(ctx context.Context, t *testing.T, name string) *corev1.Service {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: c.spec}
	if c.isTerminating {
		service.Finalizers = []string{finalizer}
	}
	service, err := c.first.Create(ctx, service, metav1.CreateOptions{})
	if err == nil && c.isTerminating {
		err = c.first.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err == nil {
		service, err = c.first.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range service.Spec.Ports {
		if port.NodePort != service.Spec.Ports[0].NodePort {
			t.Fatalf("the ports of %s do not share a node port: %v", name, service.Spec.Ports)
		}
	}
	return service
}

func (c *contention) countError(name string, err error) {
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "is already allocated") {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.otherErrors[strings.ReplaceAll(err.Error(), name, "NAME")]++
}
