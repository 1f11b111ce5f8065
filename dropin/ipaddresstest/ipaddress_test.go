// Package ipaddresstest tests the allocators of ClusterIPs that are IPAddress objects, beside the released tests of
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

// timeout is far longer than what it limits takes.
const timeout = 20 * time.Second

// meeting is a client whose creations of IPAddress objects wait until a number of them are in flight.
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
	case <-time.After(timeout):
		return nil, errors.New("timed out waiting for concurrent creations")
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v this does not hold: %s", timeout, what)
		}
	}
}

// gauge returns the value of a CIDR's metric.
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

func TestConcurrentCreationsAreCounted(t *testing.T) {
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
		t.Fatalf("allocation before the cache has synced: %v", err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	// Each address is tried once: a retry would wait for another meeting.
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

	// Changes by other clients count, too, whoever manages an object: its address is not free.
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
	if err := objects.Delete(t.Context(), "10.7.0.1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(net.IPv4(10, 7, 0, 2)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "released addresses do not count", agree(creators-1))
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

func TestServiceCIDRsChange(t *testing.T) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := ipallocator.NewMetaAllocator(client.NetworkingV1(), factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Destroy()
	// A request that comes before the informers have started waits.
	first := make(chan error)
	go func() { _, err := c.AllocateNext(); first <- err }()
	if _, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), serviceCIDR("first", "10.6.0.0/30", metav1.ConditionTrue), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if err := <-first; err != nil {
		t.Errorf("allocation before the informers have started: %v", err)
	}
	if err := client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := client.NetworkingV1().ServiceCIDRs()
	small, wide := net.IPv4(10, 7, 0, 1), net.IPv4(10, 8, 0, 1)
	dry := func(ip net.IP) error { return c.DryRun().Allocate(ip) }

	eventually(t, "without a CIDR the allocator is full", func() bool {
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
	eventually(t, "a dry run can allocate from all CIDRs", func() bool { return dry(small) == nil && dry(wide) == nil })
	if free := c.Free(); free != 2+254 { // the object of the first allocation still exists, in none of the CIDRs
		t.Errorf("%d addresses are free, want %d", free, 2+254)
	}
	if err := c.Allocate(small); err != nil {
		t.Fatal(err)
	}
	if err := c.Allocate(small); !errors.Is(err, ipallocator.ErrAllocated) {
		t.Errorf("allocation of an address in use: %v", err)
	}
	eventually(t, "a dry run finds the address in use, too", func() bool { return errors.Is(dry(small), ipallocator.ErrAllocated) })
	if ip, err := c.DryRun().AllocateNext(); err != nil || c.Has(ip) {
		t.Errorf("a dry run allocated %v, which is in use: %v, error: %v", ip, c.Has(ip), err)
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
	eventually(t, "a deleted CIDR has no addresses", func() bool { return errors.Is(dry(wide), ipallocator.ErrMismatchedNetwork) })
	if !c.Has(small) {
		t.Error("a CIDR is not ready, but one of its two objects is")
	}
	out("b")
	eventually(t, "a CIDR without a ready object is not ready", func() bool { return !c.Has(small) })
	if _, err := c.AllocateNext(); !errors.Is(err, ipallocator.ErrFull) {
		t.Errorf("allocation without a ready CIDR: %v", err)
	}
	if err := c.Release(small); err != nil {
		t.Errorf("release of an address of a CIDR that is not ready: %v", err)
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
		t.Errorf("allocated %v, error: %v; want an address of %v", ip, err, subnet)
	}
	var out *ipallocator.ErrNotInRange
	if err := a.Allocate(net.ParseIP("fd00:7:0:1::1")); !errors.As(err, &out) {
		t.Errorf("allocation of an address past the first 2^64: %v", err)
	}
	if free := a.Free(); free != math.MaxInt {
		t.Errorf("%d addresses are free, want the largest int", free)
	}
}

// TestFirstServiceCIDR allocates before the first ServiceCIDR of a cluster is ready. The requests must wait for it.
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
			t.Fatalf("the allocation of any address did not wait: %v", err)
		case err := <-named:
			t.Fatalf("the allocation of a named address did not wait: %v", err)
		case <-time.After(200 * time.Millisecond): // both wait
		}
		if _, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(<-next, <-named); err != nil {
		t.Error(err)
	}
}
