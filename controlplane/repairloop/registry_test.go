package repairloop

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// versioned is a registry that refuses a write of another version than the stored one. Like the storage of an API
// server it does not write what does not change.
type versioned struct {
	t       *testing.T
	object  corev1.RangeAllocation
	version int
	writes  int
}

func (r *versioned) Get() (*corev1.RangeAllocation, error) {
	object := r.object.DeepCopy()
	object.ResourceVersion = strconv.Itoa(r.version)
	return object, nil
}

func (r *versioned) CreateOrUpdate(object *corev1.RangeAllocation) error {
	if object.ResourceVersion != strconv.Itoa(r.version) {
		return apierrors.NewConflict(schema.GroupResource{Resource: "servicenodeportallocations"}, "", nil)
	}
	r.writes++
	defer func() { object.ResourceVersion = "" }() // as that of kube-apiserver does
	if contentOf(object) != contentOf(&r.object) {
		r.object = corev1.RangeAllocation{Range: object.Range, Data: object.Data}
		r.version++
	}
	return nil
}

// set writes the ports in use.
func (r *versioned) set(ports ...uint16) {
	r.t.Helper()
	used := must(rangekeeper.NewAllocator(must(rangekeeper.ParsePortRange("100-200")), rangekeeper.Contiguous, 1))
	defer used.Close()
	for _, port := range ports {
		if err := used.Allocate(rangekeeper.PortValue(port)); err != nil {
			r.t.Fatal(err)
		}
	}
	r.object = corev1.RangeAllocation{Range: "100-200", Data: must(used.Snapshot(nil))}
	r.version++
}

func (r *versioned) has(port uint16) bool {
	r.t.Helper()
	used := must(rangekeeper.NewAllocator(must(rangekeeper.ParsePortRange("100-200")), rangekeeper.Contiguous, 1))
	defer used.Close()
	if err := used.Restore(r.object.Range, r.object.Data); err != nil {
		r.t.Fatal(err)
	}
	return used.Has(rangekeeper.PortValue(port))
}

// over configures a loop over a range of ports that cleans a leak in the third pass, and counts what it finds.
func over(clients *fake.Clientset, ports Range) (Config, *counters) {
	return count(Config{
		Controller: repaircontroller.NodePorts, Ranges: []Range{ports},
		Services: clients.CoreV1(), Events: clients.EventsV1(), Passes: 3,
	})
}

// TestRegistryIsWrittenDuringThePass frees a leaked port and allocates it again, with others, between the read and the
// write of the pass that cleans it. The pass must clear none of them.
func TestRegistryIsWrittenDuringThePass(t *testing.T) {
	stored := &versioned{t: t}
	stored.set(110, 111)
	clients := fake.NewClientset(service("one", 110))
	passes, lists := 0, 0
	clients.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		if lists++; passes == 3 && lists == 3 {
			stored.version++ // another client has freed 111 and allocated it again
		}
		return false, nil, nil
	})
	config, counted := over(clients, Range{passes: OverRegistry(stored, "100-200", betweenPasses)})
	loop := New(config)
	for passes = 1; passes <= 2; passes++ {
		if err := loop.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stored.set(110, 111, 112)
	before := stored.writes
	passes = 3
	// The pass itself, without another try after the conflict.
	loop.mu.Lock()
	err := loop.pass(t.Context())
	loop.mu.Unlock()
	if !apierrors.IsConflict(err) {
		t.Errorf("the pass ended with %v, and not with a conflict", err)
	}
	if stored.writes != before || !stored.has(111) || !stored.has(112) {
		t.Errorf("%d writes; 111 is in use: %v, 112: %v", stored.writes-before, stored.has(111), stored.has(112))
	}
	if n := counted.of("leak"); n != 0 {
		t.Errorf("%d leaks counted", n)
	}
	// Once tries again, with a list from after the write.
	if err := loop.Once(t.Context()); err != nil {
		t.Error(err)
	}
	if stored.writes == before {
		t.Error("no pass has written the range")
	}
}

// TestRegistryIsWrittenBetweenPasses has other clients write the range between passes: nobody knows whether a leak was
// one all the time then, so it stays until three passes have found the range as the one before has.
func TestRegistryIsWrittenBetweenPasses(t *testing.T) {
	stored := &versioned{t: t}
	stored.set(111)
	config, _ := over(fake.NewClientset(), Range{passes: OverRegistry(stored, "100-200", betweenPasses)})
	loop := New(config)
	for pass := 1; pass <= 9; pass++ {
		if pass <= 5 {
			stored.version++ // with the content of before
		}
		if err := loop.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if has, want := stored.has(111), pass < 7; has != want {
			t.Fatalf("after pass %d: in use %v, want %v", pass, has, want)
		}
	}
}

// TestRegistryIsRestored puts an older version of the range back, which has a port of a Service that the list lacks, as
// after a restore of etcd under a kube-apiserver. No pass may clear it.
func TestRegistryIsRestored(t *testing.T) {
	for name, restore := range map[string]func(stored *versioned){
		"to an older version":                func(stored *versioned) { stored.version -= 5 },
		"and written up to the same version": func(stored *versioned) { stored.version-- },
	} {
		t.Run(name, func(t *testing.T) {
			stored := &versioned{t: t, version: 100}
			stored.set(110)
			config, _ := over(fake.NewClientset(service("one", 110)), Range{passes: OverRegistry(stored, "100-200", betweenPasses)})
			loop := New(config)
			if err := loop.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			stored.set(110, 111)
			restore(stored)
			for range 6 {
				if err := loop.Once(t.Context()); err != nil {
					t.Fatal(err)
				}
				stored.version++ // by others
			}
			for range 6 {
				if err := loop.Once(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !stored.has(111) {
				t.Error("a port of a Service that the list lacks was cleared")
			}
		})
	}
}

// TestRegistryLeaks cleans a leak in the third pass, each an interval after the one before.
func TestRegistryLeaks(t *testing.T) {
	stored := &versioned{t: t}
	stored.set(111)
	clients := fake.NewClientset()
	config, counted := over(clients, RangeOf(stored, "100-200"))
	config.Interval = 200 * time.Millisecond
	stop, ended := make(chan struct{}), make(chan struct{})
	begun := time.Now()
	loop := New(config)
	go func() {
		defer close(ended)
		loop.RunUntil(func() {}, stop)
	}()
	for counted.of("leak") == 0 && time.Since(begun) < time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(begun)
	close(stop)
	<-ended
	if stored.has(111) || counted.of("leak") != 1 || took < 2*190*time.Millisecond {
		t.Errorf("after %s the leak is in use: %v; %d leaks counted", took, stored.has(111), counted.of("leak"))
	}
}

// TestConflictsAreNoPasses makes passes one after the other, as after conflicts. None of them may clean a leak.
func TestConflictsAreNoPasses(t *testing.T) {
	stored := &versioned{t: t}
	stored.set(111)
	clients := fake.NewClientset()
	config, _ := over(clients, RangeOf(stored, "100-200"))
	loop := New(config)
	for range 5 {
		if err := loop.Once(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if !stored.has(111) {
		t.Error("a leak was cleaned before the interval had passed")
	}
}

// TestNoRange makes a pass over a registry of a range that is neither of addresses nor of ports.
func TestNoRange(t *testing.T) {
	config, _ := over(fake.NewClientset(), RangeOf(&versioned{t: t}, "all of them"))
	if err := New(config).Once(t.Context()); err == nil {
		t.Error("the pass succeeded")
	}
}
