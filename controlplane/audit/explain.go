package audit

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
	for i := range a.state.Services {
		if s := &a.state.Services[i]; uses(s, value) {
			e.Services = append(e.Services, s.Namespace+"/"+s.Name)
		}
	}
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

// uses reports whether a Service names the value.
func uses(s *corev1.Service, value rangekeeper.Value) bool {
	if value.IsPort() {
		p := int32(value.Port())
		return p != 0 && (s.Spec.HealthCheckNodePort == p ||
			slices.ContainsFunc(s.Spec.Ports, func(o corev1.ServicePort) bool { return o.NodePort == p }))
	}
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{s.Spec.ClusterIP}
	}
	return slices.ContainsFunc(ips, func(text string) bool { return isValue(text, value) })
}

func isValue(text string, value rangekeeper.Value) bool {
	parsed, err := rangekeeper.ParseValue(text)
	return err == nil && parsed == value
}
