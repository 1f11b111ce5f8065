package ipaddresstest

import (
	"errors"
	"net"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/registrytest"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// TestDualWriteBesideNewerServer allocates while all addresses but one have objects of a newer server, which sets no
// bits.
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

// TestDualWriteOfRequest allocates an address for a request and releases it, which has to have the same effect on the
// object and on the stored bitmap.
func TestDualWriteOfRequest(t *testing.T) {
	featuregatetesting.SetFeatureGateEmulationVersionDuringTest(t, utilfeature.DefaultFeatureGate, version.MustParse("1.33"))
	_, cidr, err := net.ParseCIDR("10.6.0.0/24")
	if err != nil {
		t.Fatal(err)
	}
	config, etcd := registrytest.NewEtcdStorage(t, "")
	bitmap, err := ipallocator.New(cidr, func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
		stored, err := storage.NewEtcd(allocator.NewAllocationMapWithOffset(max, rangeSpec, offset), "/ranges/serviceips", config.ForResource(api.Resource("serviceipallocations")))
		if err == nil {
			err = stored.CreateOrUpdate(&api.RangeAllocation{Range: rangeSpec})
		}
		return stored, err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, c := newCluster(t, bitmap)
	service := &api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	allocate := func() (net.IP, allocator.Request) {
		t.Helper()
		creating, request := c.ForRequest()
		ip, err := creating.(*ipallocator.MetaAllocator).AllocateNextService(service)
		if err != nil || !c.Has(ip) || !bitmap.Has(ip) {
			t.Fatalf("allocated %v, error: %v; there is an object: %v, a bit: %v", ip, err, c.Has(ip), bitmap.Has(ip))
		}
		return ip, request
	}

	ip, request := allocate()
	if until := request.UseUntil(); time.Until(until) < time.Minute || time.Until(until) > etcdstore.DefaultGrace {
		t.Errorf("the Service must be written by %s, before a repair of the bitmap", until)
	}
	if err := request.Undo(); err != nil {
		t.Fatal(err)
	}
	if c.Has(ip) || bitmap.Has(ip) {
		t.Errorf("after an undo of %v there is an object: %v, a bit: %v", ip, c.Has(ip), bitmap.Has(ip))
	}

	ip, _ = allocate()
	// The object and the Service, which would be in this etcd, too, have revisions of their own here.
	var deleted int64
	for deleted < 1000 {
		written, err := etcd.V3Client.Put(t.Context(), "/another", "")
		if err != nil {
			t.Fatal(err)
		}
		deleted = written.Header.Revision
	}
	deleting, request := c.ForRequest()
	if err := deleting.Release(ip); err != nil {
		t.Fatal(err)
	}
	if !c.Has(ip) || !bitmap.Has(ip) {
		t.Errorf("before the end of a deletion of %v there is an object: %v, a bit: %v", ip, c.Has(ip), bitmap.Has(ip))
	}
	if err := request.Commit(owner("a", deleted)); err != nil {
		t.Fatal(err)
	}
	if c.Has(ip) || bitmap.Has(ip) {
		t.Errorf("after the deletion of %v there is an object: %v, a bit: %v", ip, c.Has(ip), bitmap.Has(ip))
	}
}
