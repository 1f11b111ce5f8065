package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

const (
	clients = 32
	// retryPause gives a killed server time to restart.
	retryPause = 100 * time.Millisecond
)

// workload creates, updates and deletes Services by many clients over several servers.
type workload struct {
	// servers has a client per server, ours only those of servers with Rangekeeper inside.
	servers, ours []*kubernetes.Clientset
	// refused counts the requests that had to fail, retried the repeated attempts.
	created, updated, deleted, refused, retried atomic.Int64
	// half is closed when half of the Services are created.
	half chan struct{}
	// prefix begins the names of the Services.
	prefix   string
	services int
	// end, if set, stops the workload before all Services are created.
	end time.Time
	// pause is the time between the creation of a Service and the next request about it.
	pause time.Duration
}

func newWorkload(services int, servers ...*apiservertest.Server) *workload {
	w := &workload{half: make(chan struct{}), services: services}
	for _, server := range servers {
		config := server.RESTConfig(apiservertest.Admin)
		config.QPS = -1
		client := must(kubernetes.NewForConfig(config))
		w.servers = append(w.servers, client)
		if server.Rangekeeper() {
			w.ours = append(w.ours, client)
		}
	}
	return w
}

// form is a kind of Service, with the updates that follow its creation.
type form struct {
	name    string
	spec    corev1.ServiceSpec
	changes []func(*corev1.ServiceSpec)
}

func ports(protocols ...corev1.Protocol) (all []corev1.ServicePort) {
	for i, protocol := range protocols {
		all = append(all, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(80 + i), Protocol: protocol})
	}
	return all
}

func toType(to corev1.ServiceType) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.Type = to }
}

func families(policy corev1.IPFamilyPolicy) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = &policy }
}

// single drops the second family.
func single(s *corev1.ServiceSpec) {
	s.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	s.IPFamilies, s.ClusterIPs = s.IPFamilies[:1], s.ClusterIPs[:1]
}

func affinity(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }

func external(s *corev1.ServiceSpec) {
	*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
}

func toLocal(s *corev1.ServiceSpec) {
	s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func toCluster(s *corev1.ServiceSpec) {
	s.ExternalTrafficPolicy, s.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
}

var forms = []form{
	{"cluster-ip", corev1.ServiceSpec{Ports: ports("TCP")}, []func(*corev1.ServiceSpec){toType(corev1.ServiceTypeNodePort), toType(corev1.ServiceTypeClusterIP)}},
	{"node-port", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports("TCP", "UDP")}, []func(*corev1.ServiceSpec){toLocal, affinity, toCluster, toType(corev1.ServiceTypeClusterIP)}},
	{"shared-node-port", sharedNodePort, []func(*corev1.ServiceSpec){dropSecondPort, toType(corev1.ServiceTypeClusterIP)}},
	{"load-balancer", corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: ports("TCP")},
		[]func(*corev1.ServiceSpec){toCluster, toLocal, toType(corev1.ServiceTypeNodePort)}},
	{"headless", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: ports("TCP")}, []func(*corev1.ServiceSpec){affinity}},
	{"external-name", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}, nil},
	{"dual-stack", corev1.ServiceSpec{IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack), Ports: ports("TCP")}, []func(*corev1.ServiceSpec){single, families(corev1.IPFamilyPolicyRequireDualStack)}},
	{"upgraded", corev1.ServiceSpec{Ports: ports("UDP")}, []func(*corev1.ServiceSpec){families(corev1.IPFamilyPolicyPreferDualStack), single}},
	{"to-external-name", corev1.ServiceSpec{Ports: ports("TCP")}, []func(*corev1.ServiceSpec){external}},
}

// run creates all Services, recreates some of them, and deletes every fourth one at the end.
func (w *workload) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	var next atomic.Int64
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < w.services && (w.end.IsZero() || time.Now().Before(w.end)); i = int(next.Add(1)) - 1 {
				if err := w.runService(ctx, i); err != nil {
					t.Errorf("Service %d, %s: %v", i, forms[i%len(forms)].name, err)
				}
				if i == w.services/2 {
					close(w.half)
				}
			}
		})
	}
	group.Wait()
}

// runService creates, updates and deletes one Service, once or twice.
func (w *workload) runService(ctx context.Context, i int) error {
	form := forms[i%len(forms)]
	name := fmt.Sprintf("%s%s-%d", w.prefix, form.name, i)
	lives := 1
	if i%8 >= 6 || i%3 == 0 {
		lives = 2
	}
	for life := range lives {
		if err := w.create(ctx, name, form.spec); err != nil {
			return fmt.Errorf("create: %w", err)
		}
		time.Sleep(w.pause)
		if err := w.createTwice(ctx, name, form.spec); err != nil {
			return fmt.Errorf("create twice: %w", err)
		}
		for n, change := range form.changes {
			if err := w.update(ctx, name, change); err != nil {
				return fmt.Errorf("change %d: %w", n, err)
			}
		}
		if life+1 < lives || i%4 == 0 {
			if err := w.remove(ctx, name); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
		}
	}
	return nil
}

func (w *workload) create(ctx context.Context, name string, spec corev1.ServiceSpec) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}, Spec: spec}
	return w.try(ctx, w.servers, &w.created, func(c *kubernetes.Clientset, again bool) error {
		_, err := c.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
		if again && apierrors.IsAlreadyExists(err) {
			return nil // an attempt without an answer has created it
		}
		return err
	})
}

// createTwice creates a Service that exists. The server allocates values for it and has to release them.
func (w *workload) createTwice(ctx context.Context, name string, spec corev1.ServiceSpec) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}, Spec: spec}
	return w.try(ctx, w.servers, &w.refused, func(c *kubernetes.Clientset, _ bool) error {
		_, err := c.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err):
			return nil
		case err == nil:
			return errors.New("a Service was created twice")
		}
		return err
	})
}

func (w *workload) update(ctx context.Context, name string, change func(*corev1.ServiceSpec)) error {
	servers := w.servers
	if len(w.ours) > 0 {
		// A stock kube-apiserver releases a value before it writes the Service that gives it up, so a new owner can be
		// stored first.
		servers = w.ours
	}
	return w.try(ctx, servers, &w.updated, func(c *kubernetes.Clientset, _ bool) error {
		service, err := c.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&service.Spec)
		_, err = c.CoreV1().Services(metav1.NamespaceDefault).Update(ctx, service, metav1.UpdateOptions{})
		return err
	})
}

func (w *workload) remove(ctx context.Context, name string) error {
	return w.try(ctx, w.servers, &w.deleted, func(c *kubernetes.Clientset, again bool) error {
		err := c.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
		if again && apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// try repeats a request on one server after the other. It retries conflicts and the errors of a server that stops or
// starts: until a server has seen the ServiceCIDRs, its range is "full".
func (w *workload) try(ctx context.Context, servers []*kubernetes.Clientset, count *atomic.Int64, do func(c *kubernetes.Clientset, again bool) error) error {
	at := rand.IntN(len(servers))
	for again := false; ; again = true {
		err := do(servers[at%len(servers)], again)
		var network net.Error
		switch {
		case err == nil:
			count.Add(1)
			return nil
		case ctx.Err() != nil:
			return err
		case apierrors.IsConflict(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err),
			errors.As(err, &network), apierrors.IsUnexpectedServerError(err), apierrors.IsInternalError(err),
			strings.Contains(err.Error(), "unexpected error when reading response body. Please retry."): // of client-go, without a type
		default:
			return err
		}
		w.retried.Add(1)
		time.Sleep(retryPause)
		at++
	}
}
