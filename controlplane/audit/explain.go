package audit

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

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

// ParseValue reads an address or a port.
func ParseValue(text string) (rangekeeper.AnyValue, error) {
	if port, err := strconv.ParseUint(text, 10, 16); err == nil {
		return rangekeeper.AnyOf(uint16(port)), nil
	}
	addr, err := rangekeeper.ParseAddr(text)
	if err != nil {
		return rangekeeper.AnyValue{}, fmt.Errorf("%q is neither an IP address nor a port", text)
	}
	return rangekeeper.AnyOf(addr), nil
}

// Explain tells all about one address or port.
func (a *Audit) Explain(value rangekeeper.AnyValue) (*Explanation, error) {
	e := &Explanation{Value: value.String()}
	for i, r := range a.ranges {
		if r.record == rangekeeper.RecordStale {
			continue
		}
		state, in, err := a.core.State(i, value)
		if err != nil {
			return nil, err
		}
		if in {
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

// around says whether an address lies in a CIDR.
func around(cidr string, value rangekeeper.AnyValue) bool {
	addr, ok := value.Addr()
	prefix, err := netip.ParsePrefix(cidr)
	return ok && err == nil && prefix.Contains(addr)
}

// uses says whether a Service names the value.
func uses(s *corev1.Service, value rangekeeper.AnyValue) bool {
	if port, ok := value.Port(); ok {
		p := int32(port)
		return p != 0 && (s.Spec.HealthCheckNodePort == p ||
			slices.ContainsFunc(s.Spec.Ports, func(o corev1.ServicePort) bool { return o.NodePort == p }))
	}
	addr, _ := value.Addr()
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{s.Spec.ClusterIP}
	}
	return slices.ContainsFunc(ips, func(text string) bool { return isAddr(text, addr) })
}

func isAddr(text string, addr netip.Addr) bool {
	parsed, err := rangekeeper.ParseAddr(text)
	return err == nil && parsed == addr
}
