package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// DefaultNodePortRange is kube-apiserver's, unless its flag names another one.
const DefaultNodePortRange = "30000-32767"

// allPorts is the range in which a node port lies whatever kube-apiserver's flag says.
const allPorts = "1-65535"

// unknown adds a sentence about a range to the report.
func (a *Audit) unknown(name, format string, args ...any) {
	a.report.Unknown = append(a.report.Unknown, Unknown{name, fmt.Sprintf(format, args...)})
}

// knowsRange reports whether the source says which values of this kind there are.
func (a *Audit) knowsRange(value rangekeeper.Value) bool {
	switch unseen := a.state.Unseen; {
	case unseen == nil:
		return true
	case value.IsPort():
		return unseen.NodePortRange != ""
	default:
		return len(a.state.ServiceCIDRs)+len(unseen.ClusterIPRanges) > 0
	}
}

// addUnseen adds the ranges whose bitmaps the source cannot see, and what is unknown for that to the report.
func (a *Audit) addUnseen(core *rangekeeper.Audit, byObjects bool) error {
	if !byObjects {
		a.unknown(ServiceIPs, "leaked and unrecorded ClusterIPs: the Kubernetes API does not serve the bitmaps that record ClusterIPs in this cluster")
		if err := a.addClusterIPRanges(core); err != nil {
			return err
		}
	}
	if a.state.Unseen.Probed {
		a.unknown(ServiceNodePorts, "unrecorded node ports: the Kubernetes API does not serve the bitmap that records them")
		switch unseen := a.state.Unseen; {
		case unseen.Accepted:
			a.unknown(ServiceNodePorts, "leaked node ports that the API server does not see: it accepts node port %d, which a Service uses, so it has not written the bitmap since that was allocated, or the port is not recorded; its repair writes the bitmap every three minutes: probe again after that", unseen.CheckedNodePort)
		case unseen.CheckedNodePort == 0:
			a.unknown(ServiceNodePorts, "whether the API server sees leaked node ports: no Service has a node port by which that could be checked")
		default:
			a.unknown(ServiceNodePorts, "leaked node ports that other API servers have allocated since the last write of the bitmap by the asked one (one with Rangekeeper inside sees all)")
		}
	} else {
		a.unknown(ServiceNodePorts, "leaked and unrecorded node ports: the Kubernetes API does not serve the bitmap that records them; --probe finds leaked ones")
	}
	r, err := rangekeeper.ParsePortRange(cmp.Or(a.state.Unseen.NodePortRange, DefaultNodePortRange))
	if err == nil && a.state.Unseen.NodePortRange == "" {
		r, err = a.assumeNodePorts(r)
	}
	if err != nil {
		return err
	}
	a.ranges = append(a.ranges, auditedRange{name: ServiceNodePorts, text: r.String()})
	var recorded []rangekeeper.Value
	for _, port := range a.state.Unseen.RecordedNodePorts {
		recorded = append(recorded, rangekeeper.PortValue(port))
	}
	_, err = core.AddUnseen(r, recorded)
	return err
}

func (a *Audit) addClusterIPRanges(core *rangekeeper.Audit) error {
	ranges := a.state.Unseen.ClusterIPRanges
	if len(ranges) == 0 {
		a.unknown(ServiceIPs, "ClusterIPs outside their range: the range is not known; name it with --service-cluster-ip-range")
		return core.WithoutClusterIPRanges()
	}
	for i, text := range ranges {
		r, err := rangekeeper.ParseCIDR(text)
		if err != nil {
			return err
		}
		name := ServiceIPs
		if i > 0 {
			name = SecondaryServiceIPs
		}
		a.ranges = append(a.ranges, auditedRange{name: name, text: r.String()})
		if _, err := core.AddUnseen(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// assumeNodePorts returns the assumed range of node ports, unless a Service has a node port outside it: that is a
// fault or another range, and only the servers' flags can decide.
func (a *Audit) assumeNodePorts(assumed rangekeeper.Range) (rangekeeper.Range, error) {
	outside := 0
	count := func(port int32) {
		if port == 0 {
			return
		}
		if port < 0 || port > math.MaxUint16 {
			outside++
		} else if _, in := assumed.OffsetOf(rangekeeper.PortValue(uint16(port))); !in {
			outside++
		}
	}
	for i := range a.state.Services {
		spec := &a.state.Services[i].Spec
		count(spec.HealthCheckNodePort)
		for _, port := range spec.Ports {
			count(port.NodePort)
		}
	}
	if outside == 0 {
		a.unknown(ServiceNodePorts, "the range of node ports: it is taken to be %s, kube-apiserver's default; name another one with --service-node-port-range", DefaultNodePortRange)
		return assumed, nil
	}
	a.unknown(ServiceNodePorts, "node ports outside their range: the range is not known, and %d node ports are not in %s, kube-apiserver's default; name the range with --service-node-port-range",
		outside, DefaultNodePortRange)
	a.wide = true
	return rangekeeper.ParsePortRange(allPorts)
}

// addMetrics adds what an API server's counts say about the bitmap of node ports.
func (a *Audit) addMetrics() {
	unseen := a.state.Unseen
	if unseen == nil || unseen.Metrics == nil {
		return
	}
	at := slices.IndexFunc(a.ranges, func(r auditedRange) bool { return r.name == ServiceNodePorts })
	a.unknown(ServiceNodePorts,
		"which node ports are leaked or unrecorded: %d were recorded when the API server last wrote the bitmap (its metrics), and Services use %d",
		unseen.Metrics.Allocated, a.core.Range(at).InUse)
}
