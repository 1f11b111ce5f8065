package audit

import (
	"math"
	"net/netip"
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Explanation is all that is known about one address or port.
type Explanation struct {
	Value string
	// Places are the ranges that hand it out; ServiceCIDR objects may overlap.
	Places []Place
	// Around are the names of ranges that have it between their addresses and yet
	// do not hand it out: as network or broadcast address, or since a bitmap of
	// IPv6 ends before it.
	Around []string
	// Services are the namespace/name of those that use it.
	Services []string
	// Findings are those about it.
	Findings []Finding
	// Leaked says that it is recorded as allocated though no Service uses it.
	Leaked bool
}

// Place is one range that hands out the value.
type Place struct {
	Name, Range string
	Mode        RangeMode
	State       rangekeeper.OffsetState
}

// Explain returns all that is known about one address or port.
func (a *Audit) Explain(value rangekeeper.Value) (*Explanation, error) {
	e := &Explanation{Value: value.String()}
	for i, r := range a.ranges {
		if r.record == rangekeeper.RecordStale {
			continue
		}
		if state, in := a.core.State(i, value); in {
			e.Places = append(e.Places, Place{r.name, r.text, modes[r.record], state})
		} else if around(r.text, value) {
			e.Around = append(e.Around, r.name+" "+r.text)
		}
	}
	e.Services = Users(a.state)[value]
	for _, f := range a.report.Findings {
		if f.Value == e.Value {
			e.Findings = append(e.Findings, f)
		}
	}
	e.Leaked = slices.ContainsFunc(a.report.Leaks, func(l Leak) bool { return l.Value == e.Value })
	return e, nil
}

// around reports whether an address lies in a CIDR.
func around(cidr string, value rangekeeper.Value) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return err == nil && prefix.Contains(value.Addr())
}

// Users returns the namespace/name of the Services that use each value.
func Users(state *clusterstate.State) map[rangekeeper.Value][]string {
	all := make(map[rangekeeper.Value][]string)
	for i := range state.Services {
		s := &state.Services[i]
		name := s.Namespace + "/" + s.Name
		add := func(value rangekeeper.Value) {
			if users := all[value]; len(users) == 0 || users[len(users)-1] != name {
				all[value] = append(users, name)
			}
		}
		ips := s.Spec.ClusterIPs
		if len(ips) == 0 {
			ips = []string{s.Spec.ClusterIP}
		}
		for _, text := range ips {
			if value, err := rangekeeper.ParseValue(text); err == nil && !value.IsPort() {
				add(value)
			}
		}
		for _, port := range s.Spec.Ports {
			addPort(add, port.NodePort)
		}
		addPort(add, s.Spec.HealthCheckNodePort)
	}
	return all
}

func addPort(add func(rangekeeper.Value), port int32) {
	if port > 0 && port <= math.MaxUint16 {
		add(rangekeeper.PortValue(uint16(port)))
	}
}
