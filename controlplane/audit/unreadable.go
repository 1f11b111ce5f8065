package audit

import rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"

// Unreadable is an object that cannot be decoded, or whose name is not that of its key.
type Unreadable struct {
	// Kind is the kind of the objects at its place: Service, IPAddress or ServiceCIDR.
	Kind string `json:"kind"`
	// Key is its key, or over the Kubernetes API its namespace and name.
	Key string `json:"key"`
	// Message says why, and Uncertain names what the report does not say for certain without it. Both are for people.
	Message   string `json:"message"`
	Uncertain string `json:"uncertain"`
}

// unreadableKinds are the kinds of objects without which an audit is uncertain. Others that a state may have are of an
// upgrade.
var unreadableKinds = map[string]struct {
	kind      rangekeeper.SubjectKind
	uncertain string
}{
	KindService:     {rangekeeper.SubjectService, "the Service may use any value: whether values are leaked, unrecorded or used twice"},
	KindIPAddress:   {rangekeeper.SubjectIPAddress, "the IPAddress object may record an address: whether that is unrecorded or leaked"},
	KindServiceCIDR: {rangekeeper.SubjectServiceCIDR, "the ServiceCIDR may have any addresses: whether ClusterIPs that no other range has are right"},
}

// addUnreadable tells the core of the objects that cannot be read, and lists them in the report.
func (a *Audit) addUnreadable(core *rangekeeper.Audit) error {
	for _, u := range a.state.Unreadable {
		about, ok := unreadableKinds[u.Kind]
		if !ok {
			continue
		}
		if err := core.ObserveUnreadable(about.kind); err != nil {
			return err
		}
		a.report.Unreadable = append(a.report.Unreadable, Unreadable{u.Kind, u.Key, u.Problem, about.uncertain})
	}
	return nil
}
