package ipaddress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

var service = &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "a"}

func serviceCIDR(name string, ready metav1.ConditionStatus, cidrs ...string) *networkingv1.ServiceCIDR {
	condition := metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady, Status: ready}
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
		Status:     networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{condition}},
	}
}

// newClient returns a clientset with objects. It numbers the revisions of IPAddress objects and checks preconditions
// like an API server.
func newClient(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	var mutex sync.Mutex
	revision := 100
	number := func(object *networkingv1.IPAddress) {
		mutex.Lock()
		defer mutex.Unlock()
		revision++
		object.ResourceVersion = strconv.Itoa(revision)
		if object.UID == "" {
			object.UID = types.UID(object.ResourceVersion)
		}
	}
	client.PrependReactor("create", "ipaddresses", func(action clienttesting.Action) (bool, runtime.Object, error) {
		number(action.(clienttesting.CreateAction).GetObject().(*networkingv1.IPAddress))
		return false, nil, nil
	})
	client.PrependReactor("delete", "ipaddresses", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion := action.(clienttesting.DeleteActionImpl)
		stored, err := client.Tracker().Get(deletion.GetResource(), "", deletion.Name)
		if err != nil {
			return false, nil, nil
		}
		object := stored.(*networkingv1.IPAddress)
		if only := deletion.DeleteOptions.Preconditions; only != nil && (*only.UID != object.UID || *only.ResourceVersion != object.ResourceVersion) {
			return true, nil, apierrors.NewConflict(deletion.GetResource().GroupResource(), deletion.Name, errors.New("it was written since it was read"))
		}
		// A watch reports the revision of the deletion.
		gone := object.DeepCopy()
		number(gone)
		return false, nil, client.Tracker().Update(deletion.GetResource(), gone, "")
	})
	return client
}

// newAllocator returns an allocator of IPv4 addresses, whose informers start with the function that is returned.
func newAllocator(t *testing.T, client *fake.Clientset, startTimeout time.Duration) (*Allocator, func()) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(client, 0)
	a, err := New(Options{
		Family:       corev1.IPv4Protocol,
		Client:       client.NetworkingV1().IPAddresses(),
		ServiceCIDRs: factory.Networking().V1().ServiceCIDRs(),
		IPAddresses:  factory.Networking().V1().IPAddresses(),
		StartTimeout: startTimeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a, func() { factory.Start(t.Context().Done()) }
}

// TestStart allocates before the informers have started, and before the first ServiceCIDR is ready. Both must wait.
func TestStart(t *testing.T) {
	client := newClient()
	a, startInformers := newAllocator(t, client, patience)
	next, named := make(chan error, 1), make(chan error, 1)
	go func() { _, err := a.AllocateNext(t.Context(), service); next <- err }()
	go func() { _, err := a.Allocate(t.Context(), netip.MustParseAddr("10.8.0.1"), service); named <- err }()
	for _, step := range []func(){
		startInformers,
		func() { addCIDR(t, client, serviceCIDR("not-ready", metav1.ConditionFalse, "10.7.0.0/30")) },
		func() {
			addCIDR(t, client, serviceCIDR("kubernetes", metav1.ConditionTrue, "10.8.0.0/24", "fd00::/112"))
		},
	} {
		select {
		case err := <-next:
			t.Fatal("the allocation of any address did not wait:", err)
		case err := <-named:
			t.Fatal("the allocation of a named address did not wait:", err)
		case <-time.After(100 * time.Millisecond): // both wait
		}
		step()
	}
	if err := errors.Join(<-next, <-named); err != nil {
		t.Error(err)
	}
}

func addCIDR(t *testing.T, client *fake.Clientset, object *networkingv1.ServiceCIDR) {
	t.Helper()
	if _, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestNoWait allocates without a start timeout from the caches of informers that do not run.
func TestNoWait(t *testing.T) {
	a, _ := newAllocator(t, newClient(), 0)
	if _, err := a.AllocateNext(t.Context(), service); !errors.Is(err, rangekeeper.ErrFull) {
		t.Error("without a ServiceCIDR:", err)
	}
	if err := a.cidrs.informer.GetStore().Add(serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/30")); err != nil {
		t.Fatal(err)
	}
	if err := a.index.informer.GetStore().Add(&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.6.0.1"}}); err != nil {
		t.Fatal(err)
	}
	if object, err := a.AllocateNext(t.Context(), service); err != nil || object.Name != "10.6.0.2" {
		t.Error(object, err)
	}
}

// TestServiceCIDRsChange has CIDRs of several objects that come, become unready and go.
func TestServiceCIDRsChange(t *testing.T) {
	client := newClient(
		serviceCIDR("a", metav1.ConditionTrue, "10.7.0.0/30"),
		serviceCIDR("b", metav1.ConditionTrue, "10.7.0.0/30"),
		serviceCIDR("never-1", metav1.ConditionFalse, "10.7.0.0/30"),
		serviceCIDR("never-2", metav1.ConditionFalse, "10.7.0.0/30"),
		serviceCIDR("never-3", metav1.ConditionFalse, "10.7.0.0/30"),
		serviceCIDR("c", metav1.ConditionTrue, "10.8.0.0/24", "fd00::/112"),
	)
	a, startInformers := newAllocator(t, client, patience)
	startInformers()
	small, wide, elsewhere := netip.MustParseAddr("10.7.0.1"), netip.MustParseAddr("10.8.0.1"), netip.MustParseAddr("10.9.0.1")
	for address, want := range map[netip.Addr]error{small: nil, wide: nil, elsewhere: rangekeeper.ErrNotInRange, netip.MustParseAddr("10.8.0.255"): rangekeeper.ErrNotInRange} {
		if err := a.Check(t.Context(), address); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
	object, err := a.Allocate(t.Context(), small, service)
	if err != nil || object.Labels[networkingv1.LabelManagedBy] != ManagedBy || object.Labels[networkingv1.LabelIPAddressFamily] != "IPv4" || *object.Spec.ParentRef != *service {
		t.Error(object, err)
	}
	if _, err := a.Allocate(t.Context(), small, service); !errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		t.Error("an address in use:", err)
	}
	if err := a.Check(t.Context(), small); !errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		t.Error("an address in use:", err)
	}
	want := []Usage{
		{CIDR: netip.MustParsePrefix("10.7.0.0/30"), Ready: true, Used: 1, Free: 1},
		{CIDR: netip.MustParsePrefix("10.8.0.0/24"), Ready: true, Free: 254},
	}
	if usage := a.Usage(); !slices.Equal(usage, want) {
		t.Error(usage)
	}

	// Objects of other clients count, with any manager or none, but not the broadcast address.
	for _, name := range []string{"10.8.0.255", "10.8.0.9"} {
		other := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.NetworkingV1().IPAddresses().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "another client's object counts", func() bool { return a.Usage()[1].Used > 0 })
	if usage := a.Usage()[1]; usage.Used != 1 || usage.Free != 253 {
		t.Error(usage)
	}
	if list := a.List(); len(list) != 1 || list[0].Name != small.String() {
		t.Errorf("the objects of allocators are %v, want that of %v", list, small)
	}

	objects := client.NetworkingV1().ServiceCIDRs()
	unready := func(name string) {
		if _, err := objects.UpdateStatus(t.Context(), serviceCIDR(name, metav1.ConditionFalse, "10.7.0.0/30"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	unready("a")
	gone, _ := find(a.cidrs.get(), wide)
	if err := objects.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted CIDR has no addresses", func() bool { return errors.Is(a.Check(t.Context(), wide), rangekeeper.ErrNotInRange) })
	if usage := a.Usage(); len(usage) != 1 || !usage[0].Ready {
		t.Error("one of the objects of a CIDR is ready:", usage)
	}
	if used, free := a.index.usage(gone.values); used+free != 0 {
		t.Error("the index has a deleted CIDR:", used, free)
	}
	unready("b")
	eventually(t, "a CIDR without a ready object is not ready", func() bool { return !a.Usage()[0].Ready })
	if _, err := a.AllocateNext(t.Context(), service); !errors.Is(err, rangekeeper.ErrFull) {
		t.Error("without a ready CIDR:", err)
	}
	if _, err := a.Peek(t.Context()); !errors.Is(err, rangekeeper.ErrFull) {
		t.Error("without a ready CIDR:", err)
	}
	if _, err := a.Allocate(t.Context(), netip.MustParseAddr("10.7.0.2"), service); !errors.Is(err, rangekeeper.ErrNotInRange) {
		t.Error("without a ready CIDR:", err)
	}
	for range 2 { // the second time there is nothing to undo
		if err := a.Undo(t.Context(), object); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "an address of a CIDR that is not ready is free again", func() bool { return a.Usage()[0].Free == 2 })
}

// TestServiceCIDRIsDeleted deletes a ServiceCIDR with a finalizer, as long as a controller waits until its addresses
// are unused. The API server sets a deletion timestamp at once, and the controller's condition comes later: no address
// may be allocated meanwhile.
func TestServiceCIDRIsDeleted(t *testing.T) {
	withoutCondition := serviceCIDR("b", metav1.ConditionTrue, "10.7.0.0/30")
	withoutCondition.Status = networkingv1.ServiceCIDRStatus{}
	for _, object := range []*networkingv1.ServiceCIDR{serviceCIDR("a", metav1.ConditionTrue, "10.7.0.0/30"), withoutCondition} {
		object.Finalizers = []string{"networking.k8s.io/service-cidr-finalizer"}
		client := newClient(object, serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/30"))
		a, startInformers := newAllocator(t, client, patience)
		startInformers()
		address := netip.MustParseAddr("10.7.0.1")
		if _, err := a.Allocate(t.Context(), address, service); err != nil {
			t.Fatal(err)
		}
		object.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		if _, err := client.NetworkingV1().ServiceCIDRs().Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a ServiceCIDR that is being deleted is not ready", func() bool { return !a.Usage()[1].Ready })
		if err := a.Check(t.Context(), netip.MustParseAddr("10.7.0.2")); !errors.Is(err, rangekeeper.ErrNotInRange) {
			t.Errorf("an address of ServiceCIDR %s, which is being deleted: %v", object.Name, err)
		}
		for range 2 {
			if object, err := a.AllocateNext(t.Context(), service); err != nil || !strings.HasPrefix(object.Name, "10.6.0.") {
				t.Errorf("allocated %v, error: %v; want an address of the ServiceCIDR that is left", object, err)
			}
		}
		// Its Services can still release their addresses.
		if err := a.Release(t.Context(), address, *service, 1000); err != nil {
			t.Error(err)
		}
		eventually(t, "the released address is free", func() bool { return a.Usage()[1].Free == 2 })
	}
}

// TestRelease releases an address on behalf of a Service, with different objects in the API server and in the cache,
// which may be stale. The object must be deleted only if it belongs to the Service.
func TestRelease(t *testing.T) {
	const name, asOf = "10.6.0.1", 50
	object := func(owner string, revision int) *networkingv1.IPAddress {
		number := strconv.Itoa(revision)
		return &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + number), ResourceVersion: number},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: owner}},
		}
	}
	withoutOwner, elsewhere := object("a", 50), object("a", 50)
	withoutOwner.Spec.ParentRef = nil
	elsewhere.Spec.ParentRef.Namespace = "other"
	for what, c := range map[string]struct {
		stored, cached *networkingv1.IPAddress
		released       bool
	}{
		"no object":                                 {nil, nil, true},
		"deleted, and still in the cache":           {nil, object("a", 50), true},
		"in the cache":                              {object("a", 50), object("a", 50), true},
		"not in the cache yet":                      {object("a", 50), nil, true},
		"written since it was cached":               {object("a", 50), object("a", 40), true},
		"of another owner":                          {object("b", 50), object("b", 50), false},
		"of its namesake in another namespace":      {elsewhere, elsewhere, false},
		"of no owner":                               {withoutOwner, withoutOwner, false},
		"of a later allocation":                     {object("a", 51), object("a", 51), false},
		"of another owner, not in the cache":        {object("b", 50), nil, false},
		"of no owner, not in the cache":             {withoutOwner, nil, false},
		"of a later allocation, not in the cache":   {object("a", 51), nil, false},
		"of another owner since it was cached":      {object("b", 50), object("a", 40), false},
		"of a later allocation since it was cached": {object("a", 51), object("a", 40), false},
	} {
		t.Run(what, func(t *testing.T) {
			client := newClient()
			if c.stored != nil {
				if err := client.Tracker().Add(c.stored); err != nil {
					t.Fatal(err)
				}
			}
			a, _ := newAllocator(t, client, 0) // the informers do not start
			if c.cached != nil {
				if err := a.index.informer.GetStore().Add(c.cached); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Release(t.Context(), netip.MustParseAddr(name), *service, asOf); err != nil {
				t.Error(err)
			}
			_, err := client.NetworkingV1().IPAddresses().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			if released := err != nil; released != c.released {
				t.Errorf("released: %v, want %v", released, c.released)
			}
		})
	}
}

// TestUndoOfWrittenObject undoes an allocation whose object another client has written. The object must stay.
func TestUndoOfWrittenObject(t *testing.T) {
	client := newClient(serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/24"))
	a, startInformers := newAllocator(t, client, patience)
	startInformers()
	object, err := a.AllocateNext(t.Context(), service)
	if err != nil {
		t.Fatal(err)
	}
	written := object.DeepCopy()
	written.ResourceVersion += "0"
	if err := client.Tracker().Update(networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), written, ""); err != nil {
		t.Fatal(err)
	}
	if err := a.Undo(t.Context(), object); err != nil {
		t.Error(err)
	}
	if _, err := client.NetworkingV1().IPAddresses().Get(t.Context(), object.Name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestMappedAddress names an IPv4 address in the IPv6 form, as net.IP may have it. The name of its object is the IPv4
// form.
func TestMappedAddress(t *testing.T) {
	client := newClient(serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/24"))
	a, startInformers := newAllocator(t, client, patience)
	startInformers()
	mapped := netip.MustParseAddr("::ffff:10.6.0.1")
	object, err := a.Allocate(t.Context(), mapped, service)
	if err != nil || object.Name != "10.6.0.1" {
		t.Fatal(object, err)
	}
	if err := a.Check(t.Context(), mapped); !errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		t.Error("an address in use:", err)
	}
	if err := a.Release(t.Context(), mapped, *service, 1000); err != nil {
		t.Error(err)
	}
	if _, err := client.NetworkingV1().IPAddresses().Get(t.Context(), object.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error("the object of a released address:", err)
	}
}

// TestCloseAgain closes an allocator twice.
func TestCloseAgain(t *testing.T) {
	a, startInformers := newAllocator(t, newClient(), patience)
	startInformers()
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

// TestCloseDuringCreation closes an allocator while an object is being created. The result must be returned.
func TestCloseDuringCreation(t *testing.T) {
	client := newClient(serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/24"))
	creating, closed := make(chan struct{}), make(chan struct{})
	client.PrependReactor("create", "ipaddresses", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(creating)
		<-closed
		return false, nil, nil
	})
	a, startInformers := newAllocator(t, client, patience)
	startInformers()
	done := make(chan error)
	go func() {
		object, err := a.AllocateNext(t.Context(), service)
		if err == nil && object == nil {
			err = errors.New("no object")
		}
		done <- err
	}()
	<-creating
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	close(closed)
	if err := <-done; err != nil {
		t.Error("the object was created:", err)
	}
	if usage := a.Usage(); usage != nil {
		t.Error(usage, "after Close")
	}
	if _, err := a.AllocateNext(t.Context(), service); !errors.Is(err, rangekeeper.ErrClosed) {
		t.Error(err)
	}
}

// TestCloseWhileWaiting closes an allocator while a request waits for its informers. The request must end at once.
func TestCloseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAllocator(t, newClient(), time.Hour)
		waiting := make(chan error)
		go func() { _, err := a.AllocateNext(t.Context(), service); waiting <- err }()
		time.Sleep(time.Minute)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := <-waiting; !errors.Is(err, rangekeeper.ErrClosed) {
			t.Errorf("the request that waits ends with the error %v", err)
		}
	})
}

// TestNotStarted allocates while the informers have not synced: nothing is known to be full or out of range.
func TestNotStarted(t *testing.T) {
	a, _ := newAllocator(t, newClient(), 50*time.Millisecond)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	one := netip.MustParseAddr("10.6.0.1")
	for ctx, want := range map[context.Context]error{t.Context(): ErrNotSynced, cancelled: context.Canceled} {
		_, next := a.AllocateNext(ctx, service)
		_, named := a.Allocate(ctx, one, service)
		_, peek := a.Peek(ctx)
		for _, err := range []error{next, named, peek, a.Check(ctx, one)} {
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
}

// TestExpiry has addresses taken by objects that the informer never reports. After reservationTime the allocator must
// offer them again, and the gauges must follow although nothing is allocated.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/30"))
		var exist atomic.Bool
		exist.Store(true)
		client.PrependReactor("create", "ipaddresses", func(clienttesting.Action) (bool, runtime.Object, error) {
			return exist.Load(), nil, apierrors.NewAlreadyExists(networkingv1.Resource("ipaddresses"), "x")
		})
		a, startInformers := newAllocator(t, client, patience)
		registry := prometheus.NewRegistry()
		metrics, err := NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		a.Record(metrics)
		startInformers()
		full := func(what string) {
			t.Helper()
			if _, err := a.AllocateNext(t.Context(), service); !errors.Is(err, rangekeeper.ErrFull) {
				t.Errorf("%s: %v", what, err)
			}
		}
		full("other clients have all addresses")
		exist.Store(false)
		time.Sleep(reservationTime - expireEvery)
		full("before the reservations expire")
		time.Sleep(2 * expireEvery)
		if gauges := gaugesOf(t, registry); !slices.Equal(gauges, []string{"10.6.0.0/30: 0 used, 2 free"}) {
			t.Errorf("after the reservations have expired the gauges are %v", gauges)
		}
		for range 2 {
			if _, err := a.AllocateNext(t.Context(), service); err != nil {
				t.Error("after the reservations have expired:", err)
			}
		}
	})
}

// TestConcurrentAllocations allocates all addresses from many goroutines. Each must get another one, at the first
// attempt.
func TestConcurrentAllocations(t *testing.T) {
	client := newClient(serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/24"), serviceCIDR("more", metav1.ConditionTrue, "10.7.0.0/25"))
	a, startInformers := newAllocator(t, client, patience)
	startInformers()
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for {
				if _, err := a.AllocateNext(t.Context(), service); errors.Is(err, rangekeeper.ErrFull) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	creations := 0
	for _, action := range client.Actions() {
		if action.Matches("create", "ipaddresses") {
			creations++
		}
	}
	if creations != 254+126 {
		t.Errorf("%d creations of %d addresses", creations, 254+126)
	}
	eventually(t, "the cache has all objects", func() bool { return len(a.List()) == creations })
	usage := a.Usage()
	if len(usage) != 2 || usage[0].Free != 0 || usage[1].Free != 0 {
		t.Error(usage)
	}
}

// TestMetrics compares all metrics with what has happened.
func TestMetrics(t *testing.T) {
	client := newClient(serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/30"))
	a, startInformers := newAllocator(t, client, patience)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	startInformers()
	if _, err := a.Peek(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Record(metrics)
	gauges := func(want ...string) {
		t.Helper()
		eventually(t, strings.Join(want, ", "), func() bool { return slices.Equal(gaugesOf(t, registry), want) })
	}
	// Before any allocation.
	gauges("10.6.0.0/30: 0 used, 2 free")
	if counters := testutil.CollectAndCount(metrics.allocated) + testutil.CollectAndCount(metrics.failed); counters != 4 {
		t.Errorf("%d counters, want one of each kind and scope", counters)
	}
	if n := testutil.CollectAndCount(metrics.took); n != 1 {
		t.Errorf("durations of %d CIDRs, want 1", n)
	}
	for range 2 {
		if _, err := a.AllocateNext(t.Context(), service); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.AllocateNext(t.Context(), service); !errors.Is(err, rangekeeper.ErrFull) {
		t.Error("allocation without a free address:", err)
	}
	if _, err := a.Allocate(t.Context(), netip.MustParseAddr("10.6.0.1"), service); err == nil {
		t.Error("an address was allocated twice")
	}
	gauges("10.6.0.0/30: 2 used, 0 free")
	addCIDR(t, client, serviceCIDR("second", metav1.ConditionTrue, "10.7.0.0/29"))
	gauges("10.6.0.0/30: 2 used, 0 free", "10.7.0.0/29: 0 used, 6 free")
	if _, err := a.Allocate(t.Context(), netip.MustParseAddr("10.7.0.1"), service); err != nil {
		t.Error(err)
	}
	gauges("10.6.0.0/30: 2 used, 0 free", "10.7.0.0/29: 1 used, 5 free")
	if err := client.NetworkingV1().IPAddresses().Delete(t.Context(), "10.6.0.1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "second", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gauges("10.6.0.0/30: 1 used, 1 free")

	counters := `
# HELP kube_apiserver_clusterip_allocator_allocation_errors_total Number of allocations of ClusterIPs that failed, by CIDR and scope
# TYPE kube_apiserver_clusterip_allocator_allocation_errors_total counter
kube_apiserver_clusterip_allocator_allocation_errors_total{cidr="10.6.0.0/30",scope="dynamic"} 1
kube_apiserver_clusterip_allocator_allocation_errors_total{cidr="10.6.0.0/30",scope="static"} 1
# HELP kube_apiserver_clusterip_allocator_allocation_total Number of allocations of ClusterIPs, by CIDR and scope
# TYPE kube_apiserver_clusterip_allocator_allocation_total counter
kube_apiserver_clusterip_allocator_allocation_total{cidr="10.6.0.0/30",scope="dynamic"} 2
kube_apiserver_clusterip_allocator_allocation_total{cidr="10.6.0.0/30",scope="static"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(counters), "kube_apiserver_clusterip_allocator_allocation_errors_total", "kube_apiserver_clusterip_allocator_allocation_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(metrics.took); n != 1 {
		t.Errorf("durations of %d CIDRs, want that of the one that is left", n)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the metrics were registered twice")
	}
}

// gaugesOf returns the gauges of each CIDR.
func gaugesOf(t *testing.T, registry *prometheus.Registry) (all []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	numbers := make(map[string]map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if metric.GetGauge() != nil {
				cidr := metric.GetLabel()[0].GetValue()
				if numbers[cidr] == nil {
					numbers[cidr] = make(map[string]float64)
				}
				numbers[cidr][strings.TrimPrefix(family.GetName(), "kube_apiserver_clusterip_allocator_")] = metric.GetGauge().GetValue()
			}
		}
	}
	for _, cidr := range slices.Sorted(maps.Keys(numbers)) {
		all = append(all, fmt.Sprintf("%s: %v used, %v free", cidr, numbers[cidr]["allocated_ips"], numbers[cidr]["available_ips"]))
	}
	return all
}

// TestCorrectServiceCIDR corrects an object of the cache twice, as after several restores of etcd. The last correction
// must hold until the cache has another object.
func TestCorrectServiceCIDR(t *testing.T) {
	cached := serviceCIDR("kubernetes", metav1.ConditionTrue, "10.6.0.0/24")
	a, _ := newAllocator(t, newClient(), 0) // the informers do not start
	store := a.cidrs.informer.GetStore()
	if err := store.Add(cached); err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddr("10.6.0.1")
	expect := func(when string, want *networkingv1.ServiceCIDR) {
		t.Helper()
		if got := a.ServiceCIDROf(address); got != want {
			t.Errorf("%s the object is %v, want %v", when, got, want)
		}
	}
	expect("at first", cached)
	first, second := cached.DeepCopy(), cached.DeepCopy()
	first.UID, second.UID = "first", "second"
	a.CorrectServiceCIDR(cached, first)
	expect("after a correction", first)
	a.CorrectServiceCIDR(first, second)
	expect("after another one", second)
	a.CorrectServiceCIDR(second, nil)
	expect("once etcd has none", nil)
	next := cached.DeepCopy()
	next.UID = "next"
	if err := store.Update(next); err != nil {
		t.Fatal(err)
	}
	expect("once the cache has another one", next)
}
