// Package ipaddresstest tests the allocators of ClusterIPs that are IPAddress objects, beside the release's own tests of
// them: with informers that run.
package ipaddresstest

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// patience is for what happens at once if it happens at all.
const patience = 20 * time.Second

// meeting is a client whose creations of IPAddress objects wait until so many are under way.
type meeting struct {
	networkingv1client.NetworkingV1Interface
	arrived *sync.WaitGroup
}

func (m meeting) IPAddresses() networkingv1client.IPAddressInterface {
	return meetingIPAddresses{m.NetworkingV1Interface.IPAddresses(), m.arrived}
}

type meetingIPAddresses struct {
	networkingv1client.IPAddressInterface
	arrived *sync.WaitGroup
}

func (m meetingIPAddresses) Create(ctx context.Context, object *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	m.arrived.Done()
	all := make(chan struct{})
	go func() { m.arrived.Wait(); close(all) }()
	select {
	case <-all:
		return m.IPAddressInterface.Create(ctx, object, opts)
	case <-time.After(patience):
		return nil, errors.New("the others do not come")
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not so", what)
		}
	}
}

// gauge returns what /metrics says of a CIDR.
func gauge(t *testing.T, name, cidr string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "kube_apiserver_clusterip_allocator_"+name {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == cidr {
				return metric.GetGauge().GetValue()
			}
		}
	}
	return -1
}

func TestCreationsMeetAndAreCounted(t *testing.T) {
	const creators, cidr = 32, "10.7.0.0/24"
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	_, ipNet, _ := net.ParseCIDR(cidr)
	var arrived sync.WaitGroup
	arrived.Add(creators)
	a, err := ipallocator.NewIPAllocator(ipNet, meeting{client.NetworkingV1(), &arrived}, factory.Networking().V1().IPAddresses())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Destroy()
	a.EnableMetrics()
	if _, err := a.AllocateNext(); !errors.Is(err, ipallocator.ErrNotReady) {
		t.Fatalf("before the cache has been filled: %v", err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	// Addresses that nobody else tries, as who has met others once would wait for more.
	var group sync.WaitGroup
	for i := range creators {
		group.Go(func() {
			service := &api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			if err := a.AllocateService(service, net.IPv4(10, 7, 0, byte(i+1))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	agree := func(used int) func() bool {
		return func() bool {
			return a.Used() == used && a.Free() == 254-used &&
				gauge(t, "allocated_ips", cidr) == float64(used) && gauge(t, "available_ips", cidr) == float64(254-used)
		}
	}
	eventually(t, "each object is counted once", agree(creators))

	// What others do counts as well, if it is about an address of this CIDR that an allocator has made.
	objects := client.NetworkingV1().IPAddresses()
	object, err := objects.Get(t.Context(), "10.7.0.1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ref := object.Spec.ParentRef; ref == nil || *ref != (networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "a"}) {
		t.Errorf("the object refers to %v", ref)
	}
	for _, name := range []string{"10.7.0.254", "10.7.0.255", "10.8.0.1"} {
		other := object.DeepCopy()
		other.Name = name
		if _, err := objects.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the broadcast address and another CIDR do not count", agree(creators+1))
	object.Labels[networkingv1.LabelManagedBy] = "somebody"
	if _, err := objects.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an object of somebody else does not count", agree(creators))
	if err := objects.Delete(t.Context(), "10.7.0.1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(net.IPv4(10, 7, 0, 2)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is released does not count", agree(creators-1))
}

func serviceCIDR(name, cidr string, ready metav1.ConditionStatus) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr, "fd00::/112"}},
		Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{
			Type: networkingv1.ServiceCIDRConditionReady, Status: ready,
		}}},
	}
}

func TestServiceCIDRsComeAndGo(t *testing.T) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := ipallocator.NewMetaAllocator(client.NetworkingV1(), factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Destroy()
	// Who comes before the informers have begun waits.
	first := make(chan error)
	go func() { _, err := c.AllocateNext(); first <- err }()
	if _, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), serviceCIDR("first", "10.6.0.0/30", metav1.ConditionTrue), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if err := <-first; err != nil {
		t.Errorf("before the informers have begun: %v", err)
	}
	if err := client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := client.NetworkingV1().ServiceCIDRs()
	small, wide := net.IPv4(10, 7, 0, 1), net.IPv4(10, 8, 0, 1)
	dry := func(ip net.IP) error { return c.DryRun().Allocate(ip) }

	eventually(t, "without a CIDR all is full", func() bool {
		_, err := c.DryRun().AllocateNext()
		return errors.Is(err, ipallocator.ErrFull)
	})
	for _, object := range []*networkingv1.ServiceCIDR{
		serviceCIDR("a", "10.7.0.0/30", metav1.ConditionTrue),
		serviceCIDR("b", "10.7.0.0/30", metav1.ConditionTrue),
		serviceCIDR("c", "10.8.0.0/24", metav1.ConditionTrue),
	} {
		if _, err := objects.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a dry run knows all CIDRs", func() bool { return dry(small) == nil && dry(wide) == nil })
	if free := c.Free(); free != 2+254-1 { // one object is left of the first
		t.Errorf("%d free", free)
	}
	if err := c.Allocate(small); err != nil {
		t.Fatal(err)
	}
	if err := c.Allocate(small); !errors.Is(err, ipallocator.ErrAllocated) {
		t.Errorf("an address that is in use: %v", err)
	}
	eventually(t, "a dry run says so, too", func() bool { return errors.Is(dry(small), ipallocator.ErrAllocated) })
	if ip, err := c.DryRun().AllocateNext(); err != nil || c.Has(ip) {
		t.Errorf("a dry run gives %v, %v", ip, err)
	}

	out := func(name string) {
		if _, err := objects.UpdateStatus(t.Context(), serviceCIDR(name, "10.7.0.0/30", metav1.ConditionFalse), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	out("a")
	if err := objects.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a CIDR that is gone has no addresses", func() bool { return errors.Is(dry(wide), ipallocator.ErrMismatchedNetwork) })
	if !c.Has(small) {
		t.Error("a CIDR of two objects is out of service with the first of them")
	}
	out("b")
	eventually(t, "it is with the second", func() bool { return !c.Has(small) })
	if _, err := c.AllocateNext(); !errors.Is(err, ipallocator.ErrFull) {
		t.Errorf("out of service: %v", err)
	}
	if err := c.Release(small); err != nil {
		t.Errorf("what is in use when a CIDR goes out of service cannot be released: %v", err)
	}
}

func TestCIDRWiderThanASubnet(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	client := fake.NewClientset().NetworkingV1()
	_, wide, _ := net.ParseCIDR("fd00:7::/48")
	_, subnet, _ := net.ParseCIDR("fd00:7::/64")
	a, err := ipallocator.NewIPAllocator(wide, client, factory.Networking().V1().IPAddresses())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Destroy()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	if ip, err := a.AllocateNext(); err != nil || !subnet.Contains(ip) {
		t.Errorf("%v, %v", ip, err)
	}
	var out *ipallocator.ErrNotInRange
	if err := a.Allocate(net.ParseIP("fd00:7:0:1::1")); !errors.As(err, &out) {
		t.Errorf("an address past the first 2^64: %v", err)
	}
	if free := a.Free(); free != math.MaxInt {
		t.Errorf("%d free", free)
	}
}

// TestFirstServiceCIDR has requests come before the first ServiceCIDR of a cluster, as right after its first server is ready.
func TestFirstServiceCIDR(t *testing.T) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := ipallocator.NewMetaAllocator(client.NetworkingV1(), factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Destroy()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	next, named := make(chan error, 1), make(chan error, 1)
	go func() { _, err := c.AllocateNext(); next <- err }()
	go func() { named <- c.Allocate(net.IPv4(10, 6, 0, 1)) }()
	for _, object := range []*networkingv1.ServiceCIDR{
		serviceCIDR("not-ready", "10.7.0.0/30", metav1.ConditionFalse),
		serviceCIDR("kubernetes", "10.6.0.0/29", metav1.ConditionTrue),
	} {
		select {
		case err := <-next:
			t.Fatalf("any address: %v", err)
		case err := <-named:
			t.Fatalf("a named address: %v", err)
		case <-time.After(200 * time.Millisecond): // they wait
		}
		if _, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(<-next, <-named); err != nil {
		t.Error(err)
	}
}
