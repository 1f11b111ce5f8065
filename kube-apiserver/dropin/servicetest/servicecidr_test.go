package servicetest

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	svctest "k8s.io/kubernetes/pkg/api/service/testing"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// startObjects starts a cluster whose ClusterIPs are IPAddress objects. etcd has a key for each object of the client.
// putCIDR writes a ServiceCIDR, which the server follows.
func startObjects(t *testing.T) (c *cluster, client *fake.Clientset, putCIDR func(name, cidr string)) {
	t.Helper()
	client = fake.NewClientset()
	client.PrependReactor("create", "ipaddresses", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateAction).GetObject().(*networkingv1.IPAddress)
		object.ResourceVersion = revisionText(must(c.etcd.Put(t.Context(), addressKeys+object.Name, "the object")).Header.Revision)
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	addresses := must(ipallocator.NewMetaAllocator(client.NetworkingV1(), factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses(), false, nil))
	factory.Start(t.Context().Done())
	c = start(t, addresses)
	// The objects themselves are only with the client.
	t.Cleanup(ipallocator.SetObjects(func() ipallocator.Objects { return client.NetworkingV1().IPAddresses() }))
	return c, client, func(name, cidr string) {
		t.Helper()
		revision := must(c.etcd.Put(t.Context(), cidrKeys+name, "the ServiceCIDR")).Header.Revision
		must(client.NetworkingV1().ServiceCIDRs().Create(t.Context(), serviceCIDR(name, cidr, revision), metav1.CreateOptions{}))
		await(t, func() bool {
			_, err := factory.Networking().V1().ServiceCIDRs().Lister().Get(name)
			return err == nil
		})
	}
}

func serviceCIDR(name, cidr string, revision int64) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: revisionText(revision)}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}},
		Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue}}},
	}
}

// await waits until a condition holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a condition does not hold")
		}
	}
}

// TestServiceCIDRIsDeletedDuringAllocation deletes the ServiceCIDR of an address while its IPAddress object is created,
// as slow webhooks let happen. The Service must not be written outside of all ServiceCIDRs.
func TestServiceCIDRIsDeletedDuringAllocation(t *testing.T) {
	c, client, putCIDR := startObjects(t)
	putCIDR("kubernetes", "10.6.0.0/24")
	client.PrependReactor("create", "ipaddresses", func(clienttesting.Action) (bool, runtime.Object, error) {
		// The client is locked during a reaction.
		must(0, client.Tracker().Delete(networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), "", "kubernetes"))
		await(t, func() bool { return c.addresses.(*ipallocator.MetaAllocator).Free() == 0 })
		return false, nil, nil
	})
	_, err := c.create(request(t), svctest.MakeService("a"), nil)
	checkRetry(t, err, http.StatusServiceUnavailable, "the ServiceCIDR of the allocated address is gone")
	if c.stored(t, key("a")) != 0 {
		t.Error("the Service is stored")
	}
	if left := must(client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})).Items; len(left) != 0 {
		t.Errorf("the IPAddress objects %v are left", left)
	}
}

// TestRestoredServiceCIDRs has a server whose cache has ServiceCIDRs of a lost history, and whose connections were
// lost. Services get addresses of those that etcd has, at the second attempt at the latest.
func TestRestoredServiceCIDRs(t *testing.T) {
	c, client, putCIDR := startObjects(t)
	putCIDR("kubernetes", "10.6.0.0/28")
	c.reconnect(t, c.REST)
	inEtcd := []netip.Prefix{netip.MustParsePrefix("10.6.0.0/28")}
	for _, lost := range []struct{ name, cached, stored string }{
		{"another-cidr", "10.7.0.0/24", "10.8.0.0/24"},
		{"a-same-cidr", "10.6.0.0/28", ""},
		{"wider", "10.0.0.0/8", ""},
	} {
		putCIDR(lost.name, lost.cached)
		must(c.etcd.Delete(t.Context(), cidrKeys+lost.name))
		var stored *networkingv1.ServiceCIDR
		if lost.stored != "" {
			stored = serviceCIDR(lost.name, lost.stored, must(c.etcd.Put(t.Context(), cidrKeys+lost.name, "another one")).Header.Revision)
			inEtcd = append(inEtcd, netip.MustParsePrefix(lost.stored))
		}
		client.PrependReactor("get", "servicecidrs", func(action clienttesting.Action) (bool, runtime.Object, error) {
			switch {
			case action.(clienttesting.GetAction).GetName() != lost.name:
				return false, nil, nil
			case stored == nil:
				return true, nil, apierrors.NewNotFound(networkingv1.Resource("servicecidrs"), lost.name)
			default:
				return true, stored, nil
			}
		})
		refused := 0
		for range 12 {
			service := svctest.MakeService("")
			service.GenerateName = "s-"
			created, err := c.create(request(t), service, nil)
			if err != nil {
				checkRetry(t, err, http.StatusServiceUnavailable, "the ServiceCIDR of the allocated address is gone")
				refused++
				continue
			}
			address := netip.MustParseAddr(created.Spec.ClusterIP)
			if !slices.ContainsFunc(inEtcd, func(cidr netip.Prefix) bool { return cidr.Contains(address) }) {
				t.Errorf("%s: %s is in no ServiceCIDR that etcd has", lost.name, address)
			}
			if _, _, err := c.Delete(request(t), created.Name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if refused > 1 {
			t.Errorf("%s: %d creations were refused", lost.name, refused)
		}
	}
}
