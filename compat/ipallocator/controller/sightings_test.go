package controller

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
)

// waiting is a repair with one IPAddress object whose Service is missing.
type waiting struct {
	*testing.T
	repair              *RepairIPAddress
	client              *fake.Clientset
	clock               *testclock.FakeClock
	services, addresses cache.Store
	address             *networkingv1.IPAddress
	service             *v1.Service
}

func newWaiting(t *testing.T) *waiting {
	client, clock := fake.NewClientset(), testclock.NewFakeClock(time.Now())
	factory := informers.NewSharedInformerFactory(client, 0)
	services, addresses := factory.Core().V1().Services(), factory.Networking().V1().IPAddresses()
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "a"},
		Spec:       v1.ServiceSpec{ClusterIP: "10.0.0.7", ClusterIPs: []string{"10.0.0.7"}},
	}
	w := &waiting{
		T: t, client: client, clock: clock, address: newIPAddress("10.0.0.7", service), service: service,
		repair:    newRepair(time.Minute, client, services, factory.Networking().V1().ServiceCIDRs(), addresses, clock),
		services:  services.Informer().GetStore(),
		addresses: addresses.Informer().GetStore(),
	}
	w.put(w.addresses, w.address)
	w.check()
	if len(w.repair.sightings.byName) != 1 {
		t.Fatalf("sightings of an object that waits for its Service: %v", w.repair.sightings.byName)
	}
	return w
}

func (w *waiting) put(store cache.Store, object any) {
	w.Helper()
	if err := store.Update(object); err != nil {
		w.Fatal(err)
	}
}

func (w *waiting) check() {
	w.Helper()
	if err := w.repair.syncIPAddress(w.address.Name); err != nil {
		w.Fatal(err)
	}
}

// TestSightingsEnd checks that the controller forgets an object that is in use, deleted, or managed by another client.
func TestSightingsEnd(t *testing.T) {
	for name, end := range map[string]func(w *waiting){
		"the Service is created": func(w *waiting) {
			w.put(w.services, w.service)
			w.check()
		},
		"the Service is not in the cache yet": func(w *waiting) {
			if err := w.client.Tracker().Add(w.service); err != nil {
				w.Fatal(err)
			}
			w.clock.Step(w.repair.requestGrace)
			w.check()
		},
		"another client manages the object": func(w *waiting) {
			theirs := w.address.DeepCopy()
			theirs.Labels = nil
			w.put(w.addresses, theirs)
			w.check()
		},
		"the informer reports its deletion": func(w *waiting) { w.repair.addressRemoved(w.address) },
		"it is deleted before the check": func(w *waiting) {
			if err := w.addresses.Delete(w.address); err != nil {
				w.Fatal(err)
			}
			w.check()
		},
		"the controller deletes it": func(w *waiting) {
			if err := w.client.Tracker().Add(w.address); err != nil {
				w.Fatal(err)
			}
			w.clock.Step(w.repair.requestGrace)
			w.check()
			if actions := w.client.Actions(); len(actions) == 0 || actions[len(actions)-1].GetVerb() != "delete" {
				w.Errorf("the last action is not a deletion: %v", actions)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaiting(t)
			end(w)
			if known := w.repair.sightings.byName; len(known) != 0 {
				t.Errorf("sightings that are left: %v", known)
			}
		})
	}
}
