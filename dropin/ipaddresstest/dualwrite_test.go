package ipaddresstest

import (
	"errors"
	"net"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// TestDualWriteBesideNewerServer allocates while all addresses but one have objects of a newer server, which sets no bits.
func TestDualWriteBesideNewerServer(t *testing.T) {
	// The newest release in which servers write bitmaps, too.
	featuregatetesting.SetFeatureGateEmulationVersionDuringTest(t, utilfeature.DefaultFeatureGate, version.MustParse("1.33"))
	_, cidr, err := net.ParseCIDR("10.6.0.0/24")
	if err != nil {
		t.Fatal(err)
	}
	bitmap, err := ipallocator.NewInMemory(cidr)
	if err != nil {
		t.Fatal(err)
	}
	client, c := newCluster(t, bitmap)
	free := net.IPv4(10, 6, 0, 77)
	for last := range byte(254) {
		if ip := net.IPv4(10, 6, 0, 1+last); !ip.Equal(free) {
			object := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip.String()}}
			if _, err := client.NetworkingV1().IPAddresses().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the allocator knows all objects", func() bool { return c.Used() == 253 })
	if ip, err := c.AllocateNext(); err != nil || !ip.Equal(free) {
		t.Errorf("allocated %v, error: %v; only %v is free", ip, err, free)
	}
	if !bitmap.Has(free) {
		t.Errorf("%v is not recorded in the bitmap", free)
	}
	if ip, err := c.AllocateNext(); !errors.Is(err, ipallocator.ErrFull) {
		t.Errorf("allocated %v of a full range, error: %v", ip, err)
	}
}
