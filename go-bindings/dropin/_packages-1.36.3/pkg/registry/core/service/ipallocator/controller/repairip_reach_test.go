package controller

import (
	"context"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// newRepairIPAddress makes the controller for the release's tests. They put objects into the caches only, say by creation
// timestamps what came when, and count all requests. So for them
//
//   - the controller has first seen an object at its creation timestamp,
//   - the resource versions are in the order of the creation timestamps,
//   - the API server has the Services that the cache has, and reads of them are not counted.
func newRepairIPAddress(interval time.Duration, client kubernetes.Interface, services coreinformers.ServiceInformer,
	serviceCIDRs networkinginformers.ServiceCIDRInformer, addresses networkinginformers.IPAddressInformer, clock clock.Clock) *RepairIPAddress {
	r := newRepair(interval, cachedServices{client, services.Lister()}, services, serviceCIDRs, addresses, clock)
	// An index function is called when a test puts an object into a cache.
	whenStored := func(informer cache.SharedIndexInformer, stored func(object any)) {
		index := func(object any) ([]string, error) { stored(object); return nil, nil }
		if err := informer.AddIndexers(cache.Indexers{"stored": index}); err != nil {
			panic(err)
		}
	}
	whenStored(services.Informer(), func(object any) { setResourceVersion(object.(*v1.Service)) })
	whenStored(addresses.Informer(), func(object any) {
		address := object.(*networkingv1.IPAddress)
		setResourceVersion(address)
		r.sightings.first(address, address.CreationTimestamp.Time)
	})
	return r
}

func setResourceVersion(object metav1.Object) {
	if created := object.GetCreationTimestamp(); object.GetResourceVersion() == "" && !created.IsZero() {
		object.SetResourceVersion(strconv.FormatInt(created.Unix(), 10))
	}
}

// cachedServices is a client that reads Services from a cache.
type cachedServices struct {
	kubernetes.Interface
	lister corelisters.ServiceLister
}

func (c cachedServices) CoreV1() corev1client.CoreV1Interface {
	return cachedCoreV1{c.Interface.CoreV1(), c.lister}
}

type cachedCoreV1 struct {
	corev1client.CoreV1Interface
	lister corelisters.ServiceLister
}

func (c cachedCoreV1) Services(namespace string) corev1client.ServiceInterface {
	return cachedServicesOf{c.CoreV1Interface.Services(namespace), c.lister.Services(namespace)}
}

type cachedServicesOf struct {
	corev1client.ServiceInterface
	lister corelisters.ServiceNamespaceLister
}

func (c cachedServicesOf) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1.Service, error) {
	return c.lister.Get(name)
}
