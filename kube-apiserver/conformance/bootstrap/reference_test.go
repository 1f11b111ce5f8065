package bootstrap

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
	"k8s.io/kubernetes/pkg/controlplane/controller/systemnamespaces"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	netutils "k8s.io/utils/net"
)

// reference is a server with the controllers of k8s.io/kubernetes.
type reference struct {
	t          *testing.T
	world      *world
	client     kubernetes.Interface
	config     config
	controller *kubernetesservice.Controller
	services   informer
	// life ends when the server is killed.
	life  context.Context
	kills context.CancelFunc
}

func newReference(t *testing.T, w *world, c config) server {
	r := &reference{t: t, world: w, client: clientOf(w), config: c}
	r.life, r.kills = context.WithCancel(t.Context())
	adapter := reconcilers.NewEndpointsAdapter(r.client.CoreV1(), r.client.DiscoveryV1())
	var endpoints reconcilers.EndpointReconciler
	switch {
	case c.none:
		endpoints = reconcilers.NewNoneEndpointReconciler()
	case c.count > 0:
		endpoints = reconcilers.NewMasterCountEndpointReconciler(c.count, adapter)
	default:
		stored, err := w.storageConfig(api.Resource("apiServerIPInfo"))
		check(t, err)
		leases, err := reconcilers.NewLeases(stored, "/masterleases/", 15*time.Second)
		check(t, err)
		t.Cleanup(leases.Destroy)
		endpoints = reconcilers.NewLeaseEndpointReconciler(adapter, leases)
	}
	_, cidr, err := netutils.ParseCIDRSloppy(c.serviceRange)
	check(t, err)
	serviceIP, err := netutils.GetIndexedIP(cidr, 1)
	check(t, err)
	r.services = newInformer(w, "Service")
	r.controller = kubernetesservice.New(kubernetesservice.Config{
		PublicIP: net.ParseIP(c.address), EndpointReconciler: endpoints, EndpointInterval: 10 * time.Second,
		ServiceIP: serviceIP, ServicePort: 443, PublicServicePort: 6443, KubernetesServiceNodePort: c.nodePort,
	}, notReady{r.client}, serviceInformer{r.services})
	return r
}

// start does the work of a server that is not ready yet.
func (r *reference) start() {
	namespaces := newInformer(r.world, "Namespace")
	namespaces.fill(r.t)
	names := append([]string{"kube-system", "kube-public", "kube-node-lease", "default"}, r.config.namespaces...)
	stop := make(chan struct{})
	defer close(stop)
	go systemnamespaces.NewController(names, r.client, namespaceInformer{namespaces}).Run(stop)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		missing := 0
		for _, name := range names {
			if _, err := r.world.get("Namespace", "", name); err != nil {
				missing++
			}
		}
		if missing == 0 {
			break
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d of the reference's namespaces were not created", missing)
		}
	}
	r.controller.Start(r.life.Done())
}

// run syncs once. The controller logs errors and retries them in the next sync.
func (r *reference) run() {
	r.services.fill(r.t)
	c := r.config
	if len(c.servicePorts)+len(c.endpointPorts) == 0 {
		r.controller.UpdateKubernetesService(c.reconcile)
		return
	}
	// Since 1.32 the controller has no extra ports, but its parts still accept them.
	servicePorts := append([]corev1.ServicePort{{Name: "https", Protocol: "TCP", Port: 443, TargetPort: intstr.FromInt32(6443), NodePort: int32(c.nodePort)}}, c.servicePorts...)
	serviceType := corev1.ServiceTypeClusterIP
	if c.nodePort > 0 {
		serviceType = corev1.ServiceTypeNodePort
	}
	err := r.controller.CreateOrUpdateMasterServiceIfNeeded("kubernetes", r.controller.ServiceIP, servicePorts, serviceType, c.reconcile)
	if err != nil {
		return
	}
	endpointPorts := append([]corev1.EndpointPort{{Name: "https", Protocol: "TCP", Port: 6443}}, c.endpointPorts...)
	r.controller.EndpointReconciler.ReconcileEndpoints("kubernetes", r.controller.PublicIP, endpointPorts, c.reconcile)
}

func (r *reference) stop() { r.controller.Stop() }

func (r *reference) kill() { r.kills() }

// clientOf returns a client of a world.
func clientOf(w *world) kubernetes.Interface {
	client := &fake.Clientset{}
	kindsByResource := map[string]string{}
	for kind, resource := range kinds {
		kindsByResource[resource.Resource] = kind
	}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		kind := kindsByResource[action.GetResource().Resource]
		var object runtime.Object
		var err error
		switch action := action.(type) {
		// A DeleteAction is a GetAction too, and a CreateAction an UpdateAction, so the verb decides.
		case clienttesting.GetAction:
			if action.GetVerb() == "delete" {
				err = w.delete(kind, action.GetNamespace(), action.GetName(), nil)
			} else {
				object, err = w.get(kind, action.GetNamespace(), action.GetName())
			}
		case clienttesting.UpdateAction:
			if action.GetVerb() == "create" {
				object, err = w.create(action.GetObject())
			} else {
				object, err = w.update(action.GetObject())
			}
		default:
			err = errors.New("no request of the bootstrap controller: " + action.GetVerb())
		}
		return true, object, err
	})
	return client
}

// notReady is a client of a server that never becomes ready. So the loop does not start, and the test calls each sync.
type notReady struct{ kubernetes.Interface }

func (c notReady) CoreV1() corev1client.CoreV1Interface { return notReadyCore{c.Interface.CoreV1()} }

type notReadyCore struct{ corev1client.CoreV1Interface }

func (notReadyCore) RESTClient() restclient.Interface {
	return &restfake.RESTClient{NegotiatedSerializer: legacyscheme.Codecs, Err: errors.New("not ready")}
}

// informer is a shared informer with the objects of the last fill.
type informer struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
	world   *world
	kind    string
}

func newInformer(w *world, kind string) informer {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return informer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace), world: w, kind: kind}
}

func (i informer) HasSynced() bool { return true }

func (i informer) fill(t *testing.T) {
	objects, err := i.world.all(i.kind)
	check(t, err)
	check(t, i.indexer.Replace(nil, ""))
	for _, object := range objects {
		check(t, i.indexer.Add(object))
	}
}

type serviceInformer struct{ informer }

func (i serviceInformer) Informer() cache.SharedIndexInformer { return i.informer }
func (i serviceInformer) Lister() listers.ServiceLister       { return listers.NewServiceLister(i.indexer) }

type namespaceInformer struct{ informer }

func (i namespaceInformer) Informer() cache.SharedIndexInformer { return i.informer }
func (i namespaceInformer) Lister() listers.NamespaceLister {
	return listers.NewNamespaceLister(i.indexer)
}
