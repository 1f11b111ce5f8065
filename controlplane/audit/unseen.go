package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// DefaultNodePortRange is kube-apiserver's, unless its flag names another one.
const DefaultNodePortRange = "30000-32767"

// allPorts is the range in which a node port lies whatever kube-apiserver's flag says.
const allPorts = "1-65535"

// onlyInBitmap is what is unknown of a bitmap beside IPAddress objects that the source does not show.
const onlyInBitmap = "addresses that only a bitmap records (BitmapDisagrees)"

// The severities of what a source does not show.
var (
	unrecordedAndLeaked = []Severity{DuplicateRisk, Exhausted, Wasted}
	leaked              = []Severity{Exhausted, Wasted}
	outside             = []Severity{BreaksTraffic, Exhausted}
)

// unknown adds to the report what of a range the source does not show, and why.
func (a *Audit) unknown(name string, hides []Severity, what, why string, args ...any) {
	a.report.Unknown = append(a.report.Unknown, Unknown{Range: name, What: what, Message: what + ": " + fmt.Sprintf(why, args...), Hides: hides})
}

// knowsRange reports whether the source says which values of this kind there are.
func (a *Audit) knowsRange(value rangekeeper.Value) bool {
	switch unseen := a.state.Unseen; {
	case value.IsPort():
		return !a.wide
	case unseen == nil:
		return !a.lacksClusterIPs
	default:
		return len(a.state.ServiceCIDRs)+len(unseen.ClusterIPRanges) > 0
	}
}

// addUnseen adds the ranges whose bitmaps the source cannot see, and what is unknown for that to the report.
func (a *Audit) addUnseen(core *rangekeeper.Audit, byObjects bool) error {
	if !byObjects {
		a.unknown(clusterstate.ServiceIPs, unrecordedAndLeaked, "leaked and unrecorded ClusterIPs", "the Kubernetes API does not serve the bitmaps that record ClusterIPs in this cluster")
		if err := a.addClusterIPRanges(core); err != nil {
			return err
		}
	} else if !a.state.Unseen.NoBitmaps {
		a.unknown(clusterstate.DefaultServiceCIDR, []Severity{Wasted}, onlyInBitmap,
			"an API server of Kubernetes 1.33 or before refuses them, as it writes bitmaps beside the objects, and the Kubernetes API does not serve these")
	}
	if a.state.Unseen.Probed {
		a.unknown(clusterstate.ServiceNodePorts, []Severity{DuplicateRisk}, "unrecorded node ports", "the Kubernetes API does not serve the bitmap that records them")
		switch unseen := a.state.Unseen; {
		case unseen.SeesAll:
		case unseen.Accepted:
			a.unknown(clusterstate.ServiceNodePorts, leaked, "leaked node ports",
				"the API server's copy of the bitmap is old, as it accepts port %d, which a Service uses; probe again in three minutes, after its next repair", unseen.CheckedNodePort)
		case unseen.CheckedNodePort == 0:
			a.unknown(clusterstate.ServiceNodePorts, leaked, "leaked node ports", "no Service has a node port by which could be checked whether the API server sees them")
		default:
			a.unknown(clusterstate.ServiceNodePorts, leaked, "leaked node ports of other API servers",
				"a stock kube-apiserver does not see those that other API servers have allocated since its own last write of the bitmap (one with Rangekeeper inside sees all)")
		}
	} else {
		a.unknown(clusterstate.ServiceNodePorts, unrecordedAndLeaked, "leaked and unrecorded node ports", "the Kubernetes API does not serve the bitmap that records them; --probe finds leaked ones")
	}
	r, err := a.nodePortRange()
	if err != nil {
		return err
	}
	a.ranges = append(a.ranges, auditedRange{name: clusterstate.ServiceNodePorts, text: r.String()})
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
		a.unknown(clusterstate.ServiceIPs, outside, "the range of ClusterIPs", "the Kubernetes API does not serve it; name it with --service-cluster-ip-range")
		return core.WithoutClusterIPRanges()
	}
	for i, text := range ranges {
		r, err := rangekeeper.ParseCIDR(text)
		if err != nil {
			return err
		}
		name := clusterstate.ServiceIPs
		if i > 0 {
			name = clusterstate.SecondaryServiceIPs
		}
		a.ranges = append(a.ranges, auditedRange{name: name, text: r.String()})
		if _, err := core.AddUnseen(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// nodePortRange returns the range of node ports, and reports how far it is known. One that nobody has named is taken to
// be kube-apiserver's default as long as nothing that the source shows speaks against it.
func (a *Audit) nodePortRange() (rangekeeper.Range, error) {
	r, doubt, err := nodePortRange(a.state)
	unseen := a.state.Unseen
	const what = "the range of node ports"
	switch isNamed := unseen.NodePortRange != ""; {
	case err != nil:
	case isNamed && doubt != "":
		a.unknown(clusterstate.ServiceNodePorts, outside, what, "%s; is --service-node-port-range that of the API server?", doubt)
	case isNamed, doubt == "" && (unseen.Metrics != nil || unseen.SeesAll):
	case doubt == "":
		a.unknown(clusterstate.ServiceNodePorts, outside, what, "taken to be kube-apiserver's default, %s: %s; --service-node-port-range names another one", r, unseen.WhyNoMetrics)
	default:
		a.wide = true
		var counted string
		hides := outside
		if counted, err = countedPorts(a.state); counted != "" {
			hides = []Severity{BreaksTraffic}
		}
		a.unknown(clusterstate.ServiceNodePorts, hides, what, "it is not known, and %s; name it with --service-node-port-range", doubt)
		if err == nil {
			r, err = rangekeeper.ParsePortRange(cmp.Or(counted, allPorts))
		}
	}
	return r, err
}

// countedPorts returns a range that has as many node ports as an API server counts, and all that Services use or that
// are known to be recorded: wherever the server's range begins, it is full when this one is. Empty if there is none.
func countedPorts(state *clusterstate.State) (string, error) {
	counts := state.Unseen.Metrics
	if counts == nil {
		return "", nil
	}
	ports := slices.Clone(state.Unseen.RecordedNodePorts)
	used, err := claimed(state, rangekeeper.Value.IsPort)
	for _, value := range used {
		ports = append(ports, value.Port())
	}
	size := counts.Allocated + counts.Available
	if err != nil || len(ports) == 0 || size > math.MaxUint16 {
		return "", err
	}
	lowest, highest := uint64(slices.Min(ports)), uint64(slices.Max(ports))
	if lowest+size <= highest {
		return "", nil
	}
	lowest = min(lowest, math.MaxUint16+1-size)
	return fmt.Sprintf("%d-%d", lowest, lowest+size-1), nil
}

// NodePortRange returns the range of node ports of a state whose bitmaps the source cannot see: the one that the user
// has named, or else kube-apiserver's default, unless the state speaks against it.
func NodePortRange(state *clusterstate.State) (rangekeeper.Range, error) {
	r, doubt, err := nodePortRange(state)
	if err == nil && doubt != "" {
		err = fmt.Errorf("%s; name the range of the API servers with --service-node-port-range", doubt)
	}
	return r, err
}

// nodePortRange returns also what the state says against the range, if it does. A node port outside a range that nobody
// has named is a fault or shows that there is another range, and only the servers' flags can decide.
func nodePortRange(state *clusterstate.State) (r rangekeeper.Range, doubt string, err error) {
	text := cmp.Or(state.Unseen.NodePortRange, DefaultNodePortRange)
	if r, err = rangekeeper.ParsePortRange(text); err != nil {
		return r, "", err
	}
	if state.Unseen.NodePortRange == "" {
		outside, err := outsideOf(r, state)
		if err != nil {
			return r, "", err
		}
		if outside > 0 {
			return r, fmt.Sprintf("Services have node ports (%d) that are not in %s, kube-apiserver's default", outside, text), nil
		}
		text += ", kube-apiserver's default,"
	}
	if counts := state.Unseen.Metrics; counts != nil && counts.Allocated+counts.Available != uint64(r.Size()) {
		doubt = fmt.Sprintf("the metrics of the API server count %d node ports, and %s has %d", counts.Allocated+counts.Available, text, r.Size())
	}
	return r, doubt, nil
}

// outsideOf counts the node ports of Services that are not in the range.
func outsideOf(r rangekeeper.Range, state *clusterstate.State) (int, error) {
	outside, err := claimed(state, func(v rangekeeper.Value) bool {
		_, in := r.OffsetOf(v)
		return v.IsPort() && !in
	})
	return len(outside), err
}

// addMetrics adds what an API server's counts say about the bitmap of node ports, which is no more than a hint.
func (a *Audit) addMetrics() {
	unseen := a.state.Unseen
	if unseen == nil || unseen.Metrics == nil {
		return
	}
	at := slices.IndexFunc(a.ranges, func(r auditedRange) bool { return r.isBitmap(clusterstate.ServiceNodePorts) })
	counts := a.core.Range(at)
	allocated, used := unseen.Metrics.Allocated, counts.InUse
	if unseen.Probed && allocated == used+counts.Leaked {
		return // the probe has named them
	}
	difference := "as many as Services use"
	switch {
	case allocated > used:
		difference = fmt.Sprintf("%d more than Services use", allocated-used)
		a.report.SuspectsLeaks = !unseen.Probed
	case allocated < used:
		difference = fmt.Sprintf("%d fewer than Services use", used-allocated)
	}
	// What hides something has said so.
	a.unknown(clusterstate.ServiceNodePorts, []Severity{}, "how many node ports are leaked or unrecorded",
		"the metrics of the API server counted %d as allocated at its last allocation or release, %s; a repair or another server may have changed the range since",
		allocated, difference)
}
