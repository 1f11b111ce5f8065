package audit

import (
	"fmt"
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Unreadable is an object that cannot be decoded, or whose name is not that of its key.
type Unreadable struct {
	// Kind is the kind of the objects at its place: Service, IPAddress or ServiceCIDR.
	Kind string `json:"kind"`
	// Key is its key, or over the Kubernetes API its namespace and name.
	Key string `json:"key"`
	// Message says why, and Uncertain names what the report does not say for certain without it. Both are for people.
	Message   string `json:"message"`
	Uncertain string `json:"uncertain"`
	// Encrypted says that the value is encrypted at rest: API servers read the object, and an audit over the Kubernetes
	// API does.
	Encrypted bool `json:"encrypted,omitempty"`
}

// unreadableKinds are the kinds of objects without which an audit is uncertain. Others that a state may have are of an
// upgrade.
var unreadableKinds = map[string]struct {
	kind      rangekeeper.SubjectKind
	uncertain string
}{
	KindService:     {rangekeeper.SubjectService, "the Service may use any value: whether values are leaked, unrecorded or used twice"},
	KindIPAddress:   {rangekeeper.SubjectIPAddress, "the IPAddress object may be of any Service: whether its address is leaked"},
	KindServiceCIDR: {rangekeeper.SubjectServiceCIDR, "the ServiceCIDR may have any addresses: whether ClusterIPs that no other range has are right"},
}

// addUnreadable tells the core of the objects that cannot be read, and lists them in the report.
func (a *Audit) addUnreadable(core *rangekeeper.Audit) error {
	for _, u := range a.state.Unreadable {
		about, ok := unreadableKinds[u.Kind]
		if !ok {
			continue
		}
		if err := core.ObserveUnreadable(about.kind, u.Name); err != nil {
			return err
		}
		a.report.Unreadable = append(a.report.Unreadable, Unreadable{u.Kind, u.Key, u.Problem, about.uncertain, u.Encrypted != nil})
	}
	return nil
}

// unreadable returns an error if the object with this name cannot be read.
func (a *Audit) unreadable(kind, name string) error {
	at := slices.IndexFunc(a.state.Unreadable, func(u clusterstate.Unreadable) bool { return u.Kind == kind && u.Name == name })
	if at < 0 {
		return nil
	}
	u, advice := a.state.Unreadable[at], ""
	if u.Encrypted != nil {
		advice = "; " + clusterstate.ReadOverAPI
	}
	return fmt.Errorf("key %s: %s %s cannot be read: %s%s", u.Key, kind, name, u.Problem, advice)
}

// addMostUnreadable adds what is unknown where the core judges without Services, or without IPAddress objects, as most
// of them cannot be read.
func (a *Audit) addMostUnreadable() {
	why := func(kind, plural string, readable int) string {
		at := slices.IndexFunc(a.state.Unreadable, func(u clusterstate.Unreadable) bool { return u.Kind == kind })
		if at < 0 {
			return ""
		}
		n := a.state.CountUnreadable(kind)
		return fmt.Sprintf("%d of %d %s cannot be read, such as %s", n, n+readable, plural, a.state.Unreadable[at].Key)
	}
	services, objects := why(KindService, "Services", a.state.Services.Len()), why(KindIPAddress, "IPAddress objects", a.state.IPAddresses.Len())
	switch {
	case services == "":
		a.unknownOfServices("that IPAddress objects record", objects, false)
	case objects == "":
		a.unknownOfServices("that Services use", services, true)
	default:
		a.unknownOfServices("that Services use", services+"; "+objects, true)
	}
}
