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

	"github.com/rangekeeper/rangekeeper/dropin/plan"
)

const (
	serviceName = "kubernetes"
	// The name of the Service's port, and of the endpoints' one.
	portName = "https"
	// How often the Service is planned again when others write it in between.
	tries = 5
	// How often the server is asked whether it is ready.
	readyInterval = 100 * time.Millisecond
)

// Config configures a Controller.
type Config struct {
	// PublicIP is the address of this server's endpoint.
	PublicIP net.IP

	EndpointReconciler reconcilers.EndpointReconciler
	// EndpointInterval is between two rounds.
	EndpointInterval time.Duration

	// ServiceIP is the address of the Service, and ServicePort its port.
	ServiceIP   net.IP
	ServicePort int
	// PublicServicePort is the port on which the servers listen.
	PublicServicePort int
	// KubernetesServiceNodePort, if not 0, makes the Service one of type NodePort.
	KubernetesServiceNodePort int
}

// Controller keeps the Service "kubernetes", and this server's address among its endpoints.
type Controller struct {
	Config

	client        kubernetes.Interface
	serviceLister v1listers.ServiceLister
	serviceSynced cache.InformerSynced

	// stopCh is closed, once, by Stop.
	stopCh   chan struct{}
	stopOnce sync.Once
}

// New makes a controller that has not begun.
func New(config Config, client kubernetes.Interface, serviceInformer v1informers.ServiceInformer) *Controller {
	return &Controller{
		Config:        config,
		client:        client,
		serviceLister: serviceInformer.Lister(),
		serviceSynced: serviceInformer.Informer().HasSynced,
		stopCh:        make(chan struct{}),
	}
}

// Start removes the lease and endpoint of this server's last run, and begins the rounds. They end with stopCh, or by Stop.
func (c *Controller) Start(stopCh <-chan struct{}) {
	if !cache.WaitForCacheSync(stopCh, c.serviceSynced) {
		runtime.HandleError(errors.New("the server ended before the Services could be read"))
		return
	}
	if err := c.removeEndpoint(); err != nil {
		klog.Errorf("Removing this server's old endpoint failed: %v", err)
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

// Run makes rounds, from when the server is ready, until ch is closed. One that fails is tried again after 1 s, 2 s, 4 s and
// so on until the next one is due: a lease does not hold for as long as two of them take.
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
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		turn, cancel := context.WithTimeout(ctx, c.EndpointInterval)
		defer cancel()
		backoff := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt}
		reported := false
		_ = wait.ExponentialBackoffWithContext(turn, backoff, func(context.Context) (bool, error) {
			err := c.UpdateKubernetesService(false)
			if err != nil && !reported {
				runtime.HandleError(fmt.Errorf("Service %q and its endpoints: %w", serviceName, err))
				reported = true
			}
			return err == nil, nil
		})
	}, c.EndpointInterval)
}

// Stop ends the rounds and removes this server's lease and endpoint, so that clients stop coming here. A failure is
// tried again, for two intervals at most: then the lease runs out.
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
					klog.Errorf("Removing this server's endpoint failed: %v", err)
				}
				return err == nil, nil
			})
		}()
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			klog.Warning("This server's endpoint was not removed in time")
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

// UpdateKubernetesService makes one round: the Service, and this server's endpoint, which does not wait for the Service to
// be well. With reconcile it also resets ports and type.
func (c *Controller) UpdateKubernetesService(reconcile bool) error {
	service := c.CreateOrUpdateMasterServiceIfNeeded(serviceName, c.ServiceIP, c.servicePorts(), c.serviceType(), reconcile)
	endpoints := c.EndpointReconciler.ReconcileEndpoints(serviceName, c.PublicIP, c.endpointPorts(), reconcile)
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

// CreateOrUpdateMasterServiceIfNeeded creates the Service where it is missing. With reconcile it also resets ports and type of
// one that exists. The first of the ports is the API servers', and the type is NodePort if it has a NodePort.
func (c *Controller) CreateOrUpdateMasterServiceIfNeeded(serviceName string, serviceIP net.IP, servicePorts []corev1.ServicePort, serviceType corev1.ServiceType, reconcile bool) error {
	if len(servicePorts) == 0 {
		return fmt.Errorf("Service %q needs a port", serviceName)
	}
	first := servicePorts[0]
	question := plan.ServiceQuestion{
		Wanted: plan.WantedService{
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
		change, planErr := plan.Service(question)
		if planErr != nil {
			return planErr
		}
		if !change.IsLeave() {
			klog.Infof("Service %q: %s", serviceName, change)
		}
		if err = change.Make(context.Background(), services, existing); !plan.IsStale(err) {
			return err
		}
		// The cache was late.
		existing, err = services.Get(context.Background(), serviceName, metav1.GetOptions{})
	}
	return err
}
