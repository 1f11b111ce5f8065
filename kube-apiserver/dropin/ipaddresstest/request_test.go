package ipaddresstest

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	serviceallocator "k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// newCluster returns a cluster with the ServiceCIDR 10.6.0.0/24. It numbers the revisions of IPAddress objects, which
// the fake clientset does not. bitmap is nil, or the bitmap of dual write.
func newCluster(t *testing.T, bitmap ipallocator.Interface) (*fake.Clientset, *ipallocator.MetaAllocator) {
	t.Helper()
	client := fake.NewClientset(serviceCIDR("kubernetes", "10.6.0.0/24", metav1.ConditionTrue))
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
	client.PrependReactor("update", "ipaddresses", func(action clienttesting.Action) (bool, runtime.Object, error) {
		number(action.(clienttesting.UpdateAction).GetObject().(*networkingv1.IPAddress))
		return false, nil, nil
	})
	// Check preconditions like an API server.
	client.PrependReactor("delete", "ipaddresses", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion := action.(clienttesting.DeleteActionImpl)
		stored, err := client.Tracker().Get(deletion.GetResource(), "", deletion.Name)
		only := deletion.DeleteOptions.Preconditions
		if err != nil || only == nil {
			return false, nil, nil
		}
		if object := stored.(*networkingv1.IPAddress); *only.UID != object.UID || *only.ResourceVersion != object.ResourceVersion {
			return true, nil, apierrors.NewConflict(deletion.GetResource().GroupResource(), deletion.Name, errors.New("the object was written since it was read"))
		}
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := ipallocator.NewMetaAllocator(client.NetworkingV1(), factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses(), false, bitmap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Destroy)
	factory.Start(t.Context().Done())
	return client, c
}

// TestReleaseForService releases an address on behalf of a Service. The address must be released only if the Service
// owns it.
func TestReleaseForService(t *testing.T) {
	ip := net.IPv4(10, 6, 0, 5)
	service := func(name string) *api.Service {
		return &api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	for name, c := range map[string]struct {
		change   func(t *testing.T, client *fake.Clientset, object *networkingv1.IPAddress)
		owner    string
		asOf     int64
		released bool
	}{
		"deleted":              {owner: "a", asOf: 1000, released: true},
		"of another Service":   {owner: "b", asOf: 1000},
		"allocated later":      {owner: "a", asOf: 100},
		"labelled in between":  {change: label, owner: "a", asOf: 1000, released: true},
		"of the next Service":  {change: replace("b"), owner: "a", asOf: 1000},
		"recreated, same name": {change: replace("a"), owner: "a", asOf: 101},
	} {
		t.Run(name, func(t *testing.T) {
			client, allocator := newCluster(t, nil)
			creating, _ := allocator.ForRequest()
			if err := creating.(*ipallocator.MetaAllocator).AllocateService(service("a"), ip); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the cache has the object", func() bool { return allocator.Used() == 1 })
			if c.change != nil {
				c.change(t, client, object(t, client, ip))
			}
			deleting, request := allocator.ForRequest()
			if err := deleting.Release(ip); err != nil {
				t.Fatal(err)
			}
			if !allocator.Has(ip) {
				t.Fatal("released before the end of the request")
			}
			if err := request.Commit(owner(c.owner, c.asOf)); err != nil {
				t.Fatal(err)
			}
			if released := !allocator.Has(ip); released != c.released {
				t.Errorf("released: %v, want %v", released, c.released)
			}
		})
	}
}

func owner(name string, asOf int64) serviceallocator.Owner {
	return serviceallocator.Owner{Namespace: "default", Name: name, Ownership: rangekeeper.OwnedSince(asOf)}
}

func object(t *testing.T, client *fake.Clientset, ip net.IP) *networkingv1.IPAddress {
	t.Helper()
	object, err := client.NetworkingV1().IPAddresses().Get(t.Context(), ip.String(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// label updates an object, so that the cached version is stale.
func label(t *testing.T, client *fake.Clientset, object *networkingv1.IPAddress) {
	t.Helper()
	object.Labels["team"] = "a"
	if _, err := client.NetworkingV1().IPAddresses().Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// replace releases the address and allocates it for a Service of this name.
func replace(name string) func(*testing.T, *fake.Clientset, *networkingv1.IPAddress) {
	return func(t *testing.T, client *fake.Clientset, object *networkingv1.IPAddress) {
		t.Helper()
		objects := client.NetworkingV1().IPAddresses()
		if err := objects.Delete(t.Context(), object.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		object.UID, object.ResourceVersion, object.Spec.ParentRef.Name = "", "", name
		if _, err := objects.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUndoForService undoes a request. It must delete the object that it created, unless another client has written the
// object.
func TestUndoForService(t *testing.T) {
	for _, written := range []bool{false, true} {
		client, allocator := newCluster(t, nil)
		own, request := allocator.ForRequest()
		ip, err := own.(*ipallocator.MetaAllocator).AllocateNextService(&api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		if written {
			label(t, client, object(t, client, ip))
		}
		if err := request.Undo(); err != nil {
			t.Fatal(err)
		}
		if allocator.Has(ip) != written {
			t.Errorf("object written: %v, address in use after the undo: %v", written, allocator.Has(ip))
		}
	}
}
