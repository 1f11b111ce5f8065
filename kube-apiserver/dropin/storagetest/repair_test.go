package storagetest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/registrytest"

	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/controlplane/repairloop"
)

// TestRepairWithStaleList makes a repair pass over a stored range while the API server's list of Services is older than
// the range. The pass must not use that list: values of the Services that it lacks would be leaks.
func TestRepairWithStaleList(t *testing.T) {
	const ports = "30000-30099"
	config, server := registrytest.NewEtcdStorage(t, "")
	defer server.Terminate(t)
	stored, err := storage.NewEtcd(allocator.NewAllocationMapWithOffset(100, ports, 0), "/ranges/servicenodeports", config.ForResource(api.Resource("servicenodeportallocations")))
	if err == nil {
		defer stored.Destroy()
		err = stored.CreateOrUpdate(&api.RangeAllocation{Range: ports})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := stored.AllocateNext(); err != nil {
		t.Fatal(err)
	}
	clients := fake.NewClientset()
	clients.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
	})
	loop := repairloop.New(repairloop.Config{
		Controller: repaircontroller.NodePorts, Ranges: []repairloop.Range{repairloop.RangeOf(stored, ports)},
		Services: clients.CoreV1(), Events: clients.EventsV1(), Passes: 3,
		Found: func(string, int) {}, Failed: func() {},
	})
	if err := loop.Once(t.Context()); err == nil {
		t.Error("the pass used a list of Services that is older than the range")
	}
}
