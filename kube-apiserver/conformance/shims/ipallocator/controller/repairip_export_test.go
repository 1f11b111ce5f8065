package controller

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// newRepairIPAddress returns the controller for the released tests. They put objects into the caches only, order them
// by creation timestamps, and count all requests. So in these tests
//
//   - the controller first saw an object at its creation timestamp;
//   - if the released grace of an object is shorter, the controller first saw the object earlier by the difference;
//   - the API server has the cached Services, and reads of them are not counted;
//   - it has the cached IPAddress objects, and the write of one that is about to be deleted is not counted;
//   - that of one which gets other labels or another reference is counted as a deletion and a creation;
//   - the check of an object does not find the Service that has its address: the released one deletes the object, for
//     which the check of that Service creates another one.
func newRepairIPAddress(interval time.Duration, client kubernetes.Interface, services coreinformers.ServiceInformer,
	serviceCIDRs networkinginformers.ServiceCIDRInformer, addresses networkinginformers.IPAddressInformer, clock clock.Clock) *RepairIPAddress {
	r := newRepair(interval, cached{client, services.Lister(), addresses.Lister()}, services, serviceCIDRs, addresses, clock)
	r.serviceIndexer = cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	// The cache calls an index function when a test adds an object.
	stored := func(object any) ([]string, error) {
		address := object.(*networkingv1.IPAddress)
		created := address.CreationTimestamp.Time
		r.sightings.first(address, created.Add(releasedGraceOf(address, r.serviceLister)-r.requestGrace))
		return nil, nil
	}
	if err := addresses.Informer().AddIndexers(cache.Indexers{"stored": stored}); err != nil {
		panic(err)
	}
	return r
}

// releasedGraceOf returns the age at which the released code deletes an object that its Service does not use.
func releasedGraceOf(address *networkingv1.IPAddress, services corelisters.ServiceLister) time.Duration {
	parent, _ := parentOf(address)
	service, err := services.Services(parent.Namespace).Get(parent.Name)
	switch {
	case err != nil, service.Spec.Type == v1.ServiceTypeExternalName:
		return time.Minute
	case address.CreationTimestamp.After(service.CreationTimestamp.Time):
		return 5 * time.Second
	}
	return 0
}

// cached is a client that reads Services and IPAddress objects from caches.
type cached struct {
	kubernetes.Interface
	lister    corelisters.ServiceLister
	addresses networkinglisters.IPAddressLister
}

func (c cached) NetworkingV1() networkingv1client.NetworkingV1Interface {
	return cachedNetworkingV1{c.Interface.NetworkingV1(), c.addresses}
}

type cachedNetworkingV1 struct {
	networkingv1client.NetworkingV1Interface
	lister networkinglisters.IPAddressLister
}

func (c cachedNetworkingV1) IPAddresses() networkingv1client.IPAddressInterface {
	return cachedIPAddresses{c.NetworkingV1Interface.IPAddresses(), c.lister}
}

type cachedIPAddresses struct {
	networkingv1client.IPAddressInterface
	lister networkinglisters.IPAddressLister
}

func (c cachedIPAddresses) Get(_ context.Context, name string, _ metav1.GetOptions) (*networkingv1.IPAddress, error) {
	return c.lister.Get(name)
}

func (c cachedIPAddresses) Update(ctx context.Context, address *networkingv1.IPAddress, _ metav1.UpdateOptions) (*networkingv1.IPAddress, error) {
	if _, isMark := address.Annotations[removing]; isMark {
		return address, nil
	}
	if err := c.Delete(ctx, address.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return c.Create(ctx, address, metav1.CreateOptions{})
}

func (c cached) CoreV1() corev1client.CoreV1Interface {
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
