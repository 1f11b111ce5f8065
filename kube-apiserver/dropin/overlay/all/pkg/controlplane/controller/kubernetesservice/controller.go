package kubernetesservice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	v1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	v1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/dropin/bootstrapplan"
)

const (
	serviceName = "kubernetes"
	// portName is the name of the port of the Service and of its endpoints.
	portName = "https"
	// tries is the number of attempts to change the Service while other clients write it.
	tries = 5
	// readyInterval is the time between two requests for /readyz.
	readyInterval = 100 * time.Millisecond
)

// Config configures a Controller.
type Config struct {
	// PublicIP is the address of this server's endpoint.
	PublicIP net.IP

	EndpointReconciler reconcilers.EndpointReconciler
	// EndpointInterval is the time between two reconciliations.
	EndpointInterval time.Duration

	// ServiceIP is the address of the Service, and ServicePort its port.
	ServiceIP   net.IP
	ServicePort int
	// PublicServicePort is the port on which the servers listen.
	PublicServicePort int
	// KubernetesServiceNodePort, if not 0, makes the Service one of type NodePort.
	KubernetesServiceNodePort int
}

// Controller reconciles the Service "kubernetes", and this server's address in its endpoints.
type Controller struct {
	Config

	client        kubernetes.Interface
	services      cache.SharedIndexInformer
	serviceLister v1listers.ServiceLister
	// taken is how many attempts in a row have found the Service missing and its address taken.
	taken int

	// stopCh is closed, once, by Stop.
	stopCh   chan struct{}
	stopOnce sync.Once
}

// New returns a controller, which Start starts.
func New(config Config, client kubernetes.Interface, serviceInformer v1informers.ServiceInformer) *Controller {
	return &Controller{
		Config:        config,
		client:        client,
		services:      serviceInformer.Informer(),
		serviceLister: serviceInformer.Lister(),
		stopCh:        make(chan struct{}),
	}
}

// Start removes the lease and endpoint of this server's last run, and reconciles until stopCh is closed or Stop is
// called.
func (c *Controller) Start(stopCh <-chan struct{}) {
	if !cache.WaitForCacheSync(stopCh, c.services.HasSynced) {
		runtime.HandleError(errors.New("the server stopped before its informer had listed the Services"))
		return
	}
	if err := c.removeEndpoint(); err != nil {
		klog.Errorf("Failed to remove the endpoint of this server's last run: %v", err)
	}
	ctx, cancel := context.WithCancel(wait.ContextForChannel(stopCh))
	go func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-c.stopCh:
		}
	}()
	go c.Run(ctx.Done())
}

// Run waits until the server is ready and then reconciles in intervals, and after changes, until ch is closed. It
// retries after 1 s, 2 s, 4 s and so on within an interval: a lease expires before two intervals have passed.
func (c *Controller) Run(ch <-chan struct{}) {
	ctx := wait.ContextForChannel(ch)
	isReady := func(ctx context.Context) (bool, error) {
		var code int
		c.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
		return code == http.StatusOK, nil
	}
	if err := wait.PollUntilContextCancel(ctx, readyInterval, true, isReady); err != nil {
		return
	}
	changes := c.changes(ctx)
	limit := rate.NewLimiter(rate.Every(c.EndpointInterval/eventTurns), eventTurns)
	regular := time.NewTicker(c.EndpointInterval)
	defer regular.Stop()
	for ctx.Err() == nil {
		c.turn(ctx)
		select {
		case <-ctx.Done():
		case <-regular.C:
		case <-changes:
			_ = limit.Wait(ctx) // its error is that of ctx
		}
	}
}

// turn reconciles, and retries within an interval.
func (c *Controller) turn(ctx context.Context) {
	turn, cancel := context.WithTimeout(ctx, c.EndpointInterval)
	defer cancel()
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt}
	reported := false
	_ = wait.ExponentialBackoffWithContext(turn, backoff, func(ctx context.Context) (bool, error) {
		err := c.UpdateKubernetesService(false)
		if err != nil && !reported {
			runtime.HandleError(fmt.Errorf("Service %q and its endpoints: %w", serviceName, err))
			reported = true
		}
		return err == nil, nil
	})
}

// Stop ends the reconciliation and removes this server's lease and endpoint, so that clients use other servers. It
// retries for two intervals at most: then the lease expires.
func (c *Controller) Stop() {
	c.stopOnce.Do(func() {
		close(c.stopCh)
		c.EndpointReconciler.StopReconciling()
		ctx, cancel := context.WithTimeout(context.Background(), 2*c.EndpointInterval)
		go func() {
			defer cancel()
			defer c.EndpointReconciler.Destroy()
			_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
				err := c.removeEndpoint()
				if err != nil {
					klog.Errorf("Failed to remove this server's endpoint; retrying: %v", err)
				}
				return err == nil, nil
			})
		}()
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			klog.Warning("Stopped before this server's endpoint was removed")
		}
	})
}

// removeEndpoint removes this server's endpoint, and its lease if there is one.
func (c *Controller) removeEndpoint() error {
	err := c.EndpointReconciler.RemoveEndpoints(serviceName, c.PublicIP, c.endpointPorts())
	if storage.IsNotFound(err) {
		return nil
	}
	return err
}

// UpdateKubernetesService reconciles the Service and this server's endpoint once, each of them even if the other fails.
// With reconcile it also resets ports and type. A Service that was lost in etcd is recreated at the third call.
func (c *Controller) UpdateKubernetesService(reconcile bool) error {
	service := c.CreateOrUpdateMasterServiceIfNeeded(serviceName, c.ServiceIP, c.servicePorts(), c.serviceType(), reconcile)
	endpoints := c.EndpointReconciler.ReconcileEndpoints(serviceName, c.PublicIP, c.endpointPorts(), reconcile)
	if c.isLost(service) { // after the lease is refreshed, as this takes time
		ctx, cancel := context.WithTimeout(context.Background(), c.EndpointInterval/2)
		defer cancel()
		if err := c.freeAddress(ctx); err != nil {
			service = errors.Join(service, err)
		} else {
			service = c.CreateOrUpdateMasterServiceIfNeeded(serviceName, c.ServiceIP, c.servicePorts(), c.serviceType(), reconcile)
		}
	}
	return errors.Join(service, endpoints)
}

func (c *Controller) servicePorts() []corev1.ServicePort {
	return []corev1.ServicePort{{
		Name:       portName,
		Protocol:   corev1.ProtocolTCP,
		Port:       int32(c.ServicePort),
		TargetPort: intstr.FromInt32(int32(c.PublicServicePort)),
		NodePort:   int32(c.KubernetesServiceNodePort),
	}}
}

func (c *Controller) serviceType() corev1.ServiceType {
	if c.KubernetesServiceNodePort != 0 {
		return corev1.ServiceTypeNodePort
	}
	return corev1.ServiceTypeClusterIP
}

func (c *Controller) endpointPorts() []corev1.EndpointPort {
	return []corev1.EndpointPort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: int32(c.PublicServicePort)}}
}

// CreateOrUpdateMasterServiceIfNeeded creates the Service if it is missing. With reconcile it also resets ports and
// type. The first port is that of the API servers; its NodePort makes the Service one of type NodePort.
func (c *Controller) CreateOrUpdateMasterServiceIfNeeded(serviceName string, serviceIP net.IP, servicePorts []corev1.ServicePort, serviceType corev1.ServiceType, reconcile bool) error {
	if len(servicePorts) == 0 {
		return fmt.Errorf("Service %q has no port", serviceName)
	}
	first := servicePorts[0]
	question := bootstrapplan.ServiceQuestion{
		Wanted: bootstrapplan.WantedService{
			Name:       serviceName,
			ClusterIP:  serviceIP.String(),
			Port:       first.Port,
			PortName:   first.Name,
			SecurePort: first.TargetPort.IntValue(),
			NodePort:   first.NodePort,
			ExtraPorts: servicePorts[1:],
		},
		Reconcile: reconcile,
	}
	services := c.client.CoreV1().Services(metav1.NamespaceDefault)
	existing, err := c.serviceLister.Services(metav1.NamespaceDefault).Get(serviceName)
	for range tries {
		if apierrors.IsNotFound(err) {
			existing = nil
		} else if err != nil {
			return err
		}
		question.Existing = existing
		change, planErr := bootstrapplan.Service(question)
		if planErr != nil {
			return planErr
		}
		if !change.IsLeave() {
			klog.Infof("Service %q: %s", serviceName, change)
		}
		if err = change.Make(context.Background(), services, existing); !bootstrapplan.IsStale(err) {
			return err
		}
		// The cache was out of date.
		existing, err = services.Get(context.Background(), serviceName, metav1.GetOptions{})
	}
	return err
}
