package repairloop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// betweenPasses is longer than the interval of every test.
const betweenPasses = 24 * time.Hour

// registry keeps a range in memory.
type registry struct {
	text string
	data []byte
	// fails is the number of reads that fail.
	fails int
}

var errNoEtcd = errors.New("no etcd")

func (r *registry) Get() (*corev1.RangeAllocation, error) {
	if r.fails > 0 {
		r.fails--
		return nil, errNoEtcd
	}
	return &corev1.RangeAllocation{Range: r.text, Data: r.data}, nil
}

func (r *registry) CreateOrUpdate(o *corev1.RangeAllocation) error {
	r.text, r.data = o.Range, o.Data
	return nil
}

// RepairRange returns a range whose revisions are not those of Services.
func (r *registry) RepairRange(rangeSpec string) (repair.Range, repaircontroller.ListStored) {
	return OverRegistry(r, rangeSpec, betweenPasses), nil
}

// has returns whether a port of 100-200 is in use.
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

// TestCreateRange makes a pass over a range that does not exist. The pass must create it from the Services.
func TestCreateRange(t *testing.T) {
	stored := &registry{}
	clients := fake.NewSimpleClientset(service("one", 111), service("two", 222))
	config, counted := count(Config{
		Controller: repaircontroller.NodePorts, Ranges: []Range{RangeOf(stored, "100-200")},
		Services: clients.CoreV1(), Events: clients.EventsV1(), Passes: 3,
	})
	loop := New(config)
	if err := loop.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stored.text != "100-200" || !stored.has(t, 111) || stored.has(t, 122) {
		t.Errorf("%+v", stored)
	}
	if repaired, outOfRange := counted.of("repair"), counted.of("outOfRange"); repaired != 1 || outOfRange != 1 {
		t.Errorf("%d repaired, %d out of range", repaired, outOfRange)
	}
}

// TestFirstPass makes the first pass fail, as while etcd starts. The loop must retry before the interval has passed.
func TestFirstPass(t *testing.T) {
	stored := &registry{fails: 1}
	clients := fake.NewSimpleClientset(service("one", 111))
	config, counted := count(Config{
		Controller: repaircontroller.NodePorts, Ranges: []Range{RangeOf(stored, "100-200")},
		Services: clients.CoreV1(), Events: clients.EventsV1(), Interval: time.Hour, Passes: 3,
	})
	loop := New(config)
	stop, ended, success := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		loop.RunUntil(func() { close(success) }, stop)
	}()
	select {
	case <-success:
	case <-time.After(time.Minute):
		t.Error("no pass succeeded within a minute")
	}
	close(stop)
	<-ended
	if !stored.has(t, 111) {
		t.Errorf("%+v", stored)
	}
	if n := counted.failures(); n != 1 {
		t.Errorf("%d failed passes, want 1", n)
	}
}

// stale is a range whose first repairs fail because the list of Services is too old.
type stale struct {
	repair.Range
	times    int
	revision int64
}

func (s *stale) RepairRange(string) (repair.Range, repaircontroller.ListStored) {
	return s, func(context.Context, int64) ([]*corev1.Service, int64, error) { return nil, 77, nil }
}

func (s *stale) Repair(_ context.Context, _ *rangekeeper.RepairPass, _ *etcdstore.Look, listed rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	s.revision = listed.Revision
	if s.times--; s.times >= 0 {
		return rangekeeper.Repaired{}, fmt.Errorf("repair: %w", rangekeeper.ErrStaleList)
	}
	return rangekeeper.Repaired{}, nil
}

// TestStaleList fails passes because of an old list of Services. The loop must retry them before the interval has
// passed: a starting server waits for the first pass that succeeds.
func TestStaleList(t *testing.T) {
	clients := fake.NewSimpleClientset()
	clients.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the list is from the API server, whose watch cache may be wrong")
	})
	passes := &stale{Range: OverRegistry(&registry{}, "100-200", betweenPasses), times: 2}
	committed := struct {
		Registry
		Repairable
	}{&registry{}, passes}
	config, counted := count(Config{
		Controller: repaircontroller.NodePorts, Ranges: []Range{RangeOf(committed, "100-200")}, Services: clients.CoreV1(), Events: clients.EventsV1(),
		Passes: 3,
	})
	loop := New(config)
	if err := loop.Once(t.Context()); err != nil {
		t.Error(err)
	}
	if passes.revision != 77 {
		t.Errorf("the repair got a list of revision %d, want 77", passes.revision)
	}
	if n := counted.failures(); n != 2 {
		t.Errorf("%d failed passes, want 2", n)
	}
}
