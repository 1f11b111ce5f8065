package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/compat/ipallocator"
	"github.com/rangekeeper/rangekeeper/controlplane/requesttimeout"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	// cacheGrace is the time for which a cache may be stale.
	cacheGrace = 5 * time.Second
	// firstPassPause is between two attempts at the first pass.
	firstPassPause = time.Second
	// repairWorkers is the number of Services, and of objects, that are checked concurrently.
	repairWorkers = 5
	// repairTries is the number of retries before an object waits for the next interval.
	repairTries = 15
	// defaultServiceCIDR is the name of the ServiceCIDR that the first API server creates.
	defaultServiceCIDR = "kubernetes"
	// byClusterIP is the index of Services by their addresses.
	byClusterIP = "rangekeeper.clusterIP"
)

// RepairIPAddress repairs drift between IPAddress objects and Services: each ClusterIP needs an object that refers to
// its Service, and each object of the allocator needs a Service that uses it. It reports drift in Events. It checks
// objects that change, and all of them once per interval.
//
// A request creates an object before it writes the Service. So the controller deletes an object only if it has seen the
// object unused for the time limit of a request, by its own monotonic clock, and the API server has no Service that
// uses it. An object of an address that a Service uses is never deleted to be created again, but changed in place:
// another Service could get the address in between.
//
// The caches only say what to look at. Before the controller writes an object, it reads the object and the Services in
// question from etcd: the caches may be stale, and after a restore of etcd they have objects that etcd lacks, some of
// them with the name and the resource version of another one.
type RepairIPAddress struct {
	client      kubernetes.Interface
	clock       clock.Clock
	broadcaster events.EventBroadcaster
	recorder    events.EventRecorder

	serviceIndexer    cache.Indexer
	serviceLister     corelisters.ServiceLister
	serviceCIDRLister networkinglisters.ServiceCIDRLister
	ipAddressLister   networkinglisters.IPAddressLister

	servicesSynced, serviceCIDRSynced, ipAddressSynced cache.InformerSynced

	services, addresses workqueue.TypedRateLimitingInterface[string]

	// requestGrace is the time in which a request writes the Service of an object: requesttimeout.Get.
	requestGrace time.Duration
	sightings    sightings
}

// NewRepairIPAddress returns a controller that checks all objects once per interval.
func NewRepairIPAddress(interval time.Duration, client kubernetes.Interface, services coreinformers.ServiceInformer,
	serviceCIDRs networkinginformers.ServiceCIDRInformer, addresses networkinginformers.IPAddressInformer) *RepairIPAddress {
	return newRepair(interval, client, services, serviceCIDRs, addresses, clock.RealClock{})
}

func newRepair(interval time.Duration, client kubernetes.Interface, services coreinformers.ServiceInformer,
	serviceCIDRs networkinginformers.ServiceCIDRInformer, addresses networkinginformers.IPAddressInformer, clock clock.Clock) *RepairIPAddress {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	r := &RepairIPAddress{
		client: client, clock: clock, broadcaster: broadcaster,
		recorder:          broadcaster.NewRecorder(scheme.Scheme, "ipallocator-repair-controller"),
		serviceIndexer:    services.Informer().GetIndexer(),
		serviceLister:     services.Lister(),
		serviceCIDRLister: serviceCIDRs.Lister(),
		ipAddressLister:   addresses.Lister(),
		servicesSynced:    services.Informer().HasSynced,
		serviceCIDRSynced: serviceCIDRs.Informer().HasSynced,
		ipAddressSynced:   addresses.Informer().HasSynced,
		services:          newQueue("services"),
		addresses:         newQueue("ipaddresses"),
		requestGrace:      requesttimeout.Get(),
	}
	if err := services.Informer().AddIndexers(cache.Indexers{byClusterIP: clusterIPsOf}); err != nil {
		utilruntime.HandleError(err) // the informer has stopped
	}
	follow(services.Informer(), interval, r.services, nil) // its IPAddress objects have events of their own
	follow(addresses.Informer(), interval, r.addresses, r.addressRemoved)
	return r
}

// newQueue returns a queue with the metrics of the released one.
func newQueue(name string) workqueue.TypedRateLimitingInterface[string] {
	limiter := workqueue.DefaultTypedControllerRateLimiter[string]()
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Name: name})
}

// follow queues objects that exist or change, and all of them once per interval. It calls removed with deleted objects.
func follow(informer cache.SharedIndexInformer, interval time.Duration, queue workqueue.TypedInterface[string], removed func(object any)) {
	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }, DeleteFunc: removed}
	if _, err := informer.AddEventHandlerWithResyncPeriod(handler, interval); err != nil {
		utilruntime.HandleError(err) // the informer has stopped
	}
}

// clusterIPsOf returns a Service's keys in the index byClusterIP.
func clusterIPsOf(object any) (found []string, err error) {
	claims, err := addressClaims(object.(*v1.Service))
	for _, claim := range claims {
		if claim.Value.IsValid() {
			found = append(found, claim.Value.String())
		}
	}
	return found, err
}

// addressClaims returns the addresses that a Service claims, and the texts in their place that are none.
func addressClaims(service *v1.Service) ([]rangekeeper.Claim, error) {
	var batch rangekeeper.Services
	batch.Add(service.Spec.ClusterIP, service.Spec.ClusterIPs)
	return batch.Claims()
}

// addressRemoved handles a deleted object. Its address may still belong to a Service, and could be allocated again.
func (r *RepairIPAddress) addressRemoved(object any) {
	if address, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		r.sightings.forget(address)
		r.queueUsers(address, cacheGrace) // mostly the Service was deleted and only the cache is stale
	}
}

// queueUsers queues the Services that have an address in the cache.
func (r *RepairIPAddress) queueUsers(address string, after time.Duration) {
	for _, service := range r.usersOf(address) {
		r.services.AddAfter(service, after)
	}
}

// usersOf returns the keys of the Services that have an address in the cache.
func (r *RepairIPAddress) usersOf(address string) []string {
	services, _ := r.serviceIndexer.IndexKeys(byClusterIP, address) // it fails without the index; then the next interval checks it
	return services
}

// RunUntil repairs until stopCh is closed. It retries the first check of all objects until that succeeds, and then
// calls onFirstSuccess.
func (r *RepairIPAddress) RunUntil(onFirstSuccess func(), stopCh chan struct{}) {
	defer r.addresses.ShutDown()
	defer r.services.ShutDown()
	r.broadcaster.StartRecordingToSink(stopCh)
	defer r.broadcaster.Shutdown()
	if !cache.WaitForNamedCacheSync("ipallocator-repair-controller", stopCh, r.servicesSynced, r.serviceCIDRSynced, r.ipAddressSynced) {
		return
	}
	// The first server of a cluster creates the first ServiceCIDR concurrently.
	hasCIDR := func(context.Context) (bool, error) {
		_, err := r.serviceCIDRLister.Get(defaultServiceCIDR)
		return err == nil, nil
	}
	pass := func(context.Context) (bool, error) {
		err := r.runOnce()
		if err != nil {
			utilruntime.HandleError(err)
		}
		return err == nil, nil
	}
	ctx := wait.ContextForChannel(stopCh)
	if wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, hasCIDR) != nil ||
		wait.PollUntilContextCancel(ctx, firstPassPause, true, pass) != nil {
		return
	}
	onFirstSuccess()
	for range repairWorkers {
		go work(r.services, r.syncService)
		go work(r.addresses, r.syncIPAddress)
	}
	<-stopCh
}

// work processes the queue until its shutdown.
func work(queue workqueue.TypedRateLimitingInterface[string], sync func(key string) error) {
	for {
		key, ended := queue.Get()
		if ended {
			return
		}
		err := sync(key)
		if err != nil && queue.NumRequeues(key) < repairTries {
			klog.V(2).InfoS("Retrying a repair", "key", key, "err", err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
			if err != nil {
				utilruntime.HandleError(fmt.Errorf("repair %s: %w; retrying in the next interval", key, err))
			}
		}
		queue.Done(key)
	}
}

// runOnce checks all objects. It retries conflicts, and refusals by an admission that has not started.
func (r *RepairIPAddress) runOnce() error {
	passes := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsForbidden(err) }
	return retry.OnError(retry.DefaultBackoff, passes, func() error {
		services, err := r.serviceLister.List(labels.Everything())
		if err != nil {
			return err
		}
		for _, service := range services {
			// It may be deleted by now, and other Services may have its addresses.
			if err := r.syncService(service.Namespace + "/" + service.Name); err != nil {
				return err
			}
		}
		own := labels.SelectorFromSet(labels.Set{networkingv1.LabelManagedBy: ipallocator.ControllerName})
		addresses, err := r.ipAddressLister.List(own)
		if err != nil {
			return err
		}
		for _, address := range addresses {
			if err := r.syncIPAddress(address.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *RepairIPAddress) syncService(key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	service, err := r.serviceLister.Services(namespace).Get(name)
	if err != nil {
		return nil // deleted; its IPAddress objects have events of their own
	}
	return r.repairService(service)
}

func (r *RepairIPAddress) syncIPAddress(key string) error {
	address, err := r.ipAddressLister.Get(key)
	if err != nil {
		r.sightings.forget(key)
		return nil // deleted
	}
	return r.repairAddress(address)
}

// repairService repairs the objects of the Service's ClusterIPs.
func (r *RepairIPAddress) repairService(service *v1.Service) error {
	claims, err := addressClaims(service)
	if err != nil {
		return err
	}
	var errs []error
	for _, claim := range claims {
		ip := net.IP(claim.Value.Addr().AsSlice())
		switch {
		case ip == nil:
			r.warn(service, "ClusterIPNotValid", "ClusterIPValidation", "Cluster IP %s is not a valid IP; please recreate Service", claim.Text)
		case r.isIPOutOfRange(ip):
			r.warn(service, "ClusterIPOutOfRange", "ClusterIPAllocation",
				"Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", familyOf(ip), ip)
		default:
			errs = append(errs, r.repairClusterIP(service, ip))
		}
	}
	return errors.Join(errs...)
}

func (r *RepairIPAddress) repairClusterIP(service *v1.Service, ip net.IP) error {
	address, err := r.ipAddressLister.Get(ip.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	this := cache.MetaObjectToName(service)
	if err == nil && rangekeeper.JudgeClusterIP(addressObject(address, this)) == rangekeeper.ClusterIPKeep {
		return nil
	}
	objects := r.begin()
	if service, err = r.read(this); err != nil || service == nil || !uses(service, ip.String()) {
		return err
	}
	if address, err = get(objects, ip.String()); err != nil {
		return err
	}
	object := addressObject(address, this)
	if object != nil && !object.RefersHere {
		if object.Parent, err = r.parentKind(address); err != nil {
			return err
		}
	}
	switch rangekeeper.JudgeClusterIP(object) {
	case rangekeeper.ClusterIPTaken:
		r.warn(service, "ClusterIPAlreadyAllocated", "ClusterIPAllocation",
			"Cluster IP [%v]:%s was assigned to multiple services; please recreate service", familyOf(ip), ip)
	case rangekeeper.ClusterIPCreate:
		r.warn(service, "ClusterIPNotAllocated", "ClusterIPAllocation", "Cluster IP [%v]: %s is not allocated; repairing", familyOf(ip), ip)
		return r.create(objects, ip.String(), service)
	case rangekeeper.ClusterIPReplace:
		return r.repairReference(objects, address, service)
	case rangekeeper.ClusterIPReshape:
		return r.assign(objects, address, service)
	}
	return nil // the object is right, or repairAddress assigns it to this Service
}

// addressObject describes an object to the core, as a Service that has its address sees it; nil for none.
func addressObject(address *networkingv1.IPAddress, service cache.ObjectName) *rangekeeper.AddressObject {
	if address == nil {
		return nil
	}
	parent, hasParent := parentOf(address)
	return &rangekeeper.AddressObject{Managed: isOwn(address), Labelled: hasFamily(address), RefersHere: hasParent && parent == service}
}

// parentKind reads the Service to which an object refers from the API server.
func (r *RepairIPAddress) parentKind(address *networkingv1.IPAddress) (rangekeeper.Parent, error) {
	parent, hasParent := parentOf(address)
	if !hasParent {
		return rangekeeper.ParentNoService, nil
	}
	service, err := r.read(parent)
	return parentKind(address, service), err
}

// parentKind describes the Service to which an object refers; nil if there is none.
func parentKind(address *networkingv1.IPAddress, service *v1.Service) rangekeeper.Parent {
	switch {
	case service == nil:
		return rangekeeper.ParentMissing
	case uses(service, address.Name):
		return rangekeeper.ParentUses
	default:
		return rangekeeper.ParentOther
	}
}

// read reads a Service from the API server, as the cache may be stale; nil if there is none.
func (r *RepairIPAddress) read(name cache.ObjectName) (*v1.Service, error) {
	service, err := r.client.CoreV1().Services(name.Namespace).Get(context.Background(), name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return service, err
}

// repairAddress deletes an object of the allocator that its Service does not use; if another Service has the address,
// it assigns the object to that one. It queues the Services whose object lacks labels of the allocator.
func (r *RepairIPAddress) repairAddress(address *networkingv1.IPAddress) error {
	if !isOwn(address) || !hasFamily(address) {
		r.queueUsers(address.Name, 0)
	}
	if !isOwn(address) {
		r.sightings.forget(address.Name)
		return nil
	}
	cached, err := r.cachedParentKind(address)
	if err != nil || stays(r.judge(address, cached)) {
		return err
	}
	objects, name := r.begin(), address.Name
	if address, err = get(objects, name); err != nil {
		return err
	}
	if address == nil {
		r.sightings.forget(name)
		return nil
	}
	stored, err := r.parentKind(address)
	if err != nil {
		return err
	}
	verdict := r.judge(address, stored)
	if stays(verdict) {
		return nil
	}
	user, err := r.userOf(address.Name)
	if err != nil {
		return err
	}
	parent, _ := parentOf(address)
	switch verdict {
	case rangekeeper.IPAddressNoService:
		r.warn(address, "IPAddressNotAllocated", "IPAddressAllocation",
			"IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", address.Name, address.Spec.ParentRef)
	case rangekeeper.IPAddressWrongReference:
		r.warn(address, "IPAddressWrongReference", "IPAddressAllocation",
			"IPAddress: %s for Service %s has a wrong reference; cleaning up", address.Name, parent)
	case rangekeeper.IPAddressLeaked:
		r.warn(address, "IPAddressNotAllocated", "IPAddressAllocation",
			"IPAddress: %s for Service %s appears to have leaked: cleaning up", address.Name, parent)
	}
	switch {
	case user != nil:
		return r.repairReference(objects, address, user)
	case verdict == rangekeeper.IPAddressNoService:
		return r.remove(objects, address)
	}
	return r.removeUnused(objects, address)
}

// stays reports whether an object is left as it is, at least for now.
func stays(verdict rangekeeper.IPAddressVerdict) bool {
	return verdict == rangekeeper.IPAddressKeep || verdict == rangekeeper.IPAddressWait
}

// cachedParentKind describes the Service to which an object refers, as the cache has it.
func (r *RepairIPAddress) cachedParentKind(address *networkingv1.IPAddress) (rangekeeper.Parent, error) {
	parent, hasParent := parentOf(address)
	if !hasParent {
		return rangekeeper.ParentNoService, nil
	}
	service, err := r.serviceLister.Services(parent.Namespace).Get(parent.Name)
	if apierrors.IsNotFound(err) {
		service, err = nil, nil
	}
	return parentKind(address, service), err
}

// userOf returns a Service that has an address, in the cache and in etcd; nil if there is none.
func (r *RepairIPAddress) userOf(address string) (*v1.Service, error) {
	for _, key := range r.usersOf(address) {
		name, err := cache.ParseObjectName(key)
		if err != nil {
			return nil, err
		}
		if service, err := r.read(name); err != nil || service != nil && uses(service, address) {
			return service, err
		}
	}
	return nil, nil
}

// judge returns the core's verdict. It queues an object that waits for its Service for the end of the grace.
func (r *RepairIPAddress) judge(address *networkingv1.IPAddress, parent rangekeeper.Parent) rangekeeper.IPAddressVerdict {
	var unusedFor time.Duration
	switch parent {
	case rangekeeper.ParentUses:
		r.sightings.forget(address.Name)
	case rangekeeper.ParentMissing, rangekeeper.ParentOther:
		now := r.clock.Now()
		unusedFor = now.Sub(r.sightings.first(address, now))
	}
	verdict, wait := rangekeeper.JudgeIPAddress(isOwn(address), parent, unusedFor, r.requestGrace)
	if verdict == rangekeeper.IPAddressWait {
		r.addresses.AddAfter(address.Name, wait)
	}
	return verdict
}

// reported is an object that Events and the log name.
type reported interface {
	runtime.Object
	klog.KMetadata
}

// warn reports drift in an Event and in the log.
func (r *RepairIPAddress) warn(about reported, reason, action, note string, args ...any) {
	r.recorder.Eventf(about, nil, v1.EventTypeWarning, reason, action, note, args...)
	utilruntime.HandleErrorWithContext(context.Background(), fmt.Errorf(note, args...), "An address is wrong", "reason", reason, "object", klog.KObj(about))
}

// get reads an object from etcd, and not from a cache; nil if there is none.
func get(objects objects, name string) (*networkingv1.IPAddress, error) {
	address, err := objects.Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return address, err
}

// create creates the object of a Service's address. If it exists by now, it is left as it is.
func (r *RepairIPAddress) create(objects objects, address string, service *v1.Service) error {
	created, err := r.client.NetworkingV1().IPAddresses().Create(context.Background(), newIPAddress(address, service), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.removeIfGivenUp(objects, created, service)
}

// repairReference makes an object refer to a Service that has its address. A client of the API cannot: then the object
// stays. Nobody gets the address while there is an object, and once no Service has the address, this one is deleted as
// any unused object.
func (r *RepairIPAddress) repairReference(objects objects, address *networkingv1.IPAddress, service *v1.Service) error {
	err, then := r.assign(objects, address, service), "repairing"
	if apierrors.IsInvalid(err) {
		err, then = nil, "the API server lets nobody change it, please recreate service"
	}
	r.warn(service, "ClusterIPNotAllocated", "ClusterIPAllocation", "the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; %s",
		familyOf(netutils.ParseIPSloppy(address.Name)), address.Name, service.Namespace, service.Name, then)
	return err
}

// assign gives an object the labels of the allocator and the reference to a Service that has its address, in one write.
func (r *RepairIPAddress) assign(objects objects, address *networkingv1.IPAddress, service *v1.Service) error {
	right := newIPAddress(address.Name, service)
	assigned := address.DeepCopy()
	assigned.Spec = right.Spec
	for name, value := range right.Labels {
		metav1.SetMetaDataLabel(&assigned.ObjectMeta, name, value)
	}
	delete(assigned.Annotations, removing)
	assigned, err := objects.Update(context.Background(), assigned, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.sightings.forget(address.Name)
	return r.removeIfGivenUp(objects, assigned, service)
}

// removeIfGivenUp deletes an object that was written for a Service, if the Service gave up the address meanwhile: that
// request has not found the object as it is now.
func (r *RepairIPAddress) removeIfGivenUp(objects objects, written *networkingv1.IPAddress, service *v1.Service) error {
	service, err := r.read(cache.MetaObjectToName(service))
	if err != nil || service != nil && uses(service, written.Name) {
		return err
	}
	return r.remove(objects, written)
}

// removing is the annotation of an object that a repair is about to delete.
const removing = "rangekeeper/removing"

// removeUnused deletes an object unless the Service that it refers to has the address. The write of a new Service may
// be under way for minutes, with the condition that its object is as it was created (ipallocator.request). So the
// repair writes the object first: either it finds the Service after that, or the Service is never written with the
// address.
func (r *RepairIPAddress) removeUnused(objects objects, address *networkingv1.IPAddress) error {
	marked := address.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, removing, r.clock.Now().UTC().Format(time.RFC3339Nano))
	marked, err := objects.Update(context.Background(), marked, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		r.sightings.forget(address.Name)
		return nil
	}
	if err != nil {
		return err
	}
	parent, err := r.parentKind(marked)
	if err != nil {
		return err // the next pass marks it again
	}
	if parent == rangekeeper.ParentUses {
		delete(marked.Annotations, removing)
		_, err = objects.Update(context.Background(), marked, metav1.UpdateOptions{})
		return err
	}
	return r.remove(objects, marked)
}

// remove deletes an object, unless it was written or recreated since it was read.
func (r *RepairIPAddress) remove(objects objects, address *networkingv1.IPAddress) error {
	only := metav1.Preconditions{UID: &address.UID, ResourceVersion: &address.ResourceVersion}
	err := objects.Delete(context.Background(), address.Name, metav1.DeleteOptions{Preconditions: &only})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	r.sightings.forget(address.Name)
	return nil
}

// isIPOutOfRange reports whether no ServiceCIDR has an address. The network and broadcast address of a CIDR are not in
// it.
func (r *RepairIPAddress) isIPOutOfRange(ip net.IP) bool {
	address, _ := netip.AddrFromSlice(ip)
	objects, _ := r.serviceCIDRLister.List(labels.Everything()) // a lister returns no error
	for _, object := range objects {
		for _, text := range object.Spec.CIDRs {
			if cidr, err := rangekeeper.ParseServiceCIDR(text); err == nil {
				if _, ok := cidr.OffsetOf(address.Unmap()); ok {
					return false
				}
			}
		}
	}
	return true
}

// parentOf returns the Service that an object refers to; false if it refers to none.
func parentOf(address *networkingv1.IPAddress) (cache.ObjectName, bool) {
	parent := address.Spec.ParentRef
	if parent == nil || parent.Group != "" || parent.Resource != "services" {
		return cache.ObjectName{}, false
	}
	return cache.ObjectName{Namespace: parent.Namespace, Name: parent.Name}, true
}

// uses reports whether a Service has an address.
func uses(service *v1.Service, address string) bool {
	addresses, _ := clusterIPsOf(service)
	return slices.Contains(addresses, address)
}

// hasFamily reports whether an object has the label of its address's family.
func hasFamily(address *networkingv1.IPAddress) bool {
	return address.Labels[networkingv1.LabelIPAddressFamily] == string(familyOf(netutils.ParseIPSloppy(address.Name)))
}

func isOwn(address *networkingv1.IPAddress) bool {
	return address.Labels[networkingv1.LabelManagedBy] == ipallocator.ControllerName
}

func familyOf(ip net.IP) v1.IPFamily {
	if netutils.IsIPv6(ip) {
		return v1.IPv6Protocol
	}
	return v1.IPv4Protocol
}

func newIPAddress(name string, service *v1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOf(netutils.ParseIPSloppy(name))),
			networkingv1.LabelManagedBy:       ipallocator.ControllerName,
		}},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: service.Namespace, Name: service.Name},
		},
	}
}
