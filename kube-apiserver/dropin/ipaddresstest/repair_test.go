package ipaddresstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator/controller"

	"github.com/rangekeeper/rangekeeper/controlplane/requesttimeout"
)

const (
	// interval is the interval in which a server checks all objects.
	interval = 3 * time.Minute
	// requestTimeout is the default of a server's --request-timeout.
	requestTimeout = 60 * time.Second
	// cacheGrace is the time for which a cache may be stale.
	cacheGrace = 5 * time.Second
	// retries covers the retries of a failed repair.
	retries = 5 * time.Second

	ipv4, otherIPv4 = "10.0.0.7", "10.0.0.8"
	ipv6, otherIPv6 = "fd00::7", "fd00::8"
)

// cluster is an API server and the caches that a repair of IPAddress objects reads. Each has its own objects, so that
// tests can make the caches stale.
type cluster struct {
	*testing.T
	api, cache *fake.Clientset
	begun      time.Time
	written    int
	// unreadable makes each read of a Service fail.
	unreadable atomic.Bool
	// beforeMark is called before the repair writes an object that it is about to delete.
	beforeMark func()
	// immutable makes the API server refuse another reference of an object, as stock ones do.
	immutable bool
}

func init() {
	// The other handlers include a rate limiter, whose last error may be in the future of a test with fake time.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
}

// runRepair runs a repair on a cluster with fake time, which advances when all goroutines wait. It calls test after the
// first check of all objects.
func runRepair(t *testing.T, test func(c *cluster)) {
	runRepairOf(t, func(c *cluster) { c.addCIDR() }, func(c *cluster, ready <-chan struct{}) {
		<-ready
		test(c)
	})
}

// runRepairOf runs a repair on a cluster that prepare has filled, and calls test at once. ready is closed after the
// first check of all objects.
func runRepairOf(t *testing.T, prepare func(c *cluster), test func(c *cluster, ready <-chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{T: t, begun: time.Now(), api: fake.NewClientset(), cache: fake.NewClientset()}
		c.api.PrependReactor("get", "services", func(k8stesting.Action) (bool, runtime.Object, error) {
			return c.unreadable.Load(), nil, apierrors.NewInternalError(errors.New("etcd does not answer"))
		})
		c.api.PrependReactor("delete", "ipaddresses", c.deleteAddress)
		c.api.PrependReactor("update", "ipaddresses", c.updateAddress)
		prepare(c)
		factory := informers.NewSharedInformerFactory(c.cache, 10*time.Minute) // as in the server; 0 would disable the checks in intervals
		repair := controller.NewRepairIPAddress(interval, c.api, factory.Core().V1().Services(),
			factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses())
		ctx, cancel := context.WithCancel(t.Context())
		stop, ready := make(chan struct{}), make(chan struct{})
		defer func() {
			close(stop)
			cancel()
			factory.Shutdown()
		}()
		factory.Start(ctx.Done())
		go repair.RunUntil(func() { close(ready) }, stop)
		test(c, ready)
	})
}

// addCIDR adds the ServiceCIDR of the cluster's addresses to the cache.
func (c *cluster) addCIDR() {
	c.Helper()
	if err := c.cache.Tracker().Add(serviceCIDR("kubernetes", "10.0.0.0/24", metav1.ConditionTrue)); err != nil {
		c.Fatal(err)
	}
}

// removing is the annotation of an object that the repair is about to delete.
const removing = "rangekeeper/removing"

// updateAddress checks the version of an object that the repair writes, which the fake clientset ignores, and gives it
// another one, also in the cache.
func (c *cluster) updateAddress(action k8stesting.Action) (bool, runtime.Object, error) {
	written := action.(k8stesting.UpdateAction).GetObject().(*networkingv1.IPAddress).DeepCopy()
	object, err := c.api.Tracker().Get(action.GetResource(), "", written.Name)
	if err != nil {
		return true, nil, err
	}
	stored := object.(*networkingv1.IPAddress)
	if written.UID != stored.UID || written.ResourceVersion != stored.ResourceVersion {
		return true, nil, apierrors.NewConflict(networkingv1.Resource("ipaddresses"), stored.Name, errors.New("another object"))
	}
	if _, isMark := written.Annotations[removing]; isMark && c.beforeMark != nil {
		c.beforeMark()
	}
	if c.immutable && !equality.Semantic.DeepEqual(written.Spec, stored.Spec) {
		return true, nil, apierrors.NewInvalid(networkingv1.SchemeGroupVersion.WithKind("IPAddress").GroupKind(), stored.Name, nil)
	}
	written.ResourceVersion = c.revision()
	for _, client := range []*fake.Clientset{c.api, c.cache} {
		if err := client.Tracker().Update(action.GetResource(), written, ""); err != nil && !apierrors.IsNotFound(err) {
			return true, nil, err
		}
	}
	return true, written.DeepCopy(), nil
}

// deleteAddress checks preconditions, which the fake clientset ignores, and also removes the object from the cache.
func (c *cluster) deleteAddress(action k8stesting.Action) (bool, runtime.Object, error) {
	deletion := action.(k8stesting.DeleteActionImpl)
	object, err := c.api.Tracker().Get(deletion.GetResource(), "", deletion.GetName())
	if err != nil {
		return true, nil, err
	}
	stored := object.(*networkingv1.IPAddress)
	if only := deletion.DeleteOptions.Preconditions; only != nil &&
		(only.UID != nil && *only.UID != stored.UID || only.ResourceVersion != nil && *only.ResourceVersion != stored.ResourceVersion) {
		return true, nil, apierrors.NewConflict(networkingv1.Resource("ipaddresses"), stored.Name, errors.New("another object"))
	}
	for _, client := range []*fake.Clientset{c.api, c.cache} {
		if err := client.Tracker().Delete(deletion.GetResource(), "", stored.Name); err != nil && !apierrors.IsNotFound(err) {
			return true, nil, err
		}
	}
	return true, nil, nil
}

// revision returns a new revision.
func (c *cluster) revision() string {
	c.written++
	return fmt.Sprint(c.written)
}

// address returns an IPAddress object of the allocator for a Service. The repair's clock is ahead of the clock of its
// timestamp.
func (c *cluster) address(name, service string, ahead time.Duration) *networkingv1.IPAddress {
	revision := c.revision()
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + revision), ResourceVersion: revision,
			CreationTimestamp: metav1.NewTime(time.Now().Add(-ahead).Truncate(time.Second)),
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: string(familyOf(name)), networkingv1.LabelManagedBy: ipallocator.ControllerName,
			},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: metav1.NamespaceDefault, Name: service},
		},
	}
}

func familyOf(address string) corev1.IPFamily {
	if address == ipv6 || address == otherIPv6 {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

func (c *cluster) service(name string, addresses ...string) *corev1.Service {
	revision := c.revision()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID("uid-" + revision), ResourceVersion: revision,
			CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second)),
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: addresses},
	}
	if len(addresses) > 0 {
		service.Spec.ClusterIP = addresses[0]
	} else {
		service.Spec.Type = corev1.ServiceTypeExternalName
	}
	return service
}

// terminating returns a Service that is being deleted and has a finalizer.
func terminating(service *corev1.Service) *corev1.Service {
	service.DeletionTimestamp = &service.CreationTimestamp
	service.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
	return service
}

// put stores an object in the API server and in the cache.
func (c *cluster) put(object runtime.Object) {
	c.Helper()
	c.putInto(c.api, object)
	c.putInto(c.cache, object)
	synctest.Wait()
}

// putInAPI stores an object in the API server only.
func (c *cluster) putInAPI(object runtime.Object) {
	c.Helper()
	c.putInto(c.api, object)
}

// putInCache stores an object in the cache only.
func (c *cluster) putInCache(object runtime.Object) {
	c.Helper()
	c.putInto(c.cache, object)
	synctest.Wait()
}

func (c *cluster) putInto(client *fake.Clientset, object runtime.Object) {
	c.Helper()
	resource, namespace := networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), ""
	if service, ok := object.(*corev1.Service); ok {
		resource, namespace = corev1.SchemeGroupVersion.WithResource("services"), service.Namespace
	}
	object = object.DeepCopyObject()
	err := client.Tracker().Create(resource, object, namespace)
	if apierrors.IsAlreadyExists(err) {
		err = client.Tracker().Update(resource, object, namespace)
	}
	if err != nil {
		c.Fatal(err)
	}
}

// removeService removes a Service from the API server and from the cache.
func (c *cluster) removeService(name string) {
	c.Helper()
	for _, client := range []*fake.Clientset{c.api, c.cache} {
		err := client.CoreV1().Services(metav1.NamespaceDefault).Delete(c.Context(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			c.Fatal(err)
		}
	}
	synctest.Wait()
}

// removeAddress removes an IPAddress object from the API server and from the cache.
func (c *cluster) removeAddress(name string) {
	c.Helper()
	if err := c.api.NetworkingV1().IPAddresses().Delete(c.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	synctest.Wait()
}

// stored returns the object of an address in the API server; nil if there is none.
func (c *cluster) stored(name string) *networkingv1.IPAddress {
	c.Helper()
	object, err := c.api.Tracker().Get(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), "", name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.Fatal(err)
	}
	return object.(*networkingv1.IPAddress)
}

// refersTo fails the test unless an object refers to a Service of the default namespace.
func (c *cluster) refersTo(name, service string) {
	c.Helper()
	want := networkingv1.ParentReference{Resource: "services", Namespace: metav1.NamespaceDefault, Name: service}
	if stored := c.stored(name); stored == nil || *stored.Spec.ParentRef != want {
		c.Fatalf("the object of %s is %+v", service, stored)
	}
}

// keeps fails the test if an object is removed within a time.
func (c *cluster) keeps(object *networkingv1.IPAddress, during time.Duration) {
	c.Helper()
	c.pass(during)
	if stored := c.stored(object.Name); stored == nil {
		c.Fatalf("%s was removed within %v", object.Name, during)
	} else if stored.UID != object.UID {
		c.Fatalf("within %v %s was replaced by %+v", during, object.Name, stored)
	}
}

// removes fails the test unless an object is removed within a time.
func (c *cluster) removes(object *networkingv1.IPAddress, within time.Duration) {
	c.Helper()
	c.pass(within)
	if c.stored(object.Name) != nil {
		c.Fatalf("%s is there after %v", object.Name, within)
	}
}

// pass advances fake time, and waits for the repairs that are due then.
func (c *cluster) pass(duration time.Duration) {
	time.Sleep(duration)
	synctest.Wait()
}

// onEachSkew runs a test with different clock skews: the repairing server's clock is ahead of that of the server that
// creates the objects.
func onEachSkew(t *testing.T, test func(c *cluster, ahead time.Duration)) {
	for _, ahead := range []time.Duration{0, 6 * time.Second, 61 * time.Second, 24 * time.Hour, -24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			runRepair(t, func(c *cluster) { test(c, ahead) })
		})
	}
}

func TestConcurrentCreationKeepsItsAddress(t *testing.T) {
	onEachSkew(t, func(c *cluster, ahead time.Duration) {
		object := c.address(ipv4, "a", ahead)
		c.put(object)
		c.keeps(object, requestTimeout-time.Second)
		c.put(c.service("a", ipv4))
		c.keeps(object, 3*interval)
	})
}

// TestConcurrentUpdateKeepsItsAddress allocates an address for an update. The grace must cover the whole request, not
// only a stale cache: webhooks validate the update after the allocation.
func TestConcurrentUpdateKeepsItsAddress(t *testing.T) {
	for name, before := range map[string][]string{"second family": {ipv4}, "ExternalName": nil} {
		t.Run(name, func(t *testing.T) {
			onEachSkew(t, func(c *cluster, ahead time.Duration) {
				if len(before) > 0 {
					c.put(c.address(ipv4, "a", ahead))
				}
				c.put(c.service("a", before...))
				c.pass(time.Minute)
				object := c.address(ipv6, "a", ahead)
				c.put(object)
				// Another client updates the status.
				c.put(c.service("a", before...))
				c.keeps(object, requestTimeout-time.Second)
				c.put(c.service("a", append(before, ipv6)...))
				c.keeps(object, 3*interval)
			})
		})
	}
}

func TestLeakIsRemovedAfterItsGrace(t *testing.T) {
	leaked := func(c *cluster, ahead, grace time.Duration) {
		c.Helper()
		object := c.address(ipv6, "a", ahead)
		c.put(object)
		c.keeps(object, grace-time.Second)
		c.removes(object, 2*time.Second)
	}
	for name, test := range map[string]func(c *cluster, ahead time.Duration){
		"no Service":   func(c *cluster, ahead time.Duration) { leaked(c, ahead, requestTimeout) },
		"ExternalName": func(c *cluster, ahead time.Duration) { c.put(c.service("a")); leaked(c, ahead, requestTimeout) },
		"headless Service": func(c *cluster, ahead time.Duration) {
			c.put(c.service("a", corev1.ClusterIPNone))
			leaked(c, ahead, requestTimeout)
		},
		"no second family": func(c *cluster, ahead time.Duration) { c.put(c.service("a", ipv4)); leaked(c, ahead, requestTimeout) },
		"other address": func(c *cluster, ahead time.Duration) {
			c.put(c.service("a", otherIPv6))
			leaked(c, ahead, requestTimeout)
		},
		"Service is terminating": func(c *cluster, ahead time.Duration) {
			c.put(terminating(c.service("a", otherIPv6)))
			leaked(c, ahead, requestTimeout)
		},
	} {
		t.Run(name, func(t *testing.T) { onEachSkew(t, test) })
	}
}

// TestSameNameKeepsAddressOfConcurrentCreation creates and deletes a Service with another address before the request
// that allocated the address creates a Service of the same name.
func TestSameNameKeepsAddressOfConcurrentCreation(t *testing.T) {
	onEachSkew(t, func(c *cluster, ahead time.Duration) {
		object := c.address(ipv4, "a", ahead)
		c.put(object)
		c.put(c.service("a", otherIPv4))
		c.keeps(object, cacheGrace+time.Second)
		c.removeService("a")
		c.put(c.service("a", ipv4))
		c.keeps(object, 3*interval)
	})
}

func TestGraceIsTheRequestTimeout(t *testing.T) {
	defer requesttimeout.Set(requesttimeout.Get())
	for _, timeout := range []time.Duration{20 * time.Second, 10 * time.Minute} {
		requesttimeout.Set(timeout)
		runRepair(t, func(c *cluster) {
			object := c.address(ipv4, "a", 0)
			c.put(object)
			c.keeps(object, timeout-time.Second)
			c.removes(object, 2*time.Second)
		})
	}
}

// TestGraceStartsAgain changes an object, or uses it, within its grace.
func TestGraceStartsAgain(t *testing.T) {
	for name, change := range map[string]func(c *cluster, object *networkingv1.IPAddress) *networkingv1.IPAddress{
		"recreated": func(c *cluster, object *networkingv1.IPAddress) *networkingv1.IPAddress {
			another := c.address(object.Name, "a", 0)
			c.put(another) // one event, as after an interrupted watch
			return another
		},
		"recreated in a restored etcd": func(c *cluster, object *networkingv1.IPAddress) *networkingv1.IPAddress {
			another := object.DeepCopy() // the revisions of a restored etcd begin again
			another.UID = "another"
			c.put(another)
			return another
		},
		"deleted and created": func(c *cluster, object *networkingv1.IPAddress) *networkingv1.IPAddress {
			c.removeAddress(object.Name)
			another := object.DeepCopy()
			c.put(another)
			return another
		},
		"written": func(c *cluster, object *networkingv1.IPAddress) *networkingv1.IPAddress {
			written := object.DeepCopy()
			written.ResourceVersion = c.revision()
			c.put(written)
			return written
		},
		"in use in between": func(c *cluster, object *networkingv1.IPAddress) *networkingv1.IPAddress {
			c.put(c.service("a", object.Name))
			c.keeps(object, time.Until(c.begun.Add(interval)))
			c.removeService("a")
			c.keeps(object, interval) // until the next check of all objects
			return object
		},
		"of another manager in between": func(c *cluster, object *networkingv1.IPAddress) *networkingv1.IPAddress {
			theirs := object.DeepCopy()
			theirs.Labels = nil
			c.put(theirs)
			c.put(object)
			return object
		},
	} {
		t.Run(name, func(t *testing.T) {
			runRepair(t, func(c *cluster) {
				object := c.address(ipv4, "a", 0)
				c.put(object)
				c.keeps(object, requestTimeout-time.Second)
				object = change(c, object)
				c.keeps(object, requestTimeout-time.Second)
				c.removes(object, 2*time.Second)
			})
		})
	}
}

// TestServiceIsReadBeforeAnObjectIsRemoved makes the cache of Services stale for longer than the grace.
func TestServiceIsReadBeforeAnObjectIsRemoved(t *testing.T) {
	for name, cached := range map[string]func(c *cluster) *corev1.Service{
		"not in the cache": nil,
		"without address":  func(c *cluster) *corev1.Service { return c.service("a") },
		"other address":    func(c *cluster) *corev1.Service { return c.service("a", otherIPv4) },
	} {
		t.Run(name, func(t *testing.T) {
			onEachSkew(t, func(c *cluster, ahead time.Duration) {
				if cached != nil {
					c.putInCache(cached(c))
				}
				c.putInAPI(c.service("a", ipv4))
				object := c.address(ipv4, "a", ahead)
				c.put(object)
				c.keeps(object, 3*interval)
			})
		})
	}
}

func TestObjectStaysIfItsServiceCannotBeRead(t *testing.T) {
	runRepair(t, func(c *cluster) {
		c.unreadable.Store(true)
		leaked, wrong := c.address(ipv4, "a", 0), c.address(otherIPv4, "nobody", 0)
		c.put(leaked)
		c.put(wrong)
		c.put(c.service("b", otherIPv4))
		c.keeps(leaked, requestTimeout+time.Second)
		c.keeps(wrong, 0)
		c.unreadable.Store(false)
		c.removes(leaked, retries)
		c.pass(retries)
		if stored := c.stored(otherIPv4); stored == nil || stored.Spec.ParentRef.Name != "b" {
			c.Errorf("the object of b is %+v", stored)
		}
	})
}

// TestObjectKeepsItsServiceDespiteStaleCache makes the cache of Services older than that of IPAddress objects.
func TestObjectKeepsItsServiceDespiteStaleCache(t *testing.T) {
	for name, owner := range map[string]func(c *cluster){
		"created":       func(c *cluster) { c.putInAPI(c.service("new", ipv4)) },
		"one of two":    func(c *cluster) { c.putInAPI(c.service("old", ipv4)); c.putInAPI(c.service("new", ipv4)) },
		"being created": func(*cluster) {},
		"being updated": func(c *cluster) { c.putInAPI(c.service("new", otherIPv4)) },
	} {
		t.Run(name, func(t *testing.T) {
			runRepair(t, func(c *cluster) {
				old := c.service("old", ipv4)
				object := c.address(ipv4, "new", 0)
				owner(c)
				c.put(object)
				c.putInCache(old)
				c.keeps(object, cacheGrace-time.Second)
			})
		})
	}
}

// TestObjectOfAnotherServiceKeepsItsGrace allocates an address for one Service that another Service has.
func TestObjectOfAnotherServiceKeepsItsGrace(t *testing.T) {
	runRepair(t, func(c *cluster) {
		c.put(c.service("b", ipv4))
		object := c.address(ipv6, "b", 0)
		c.put(object)
		c.put(c.service("a", ipv6))
		c.keeps(object, requestTimeout-time.Second)
		if stored := c.stored(ipv6); stored.Spec.ParentRef.Name != "b" {
			c.Errorf("within the grace the object is %+v", stored)
		}
		c.keeps(object, 2*time.Second)
		c.refersTo(ipv6, "a")
	})
}

// TestWrongReferenceIsRepaired creates a Service whose object refers to a Service that does not exist. It must be
// changed in place, as the address must not be free in between.
func TestWrongReferenceIsRepaired(t *testing.T) {
	runRepair(t, func(c *cluster) {
		object := c.address(ipv4, "nobody", 0)
		object.Labels["team"] = "a"
		c.put(object)
		c.put(c.service("a", ipv4))
		c.refersTo(ipv4, "a")
		if stored := c.stored(ipv4); stored.UID != object.UID || stored.Annotations[removing] != "" {
			c.Errorf("the object is %+v", stored)
		}
	})
}

// TestImmutableReferenceStays has an API server that refuses another reference, as stock ones do. The object must stay
// as long as a Service has its address, and be reported; then it is deleted as any unused one.
func TestImmutableReferenceStays(t *testing.T) {
	runRepair(t, func(c *cluster) {
		c.immutable = true
		object := c.address(ipv4, "nobody", 0)
		c.put(object)
		c.put(c.service("a", ipv4))
		c.keeps(object, requestTimeout+2*interval)
		if stored := c.stored(ipv4); stored.Annotations[removing] != "" {
			c.Errorf("the repair has written the object: %+v", stored)
		}
		events, err := c.api.EventsV1().Events(metav1.NamespaceAll).List(c.Context(), metav1.ListOptions{})
		if err != nil || !slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool {
			return event.Regarding.Name == "a" && strings.Contains(event.Note, "lets nobody change it")
		}) {
			c.Errorf("the Service has no Event that says so: %v, %v", events.Items, err)
		}
		c.removeService("a")
		c.removes(object, requestTimeout+interval)
	})
}

// TestNamesakes has Services of one name in two namespaces. The object of one of them is not that of the other one.
func TestNamesakes(t *testing.T) {
	runRepair(t, func(c *cluster) {
		ours, theirs := c.service("a", ipv4), c.service("a", otherIPv4)
		theirs.Namespace = "other"
		object, wrong := c.address(ipv4, "a", 0), c.address(otherIPv4, "a", 0)
		c.put(object)
		c.put(wrong)
		c.put(ours)
		c.put(theirs)
		c.keeps(object, requestTimeout+time.Second)
		c.keeps(wrong, 0)
		if stored := c.stored(ipv4); stored.Spec.ParentRef.Namespace != metav1.NamespaceDefault {
			c.Errorf("the object of default/a is %+v", stored)
		}
		if stored := c.stored(otherIPv4); stored.Spec.ParentRef.Namespace != "other" {
			c.Errorf("the object of other/a is %+v", stored)
		}
	})
}

// TestServiceOfTheLastMoment writes the Service of an object after the repair has looked for it, and before the repair
// writes the object. A Service whose write comes later is refused.
func TestServiceOfTheLastMoment(t *testing.T) {
	runRepair(t, func(c *cluster) {
		object := c.address(ipv4, "a", 0)
		marks := 0
		c.beforeMark = func() {
			if marks++; marks == 1 {
				service := c.service("a", ipv4)
				if err := c.api.Tracker().Add(service); err != nil {
					c.Error(err)
				}
			}
		}
		c.put(object)
		c.pass(requestTimeout + 2*interval)
		stored := c.stored(ipv4)
		if marks == 0 || stored == nil || stored.UID != object.UID || len(stored.Annotations) > 0 {
			c.Errorf("%d marks, the object is %+v", marks, stored)
		}
	})
}

// TestObjectOfTheLastMoment has another server give an object to a Service with its address, after the repair has
// marked it and before the deletion.
func TestObjectOfTheLastMoment(t *testing.T) {
	runRepair(t, func(c *cluster) {
		object := c.address(ipv4, "a", 0)
		given := object.DeepCopy()
		given.Spec.ParentRef.Name = "b"
		deletions := 0
		c.api.PrependReactor("delete", "ipaddresses", func(k8stesting.Action) (bool, runtime.Object, error) {
			if deletions++; deletions > 1 {
				return false, nil, nil
			}
			given.ResourceVersion = c.revision()
			for _, client := range []*fake.Clientset{c.api, c.cache} {
				if err := client.Tracker().Add(c.service("b", ipv4)); err != nil {
					c.Error(err)
				}
				if err := client.Tracker().Update(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), given, ""); err != nil {
					c.Error(err)
				}
			}
			return false, nil, nil
		})
		c.put(object)
		c.pass(requestTimeout + 2*interval)
		stored := c.stored(ipv4)
		if deletions != 1 || stored == nil || stored.UID != object.UID || stored.Spec.ParentRef.Name != "b" {
			c.Errorf("%d deletions, the object is %+v", deletions, stored)
		}
	})
}

// TestStaleObjectIsNotRemoved writes an object in the API server only. The repair must not delete the stored version.
func TestStaleObjectIsNotRemoved(t *testing.T) {
	for name, change := range map[string]func(c *cluster, object *networkingv1.IPAddress){
		"recreated": func(c *cluster, object *networkingv1.IPAddress) { object.UID = "another" },
		"written":   func(c *cluster, object *networkingv1.IPAddress) { object.ResourceVersion = c.revision() },
	} {
		t.Run(name, func(t *testing.T) {
			runRepair(t, func(c *cluster) {
				object := c.address(ipv4, "a", 0)
				c.put(object)
				stored := object.DeepCopy()
				change(c, stored)
				c.putInAPI(stored)
				c.keeps(stored, requestTimeout+time.Second)
				c.putInto(c.cache, stored)
				c.keeps(stored, requestTimeout-2*time.Second) // the repair has seen it in the API server 1 s ago
				c.removes(stored, retries)
			})
		})
	}
}

// TestNoObjectForStaleService deletes a Service and its object, but leaves the Service in the cache.
func TestNoObjectForStaleService(t *testing.T) {
	for name, stored := range map[string]func(c *cluster){
		"deleted":    func(*cluster) {},
		"recreated":  func(c *cluster) { c.putInAPI(c.service("a", otherIPv4)) },
		"without it": func(c *cluster) { c.putInAPI(c.service("a")) },
		"unreadable": func(c *cluster) { c.unreadable.Store(true); c.putInAPI(c.service("a", ipv4)) },
	} {
		t.Run(name, func(t *testing.T) {
			runRepair(t, func(c *cluster) {
				stored(c)
				c.putInCache(c.service("a", ipv4))
				c.pass(2 * interval)
				if object := c.stored(ipv4); object != nil {
					c.Errorf("the repair created an object: %+v", object)
				}
			})
		})
	}
}

// TestObjectIsRemovedAfterConcurrentDeletion deletes a Service between the repair's read of it and the creation of its
// object. The deletion finds no object to remove.
func TestObjectIsRemovedAfterConcurrentDeletion(t *testing.T) {
	runRepair(t, func(c *cluster) {
		created := false
		c.api.PrependReactor("create", "ipaddresses", func(k8stesting.Action) (bool, runtime.Object, error) {
			created = true
			return false, nil, c.api.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("services"), metav1.NamespaceDefault, "a")
		})
		c.put(c.service("a", ipv4))
		c.pass(time.Second)
		if object := c.stored(ipv4); !created || object != nil {
			c.Errorf("created: %v; the object is %+v", created, object)
		}
	})
}
