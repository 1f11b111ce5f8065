package repairloop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/rangeallocation"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/dropin/registrytest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// registry keeps a range in memory, and refuses a write that is not of what is there.
type registry struct {
	version int
	text    string
	data    []byte
	meddle  func() // before a write, as another server does
	fails   int    // so many reads
}

var errNoEtcd = errors.New("no etcd")

func (r *registry) Get() (*api.RangeAllocation, error) {
	if r.fails > 0 {
		r.fails--
		return nil, errNoEtcd
	}
	o := &api.RangeAllocation{Range: r.text, Data: r.data}
	if r.version != 0 {
		o.ResourceVersion = strconv.Itoa(r.version)
	}
	return o, nil
}

func (r *registry) CreateOrUpdate(o *api.RangeAllocation) error {
	if r.meddle != nil {
		r.meddle()
	}
	if version, _ := strconv.Atoi(o.ResourceVersion); version != r.version {
		return apierrors.NewConflict(api.Resource("serviceips"), "", errors.New("changed"))
	}
	r.version, r.text, r.data = r.version+1, o.Range, o.Data
	return nil
}

// has lists the ports in use of 100-200.
func (r *registry) has(t *testing.T, port uint16) bool {
	t.Helper()
	allocator := must(rangekeeper.NewAllocator(must(rangekeeper.ParsePortRange("100-200")), rangekeeper.Contiguous, 1))
	defer allocator.Close()
	if err := allocator.Restore(r.text, r.data); err != nil {
		t.Fatal(err)
	}
	return allocator.Has(rangekeeper.PortValue(port))
}

func service(name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, NodePort: port}}},
	}
}

// TestMadeFromServices lets a pass make a range that is not there yet.
func TestMadeFromServices(t *testing.T) {
	stored := &registry{}
	clients := fake.NewSimpleClientset(service("one", 111), service("two", 222))
	found, failed := counters()
	loop := New(Config{
		Controller: repair.NodePorts, Ranges: []Range{RangeOf(stored, "100-200")},
		Services: clients.CoreV1(), Events: clients.EventsV1(), Passes: 3, Found: found, Failed: failed,
	})
	if err := loop.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stored.text != "100-200" || !stored.has(t, 111) || stored.has(t, 122) {
		t.Errorf("%+v", stored)
	}
	if repaired, outOfRange := counted(t, found, "repair"), counted(t, found, "outOfRange"); repaired != 1 || outOfRange != 1 {
		t.Errorf("%d repaired, %d out of range", repaired, outOfRange)
	}
}

func (r *registry) RepairRange(rangeSpec string) (repair.Range, bool) {
	return registrytest.Whole(r, rangeSpec), false
}

// TestFirstPass lets passes fail at first, as while etcd starts. The server that starts does not wait for the interval.
func TestFirstPass(t *testing.T) {
	stored := &registry{fails: 1}
	clients := fake.NewSimpleClientset(service("one", 111))
	found, failed := counters()
	loop := New(Config{
		Controller: repair.NodePorts, Ranges: []Range{RangeOf(stored, "100-200")},
		Services: clients.CoreV1(), Events: clients.EventsV1(), Interval: time.Hour, Passes: 3, Found: found, Failed: failed,
	})
	stop, ended, success := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		loop.RunUntil(func() { close(success) }, stop)
	}()
	select {
	case <-success:
	case <-time.After(time.Minute):
		t.Error("no success")
	}
	close(stop)
	<-ended
	if !stored.has(t, 111) {
		t.Errorf("%+v", stored)
	}
	if n := must(testutil.GetCounterMetricValue(failed)); n != 1 {
		t.Errorf("%v passes failed", n)
	}
}

// TestConflictIsNoPass lets another server write in the middle of passes: they are made again, and do not count for
// leaks, which are given the time to become a Service's.
func TestConflictIsNoPass(t *testing.T) {
	stored := &registry{}
	clients := fake.NewSimpleClientset(service("one", 111))
	found, failed := counters()
	loop := New(Config{
		Controller: repair.NodePorts, Ranges: []Range{RangeOf(stored, "100-200")},
		Services: clients.CoreV1(), Events: clients.EventsV1(), Passes: 3, Found: found, Failed: failed,
	})
	once := func() {
		t.Helper()
		if err := loop.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	once()
	if err := clients.CoreV1().Services("default").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	conflicts := 0
	stored.meddle = func() {
		if conflicts < 2 {
			conflicts++
			stored.version++
		}
	}
	once() // with two conflicts on its way
	if conflicts != 2 {
		t.Fatalf("%d conflicts", conflicts)
	}
	for seen := 1; seen <= 3; seen++ {
		if want := seen < 3; stored.has(t, 111) != want {
			t.Errorf("recorded after %d passes: %v", seen, !want)
		}
		once()
	}
	if leaks := counted(t, found, "leak"); leaks != 1 {
		t.Errorf("%d leaks", leaks)
	}
	if n := must(testutil.GetCounterMetricValue(failed)); n != 2 {
		t.Errorf("%v attempts failed", n)
	}
}

// stale is a range for which the list of Services is too old at first.
type stale struct {
	repair.Uncommitted
	times    int
	revision int64
}

func (s *stale) RepairRange(string) (repair.Range, bool) { return s, true }

func (s *stale) Repair(_ context.Context, _ *rangekeeper.Pass, listed rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	s.revision = listed.Revision
	if s.times--; s.times >= 0 {
		return rangekeeper.Repaired{}, fmt.Errorf("repair: %w", rangekeeper.ErrStaleList)
	}
	return rangekeeper.Repaired{}, nil
}

// TestStaleList makes a pass again at once if it was the list's fault that it failed: a server that starts waits for the
// first pass that does not fail, and the next one is minutes away.
func TestStaleList(t *testing.T) {
	clients := fake.NewSimpleClientset()
	clients.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "77"}}, nil
	})
	found, failed := counters()
	passes := &stale{Uncommitted: registrytest.Whole(&registry{}, "100-200"), times: 2}
	committed := struct {
		rangeallocation.RangeRegistry
		Repairable
	}{&registry{}, passes}
	loop := New(Config{
		Controller: repair.NodePorts, Ranges: []Range{RangeOf(committed, "100-200")}, Services: clients.CoreV1(), Events: clients.EventsV1(),
		Passes: 3, Found: found, Failed: failed,
	})
	if err := loop.Once(t.Context()); err != nil {
		t.Error(err)
	}
	if passes.revision != 77 {
		t.Errorf("the list is said to be of revision %d", passes.revision)
	}
	if n := must(testutil.GetCounterMetricValue(failed)); n != 2 {
		t.Errorf("%v attempts failed", n)
	}
}
