// Package ipaddresstest tests the allocators of ClusterIPs that are IPAddress objects, beside the released tests of
// them: with informers that run.
package ipaddresstest

import (
	"errors"
	"math"
	"net"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// timeout is far longer than what it limits takes.
const timeout = 3 * time.Minute

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v this does not hold: %s", timeout, what)
		}
	}
}

// gauge returns the value of a CIDR's metric; -1 if there is none.
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
	c.EnableMetrics()
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
	eventually(t, "the metrics count the free addresses before one of them is allocated", func() bool {
		return gauge(t, "available_ips", "10.7.0.0/30") == 2 && gauge(t, "available_ips", "10.8.0.0/24") == 254
	})
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
	eventually(t, "a deleted CIDR has no addresses, and the error names the others", func() bool {
		var outside *ipallocator.ErrNotInRange
		return errors.As(dry(wide), &outside) && outside.ValidRange == "10.7.0.0/30"
	})
	eventually(t, "a deleted CIDR has no gauges", func() bool { return gauge(t, "available_ips", "10.8.0.0/24") == -1 })
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

// TestWideCIDR counts addresses of which there are more than an int can count.
func TestWideCIDR(t *testing.T) {
	object := serviceCIDR("wide", "10.7.0.0/30", metav1.ConditionTrue)
	object.Spec.CIDRs[1] = "fd00:7::/48"
	client := fake.NewClientset(object)
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := ipallocator.NewMetaAllocator(client.NetworkingV1(), factory.Networking().V1().ServiceCIDRs(), factory.Networking().V1().IPAddresses(), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Destroy()
	factory.Start(t.Context().Done())
	_, subnet, _ := net.ParseCIDR("fd00:7::/64")
	if ip, err := c.AllocateNext(); err != nil || !subnet.Contains(ip) {
		t.Errorf("allocated %v, error: %v; want an address of %v", ip, err, subnet)
	}
	if err := c.Allocate(net.ParseIP("fd00:7:0:1::1")); !errors.Is(err, ipallocator.ErrMismatchedNetwork) {
		t.Errorf("allocation of an address past the first 2^64: %v", err)
	}
	if free := c.Free(); free != math.MaxInt {
		t.Errorf("%d addresses are free, want the largest int", free)
	}
}
