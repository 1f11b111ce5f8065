package controller

import (
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sightings holds when the controller first saw each IPAddress object that no Service uses, by the controller's own
// clock. The object's timestamp is from the clock of the server that created it.
type sightings struct {
	mu     sync.Mutex
	byName map[string]sighting
}

// sighting is of one version of an object.
type sighting struct {
	uid             types.UID
	resourceVersion string
	at              time.Time
}

// first returns when this version of the object was first seen, which is now if it was not seen before.
func (s *sightings) first(address *networkingv1.IPAddress, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.byName[address.Name]
	if !ok || known.uid != address.UID || known.resourceVersion != address.ResourceVersion {
		known = sighting{address.UID, address.ResourceVersion, now}
		if s.byName == nil {
			s.byName = make(map[string]sighting)
		}
		s.byName[address.Name] = known
	}
	return known.at
}

// forget drops the entry of an object that is deleted or that a Service uses.
func (s *sightings) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}
