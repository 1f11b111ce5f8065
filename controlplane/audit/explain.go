package audit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Explanations is the document of one value, or of all values of a Service.
type Explanations struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Source     *Source        `json:"source"`
	Values     []*Explanation `json:"values"`
	// Servers, Findings and Unknown are all about the Service kubernetes that none of its values has; nil for others.
	Servers  []Server  `json:"servers,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
	Unknown  []Unknown `json:"unknown,omitempty"`
}

// Explanation is all that is known about one address or port.
type Explanation struct {
	Value string `json:"value"`
	// Places are the ranges that hand it out; ServiceCIDR objects may overlap.
	Places []Place `json:"ranges"`
	// RangeUnknown says that the source does not know which values there are, so a value without a place may yet have
	// one.
	RangeUnknown bool `json:"rangeUnknown,omitempty"`
	// Unreadable are the objects that cannot be decoded and may use, record or hand out the value.
	Unreadable []Unreadable `json:"unreadable,omitempty"`
	// Around are the names of ranges that have it between their addresses and yet
	// do not hand it out: as network or broadcast address, or since a bitmap of
	// IPv6 ends before it.
	Around []string `json:"-"`
	// Services are the namespace/name of those that use it.
	Services []string `json:"services"`
	// NamedBy are the namespace/name of the Services of a file that name the value or have it; nil without a file.
	NamedBy []string `json:"namedBy,omitempty"`
	// ParentRef is what its IPAddress object is said to be of, as in [Finding], if no Service uses it.
	ParentRef string `json:"parentRef,omitempty"`
	// Findings are those about it.
	Findings []Finding `json:"findings"`
	// Unknown is what the source cannot see of the ranges that hand it out, as in [Report].
	Unknown []Unknown `json:"unknown,omitempty"`
	// Leaked says whether it is recorded as allocated though no Service uses it; nil if the source cannot see it.
	Leaked *bool `json:"leaked"`
}

// Place is one range that hands out the value.
type Place struct {
	Name  string                  `json:"name"`
	Range string                  `json:"range"`
	Mode  RangeMode               `json:"mode"`
	State rangekeeper.OffsetState `json:"-"`
	// Band is static or dynamic.
	Band string `json:"band"`
	// Allocated is nil if the source cannot see it.
	Allocated *bool `json:"allocated,omitempty"`
	// NotReady is as in [Range].
	NotReady bool `json:"notReady,omitempty"`
	// ReadByServers says that API servers read the stored range, and this program does not.
	ReadByServers bool `json:"-"`
}

// newPlace describes a value of a range. recorded says that the source knows the value to be recorded.
func newPlace(of auditedRange, state rangekeeper.OffsetState, recorded bool) Place {
	mode := modes[of.record]
	p := Place{Name: of.name, Range: of.text, Mode: mode, State: state, Band: "dynamic", NotReady: of.notReady}
	if state.StaticBand {
		p.Band = "static"
	}
	if mode != ModeUnseen || recorded {
		p.Allocated = &state.Stored
	}
	return p
}

// Explain returns all that is known about one address or port.
func (a *Audit) Explain(value rangekeeper.Value) (*Explanation, error) {
	users, err := a.users(value)
	if err != nil {
		return nil, err
	}
	return a.explain(value, users[value]), nil
}

// explain returns all that is known about a value that Services use.
func (a *Audit) explain(value rangekeeper.Value, users []string) *Explanation {
	e := &Explanation{Value: value.String(), Places: []Place{}, RangeUnknown: !a.knowsRange(value)}
	for i, r := range a.ranges {
		if r.record == rangekeeper.RecordStale || a.wide && value.IsPort() {
			continue
		}
		if state, in := a.core.State(i, value); in {
			place := newPlace(r, state, a.isRecorded(value))
			place.ReadByServers = r.lost && a.readByServers[r.name]
			e.Places = append(e.Places, place)
		} else if around(r.text, value) {
			e.Around = append(e.Around, r.name+" "+r.text)
		}
	}
	for _, u := range a.report.Unreadable {
		if u.Kind == KindService || !value.IsPort() {
			e.Unreadable = append(e.Unreadable, u)
		}
	}
	e.RangeUnknown = e.RangeUnknown || len(e.Places) == 0 && e.UnreadableKeys(KindServiceCIDR) != ""
	for _, u := range a.report.Unknown {
		isOfKind := (a.servicesAlone || a.LacksServices() || a.readByServers[u.Range]) && len(e.Places) == 0 && u.Range != "" && (u.Range == clusterstate.ServiceNodePorts) == value.IsPort()
		if isOfKind || slices.ContainsFunc(e.Places, func(p Place) bool { return p.Name == u.Range }) {
			e.Unknown = append(e.Unknown, u)
		}
	}
	e.Services = append([]string{}, users...)
	if len(users) == 0 && !value.IsPort() {
		for o := range a.state.IPAddresses.All() {
			if o.Name == e.Value {
				e.ParentRef = parentRef(&o)
			}
		}
	}
	e.Findings = a.findingsAbout(value)
	leaked := slices.ContainsFunc(a.report.Leaks, func(l Leak) bool { return l.Value == e.Value })
	isUnseen := e.RangeUnknown || slices.ContainsFunc(e.Places, func(p Place) bool { return p.Allocated == nil })
	if leaked || len(e.Services) > 0 || !isUnseen {
		e.Leaked = &leaked
	}
	return e
}

// Conflict says why a server refuses the value to a Service of a file that names it, for people; empty if nothing
// speaks against it, or it is not from a file.
func (e *Explanation) Conflict() string {
	names := strings.Join(e.NamedBy, ", ")
	others := slices.DeleteFunc(slices.Clone(e.Services), func(user string) bool { return slices.Contains(e.NamedBy, user) })
	isRecorded := slices.ContainsFunc(e.Places, func(p Place) bool { return p.Allocated != nil && *p.Allocated })
	switch {
	case e.NamedBy == nil:
		return ""
	case len(others) > 0:
		return names + " cannot use it: " + strings.Join(others, ", ") + " does"
	case len(e.NamedBy) > 1:
		return "several Services of the file name it: " + names
	case len(e.Services) > 0:
		return ""
	case len(e.Places) == 0 && !e.RangeUnknown:
		return names + " cannot use it: no range hands it out"
	case isRecorded && e.ParentRef != "":
		return names + " cannot use it: its IPAddress object is of " + e.ParentRef
	case isRecorded:
		return names + " cannot use it: it is recorded as allocated"
	}
	return ""
}

// IsLeaked reports whether it is known to be leaked.
func (e *Explanation) IsLeaked() bool { return e.Leaked != nil && *e.Leaked }

// UnreadableKeys returns the keys of the objects of a kind in Unreadable, as a text; of many the first ones.
func (e *Explanation) UnreadableKeys(kind string) string {
	var keys []string
	for _, u := range e.Unreadable {
		if u.Kind == kind {
			keys = append(keys, u.Key)
		}
	}
	const few = 3
	if len(keys) > few+1 {
		keys = append(keys[:few:few], fmt.Sprintf("%d more", len(keys)-few))
	}
	return strings.Join(keys, ", ")
}

// isRecorded reports whether an API server has refused the port as allocated. Nothing else is known of a bitmap that
// cannot be read, even if a Service uses the value.
func (a *Audit) isRecorded(value rangekeeper.Value) bool {
	return a.state.Unseen != nil && value.IsPort() && slices.Contains(a.state.Unseen.RecordedNodePorts, value.Port())
}

// ExplainService returns all that is known about each address and port of a Service.
func (a *Audit) ExplainService(namespace, name string) ([]*Explanation, error) {
	at := a.state.Services.Find(namespace, name)
	if at < 0 {
		if err := a.unreadable(KindService, namespace+"/"+name); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w Service %s/%s", ErrNone, namespace, name)
	}
	claims, err := a.state.Services.ClaimsOf(at)
	if err != nil {
		return nil, err
	}
	var values []rangekeeper.Value
	for _, claim := range claims {
		if claim.Value.IsValid() && !slices.Contains(values, claim.Value) {
			values = append(values, claim.Value)
		}
	}
	users, err := a.users(values...)
	if err != nil {
		return nil, err
	}
	all := []*Explanation{}
	for _, value := range values {
		all = append(all, a.explain(value, users[value]))
	}
	// What stands where an address or a port belongs, and is none.
	faults := map[string]*Explanation{}
	for _, f := range a.report.Findings {
		if value, err := rangekeeper.ParseValue(f.Value); f.Namespace != namespace || f.Name != name || f.Kind != KindService || err == nil && value.IsValid() {
			continue
		}
		e := faults[f.Value]
		if e == nil {
			e = &Explanation{Value: f.Value, Places: []Place{}, Services: []string{namespace + "/" + name}, Leaked: new(bool)}
			faults[f.Value], all = e, append(all, e)
		}
		e.Findings = append(e.Findings, f)
	}
	return all, nil
}

// findingsAbout returns the findings about a value, also those that have another text of it, and about the stored
// objects of ranges of its kind that are missing or cannot be read.
func (a *Audit) findingsAbout(value rangekeeper.Value) []Finding {
	all := []Finding{}
	for _, f := range a.report.Findings {
		canonical, err := rangekeeper.ParseValue(f.Value)
		isOfKind := (f.Name == clusterstate.ServiceNodePorts) == value.IsPort()
		if f.Value == value.String() || err == nil && canonical == value || f.IsLost() && isOfKind {
			all = append(all, f)
		}
	}
	return all
}

// around reports whether an address lies in a CIDR.
func around(cidr string, value rangekeeper.Value) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return err == nil && prefix.Contains(value.Addr())
}
