package ipallocator

import (
	"net"
	"testing"
	"time"

	api "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// TestNestedCIDRs allocates an address that two ServiceCIDRs have: it is counted once, and so are the free ones.
func TestNestedCIDRs(t *testing.T) {
	ready := func(name, cidr string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}},
			Status:     networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue}}},
		}
	}
	client := fake.NewClientset(ready("narrow", "10.0.0.0/28"), ready("wide", "10.0.0.0/24"))
	factory := informers.NewSharedInformerFactory(client, 0)
	objects := factory.Networking().V1()
	c, err := NewMetaAllocator(client.NetworkingV1(), objects.ServiceCIDRs(), objects.IPAddresses(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Destroy()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	service := &api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
	if err := c.AllocateService(service, net.IPv4(10, 0, 0, 7)); err != nil {
		t.Fatal(err)
	}
	for c.Used() == 0 { // until the informer has the object
		time.Sleep(time.Millisecond)
	}
	if used, free := c.Used(), c.Free(); used != 1 || free != 253 {
		t.Errorf("%d used and %d free, of 254", used, free)
	}
}
