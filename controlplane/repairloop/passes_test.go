package repairloop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

func init() {
	// The other handlers include a rate limiter, whose last error may be in the future of a test with fake time.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
}

// scripted is a range with a function that is called before each read for a pass, and before each repair. If it returns
// an error, the range does nothing and fails with it. The functions may be nil.
type scripted struct {
	repair.Range
	read, repair func(context.Context) error
}

func (s scripted) ReadForPass(ctx context.Context, pass *rangekeeper.RepairPass) (rangekeeper.View, bool, error) {
	if s.read != nil {
		if err := s.read(ctx); err != nil {
			return rangekeeper.View{}, false, err
		}
	}
	return s.Range.ReadForPass(ctx, pass)
}

func (s scripted) Repair(ctx context.Context, pass *rangekeeper.RepairPass, look *etcdstore.Look, listed rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	if s.repair != nil {
		if err := s.repair(ctx); err != nil {
			return rangekeeper.Repaired{}, err
		}
	}
	return s.Range.Repair(ctx, pass, look, listed)
}

// newLoop returns a loop over ranges in memory.
func newLoop(clients *fake.Clientset, controller repaircontroller.Controller, interval time.Duration, ranges ...Range) *Loop {
	config, _ := count(Config{
		Controller: controller, Ranges: ranges, Services: clients.CoreV1(), Events: clients.EventsV1(),
		Interval: interval, Passes: 3,
	})
	return New(config)
}

// leaked returns a registry of the ports 100-200 with a port that no Service has.
func leaked(t *testing.T, port uint16) *registry {
	t.Helper()
	allocator := must(rangekeeper.NewAllocator(must(rangekeeper.ParsePortRange("100-200")), rangekeeper.Contiguous, 1))
	defer allocator.Close()
	if err := allocator.Allocate(rangekeeper.PortValue(port)); err != nil {
		t.Fatal(err)
	}
	return &registry{text: "100-200", data: must(allocator.Snapshot(nil))}
}

// TestPassEnds has a range that does not answer. A pass must end after its interval, so that the next one can begin.
func TestPassEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := RangeOf(&registry{}, "100-200")
		silent.passes = scripted{Range: silent.passes, read: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		loop := newLoop(fake.NewSimpleClientset(), repaircontroller.NodePorts, 3*time.Minute, silent)
		defer loop.broadcaster.Shutdown()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		if err := loop.Once(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 3*time.Minute {
			t.Errorf("the pass ended after %v with the error %v", time.Since(begun), err)
		}
	})
}

// TestInterval counts passes: one each second until one succeeds, and then one per interval.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := 0
		counted := RangeOf(&registry{}, "100-200")
		counted.passes = scripted{Range: counted.passes, read: func(context.Context) error {
			if passes++; passes <= 2 {
				return errNoEtcd
			}
			return nil
		}}
		loop := newLoop(fake.NewSimpleClientset(), repaircontroller.NodePorts, 10*time.Minute, counted)
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			loop.RunUntil(func() {}, stop)
		}()
		for _, want := range []int{1, 2, 3, 3} { // after 0, 1, 2 and 3 seconds
			synctest.Wait()
			if passes != want {
				t.Errorf("%d passes, want %d", passes, want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if passes != 3+6 {
			t.Errorf("%d passes after an hour, want %d", passes, 3+6)
		}
		close(stop)
		<-ended
	})
}

// TestPoisoned loses the counters of leaks in the second pass. The loop must begin again: three more passes must see
// the leak before it is cleaned.
func TestPoisoned(t *testing.T) {
	const port = 111
	stored, pass := leaked(t, port), 0
	poisoned := RangeOf(stored, "100-200")
	poisoned.passes = scripted{Range: poisoned.passes, repair: func(context.Context) error {
		if pass == 2 {
			return fmt.Errorf("repair: %w", rangekeeper.ErrPoisoned)
		}
		return nil
	}}
	loop := newLoop(fake.NewSimpleClientset(), repaircontroller.NodePorts, time.Minute, poisoned)
	defer loop.broadcaster.Shutdown()
	for pass = 1; pass <= 5; pass++ {
		if err := loop.Once(t.Context()); errors.Is(err, rangekeeper.ErrPoisoned) != (pass == 2) || err != nil && pass != 2 {
			t.Errorf("pass %d: %v", pass, err)
		}
		if has := stored.has(t, port); has != (pass < 5) {
			t.Errorf("after pass %d the leak is recorded: %v", pass, has)
		}
	}
}

// TestOneRangeFails cannot repair the first of two ranges. The second one must be repaired all the same.
func TestOneRangeFails(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.7", ClusterIPs: []string{"10.0.0.7", "fd00::7"}},
	}
	first, second := &registry{}, &registry{}
	failing := RangeOf(first, "10.0.0.0/24")
	failing.passes = scripted{Range: failing.passes, repair: func(context.Context) error { return errNoEtcd }}
	loop := newLoop(fake.NewSimpleClientset(service), repaircontroller.ClusterIPs, time.Minute, failing, RangeOf(second, "fd00::/120"))
	defer loop.broadcaster.Shutdown()
	if err := loop.Once(t.Context()); !errors.Is(err, errNoEtcd) {
		t.Error(err)
	}
	values := must(rangekeeper.ParseCIDR("fd00::/120"))
	allocator := must(rangekeeper.NewAllocator(values, rangekeeper.Contiguous, 1))
	defer allocator.Close()
	if err := allocator.Restore(second.text, second.data); err != nil {
		t.Fatal(err)
	}
	if value := must(rangekeeper.ParseValue("fd00::7")); !allocator.Has(value) || first.text != "" {
		t.Errorf("recorded in the second range: %v; the first range: %+v", allocator.Has(value), first)
	}
}

// TestPages lists more Services than an API server returns at once.
func TestPages(t *testing.T) {
	const services, page = 1100, 500
	clients := fake.NewSimpleClientset()
	clients.PrependReactor("list", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.ListActionImpl).ListOptions
		begin := 0
		if options.Continue != "" {
			begin = must(strconv.Atoi(options.Continue))
		}
		list := &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "77"}}
		for i := begin; i < services && i < begin+page; i++ {
			list.Items = append(list.Items, *service(fmt.Sprint(i), int32(30000+i)))
		}
		if begin+page < services {
			list.Continue = fmt.Sprint(begin + page)
		}
		return true, list, nil
	})
	stored := &registry{}
	loop := newLoop(clients, repaircontroller.NodePorts, time.Minute, RangeOf(stored, "30000-32767"))
	defer loop.broadcaster.Shutdown()
	if err := loop.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	allocator := must(rangekeeper.NewAllocator(must(rangekeeper.ParsePortRange("30000-32767")), rangekeeper.Contiguous, 1))
	defer allocator.Close()
	if err := allocator.Restore(stored.text, stored.data); err != nil {
		t.Fatal(err)
	}
	if used := 32767 - 30000 + 1 - allocator.Free(); used != services {
		t.Errorf("%d ports are recorded, want %d", used, services)
	}
}

// invalid returns a Service with an address that is none, and one out of range.
func invalid() *fake.Clientset {
	of := func(name, address string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.ServiceSpec{ClusterIP: address, ClusterIPs: []string{address}},
		}
	}
	return fake.NewSimpleClientset(of("invalid", "nowhere"), of("outside", "10.0.1.7"))
}

// TestActions compares the actions of Events with those of kube-apiserver
// (pkg/registry/core/service/ipallocator/controller/repair.go).
func TestActions(t *testing.T) {
	clients := invalid()
	written := make(chan *eventsv1.Event, 2)
	clients.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
		written <- event
		return false, nil, nil
	})
	loop := newLoop(clients, repaircontroller.ClusterIPs, time.Hour, RangeOf(&registry{}, "10.0.0.0/24"))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		loop.RunUntil(func() {}, stop)
	}()
	defer func() {
		close(stop)
		<-ended
	}()
	want := map[string]string{"ClusterIPNotValid": "ClusterIPValidation", "ClusterIPOutOfRange": "ClusterIPAllocation"}
	for range len(want) {
		select {
		case event := <-written:
			if event.Action != want[event.Reason] {
				t.Errorf("Event %s has the action %q, want %q", event.Reason, event.Action, want[event.Reason])
			}
		case <-time.After(time.Minute):
			t.Fatal("no Event for a minute")
		}
	}
}

// TestDryRun makes a pass that finds drift and may not write: neither the range nor an Event.
func TestDryRun(t *testing.T) {
	clients, stored, recorder := invalid(), &registry{}, events.NewFakeRecorder(10)
	repairer := must(repaircontroller.New(repaircontroller.Config{
		Controller: repaircontroller.ClusterIPs, Ranges: []repair.Range{RangeOf(stored, "10.0.0.0/24").passes},
		Services: repaircontroller.APIServices(clients.CoreV1().Services(metav1.NamespaceAll)), Recorder: recorder, DryRun: true,
	}))
	defer repairer.Close()
	result, err := repairer.Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Findings) != 2 {
		t.Errorf("%d findings, want 2: %+v", len(result.Findings), result.Findings)
	}
	if len(recorder.Events) > 0 || stored.text != "" {
		t.Errorf("%d Events were written, and the range is %+v", len(recorder.Events), stored)
	}
}
