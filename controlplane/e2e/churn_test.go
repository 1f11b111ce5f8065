package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
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

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

const (
	churners = 24
	// namesOfChurner is the number of Services that a client may have at a time, and portsOfChurn the largest number of
	// node ports of one of them.
	namesOfChurner, portsOfChurn = 2, 2
	// churnPorts are 128, of which clients use 60 or so at a time.
	churnPorts = "30000-30127"
	// requestLimit ends a request of a client whose server does not answer.
	requestLimit = 10 * time.Second
)

// churn creates, updates and deletes Services with node ports by many clients over several servers, whatever the
// answers are, as clients do that do not know of a fault.
type churn struct {
	servers []*kubernetes.Clientset
	// pause is the time between two requests of a client.
	pause time.Duration
	// spec returns that of a new Service, and change changes one.
	spec                      func() corev1.ServiceSpec
	change                    func(*corev1.ServiceSpec)
	created, updated, deleted atomic.Int64
	stop                      func()

	mutex sync.Mutex
	// errors are the failed requests by their reasons.
	errors map[string]int
	// full are creations that the server refused as the range was full.
	full int
}

// startChurn runs until stop.
func startChurn(t *testing.T, pause time.Duration, servers ...*apiservertest.Server) *churn {
	return startChurnOf(t, pause, withNodePorts, changeNodePorts, servers...)
}

// startChurnOf runs until stop, with Services of other kinds.
func startChurnOf(t *testing.T, pause time.Duration, spec func() corev1.ServiceSpec, change func(*corev1.ServiceSpec), servers ...*apiservertest.Server) *churn {
	c := &churn{servers: newWorkload(0, servers...).servers, pause: pause, spec: spec, change: change}
	c.reset()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range churners {
		group.Go(func() {
			for ctx.Err() == nil {
				c.step(fmt.Sprintf("s-%d-%d", i, rand.IntN(namesOfChurner)))
				time.Sleep(c.pause)
			}
		})
	}
	c.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	t.Cleanup(c.stop)
	return c
}

// step sends one request about a Service to one of the servers.
func (c *churn) step(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	services := c.servers[rand.IntN(len(c.servers))].CoreV1().Services(metav1.NamespaceDefault)
	service, err := services.Get(ctx, name, metav1.GetOptions{})
	count := &c.created
	switch {
	case apierrors.IsNotFound(err):
		_, err = services.Create(ctx, slow(name, c.spec()), metav1.CreateOptions{}) // if the cluster has the webhook
	case err != nil:
	case rand.IntN(2) == 0:
		count = &c.updated
		c.change(&service.Spec)
		_, err = services.Update(ctx, service, metav1.UpdateOptions{})
	default:
		count = &c.deleted
		err = services.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err == nil {
		count.Add(1)
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.errors[string(apierrors.ReasonForError(err))]++
	if strings.Contains(err.Error(), "range is full") {
		c.full++
	}
}

// keep creates Services that no client changes. Directly after a restore of etcd the servers' watch caches miss them,
// as they have seen the revisions of these writes already.
func (c *churn) keep(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		services := c.servers[i%len(c.servers)].CoreV1().Services(metav1.NamespaceDefault)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("kept-%d", i)}, Spec: nodePort}
		for end := time.Now().Add(patience); ; time.Sleep(c.pause) {
			_, err := services.Create(t.Context(), service, metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) {
				break
			}
			if time.Now().After(end) {
				t.Errorf("create %s: %v", service.Name, err)
				return
			}
		}
	}
}

// withNodePorts returns the spec of a Service with one node port, or with two of them.
func withNodePorts() corev1.ServiceSpec {
	if rand.IntN(4) > 0 {
		return nodePort
	}
	return corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: ports("TCP")}
}

// changeNodePorts takes a Service its node ports, or gives it one.
func changeNodePorts(s *corev1.ServiceSpec) {
	kind := corev1.ServiceTypeNodePort
	if s.Type == kind {
		kind = corev1.ServiceTypeClusterIP
		toCluster(s)
		s.ExternalTrafficPolicy = ""
	}
	s.Type = kind
}

// refused counts the failed requests.
func (c *churn) refused() (count int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, n := range c.errors {
		count += n
	}
	return count
}

// reset restarts the counts.
func (c *churn) reset() {
	c.created.Store(0)
	c.updated.Store(0)
	c.deleted.Store(0)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.errors, c.full = make(map[string]int), 0
}

// awaitProgress waits until the clients have created as many Services as they are.
func (c *churn) awaitProgress(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); c.created.Load() < churners; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%d clients have created only %d Services", churners, c.created.Load())
			return
		}
	}
}

// String counts.
func (c *churn) String() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var failed []string
	for _, reason := range slices.Sorted(maps.Keys(c.errors)) {
		failed = append(failed, fmt.Sprintf("%d %q", c.errors[reason], reason))
	}
	return fmt.Sprintf("%d creates, %d updates, %d deletes, %d with a full range, failed: %s",
		c.created.Load(), c.updated.Load(), c.deleted.Load(), c.full, strings.Join(failed, ", "))
}

// leaks returns the node ports, and the other values, that are recorded as allocated and that no Service has, however
// new they are.
func leaks(t *testing.T, etcd *clientv3.Client) (ports, others []string) {
	t.Helper()
	state := must(clusterstate.ReadEtcd(t.Context(), etcd, clusterstate.Options{}))
	for _, leak := range must(audit.New(state, audit.Options{Now: time.Now().Add(time.Hour)})).Report().Leaks {
		if leak.Range == clusterstate.ServiceNodePorts {
			ports = append(ports, leak.Value)
		} else {
			others = append(others, leak.Value)
		}
	}
	return ports, others
}
