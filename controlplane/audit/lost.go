package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// addLost adds the ranges whose stored objects are missing or cannot be read, as far as they are known, and what is
// unknown for that to the report. Bitmaps of ClusterIPs beside IPAddress objects are not needed.
func (a *Audit) addLost(core *rangekeeper.Audit, byObjects bool) error {
	isLost := func(name string) bool {
		// Nothing says that a cluster without the secondary range should have one.
		isExpected := name != clusterstate.SecondaryServiceIPs || a.state.Ranges[name].Key != ""
		return isExpected && a.presence(name) != rangekeeper.Initialised
	}
	isNeeded := func(name string, is func(rangekeeper.Value) bool) bool {
		if _, ok := a.state.Ranges[name]; !ok {
			return a.state.Services.Len()+a.state.CountUnreadable(KindService) > 0
		}
		values, err := claimed(a.state, is)
		return a.damaged[name] != nil || err == nil && len(values) > 0
	}
	if name := clusterstate.ServiceNodePorts; isLost(name) && isNeeded(name, rangekeeper.Value.IsPort) {
		if err := a.addLostNodePorts(core); err != nil {
			return err
		}
	}
	if byObjects {
		a.lacksClusterIPs = len(a.serviceCIDRs()) == 0
		a.addLostServiceCIDRs()
		for _, name := range []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs} {
			if a.damaged[name] != nil && a.state.UpgradedAt == 0 {
				a.unknown(name, []Severity{Wasted}, onlyInBitmap, "the bitmap cannot be read")
			}
		}
		return nil
	}
	for _, name := range []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs} {
		if !isLost(name) || !isNeeded(name, isAddress) {
			continue
		}
		if text := a.lostText(name); text != "" && a.addLostRange(core, name, text) {
			continue
		}
		a.lacksClusterIPs = true
		a.unknown(name, append([]Severity{BreaksTraffic}, unrecordedAndLeaked...), "ClusterIPs that are outside of this range, unrecorded or leaked", "%s", a.whyLost(name, "the range is not known"))
	}
	if a.lacksClusterIPs {
		return core.WithoutClusterIPRanges()
	}
	return nil
}

// whyLost says why a range is lost, if that is not because its store does not have it.
func (a *Audit) whyLost(name, why string) string {
	stored, ok := a.state.Ranges[name]
	switch {
	case !ok && a.servicesAlone:
		return ServicesAlone
	case a.readByServers[name]:
		return fmt.Sprintf("key %s: %v; an API server reads it, and this version of rangekeeper does not. A server writes it "+
			"in its own form when it next allocates or releases a value", stored.Key, a.damaged[name])
	}
	return why
}

// ReadByServers reports whether API servers read the stored range with this name, and this program does not.
func (a *Audit) ReadByServers(name string) bool { return a.readByServers[name] }

// addLostServiceCIDRs adds what is unknown without the addresses of a ServiceCIDR.
func (a *Audit) addLostServiceCIDRs() {
	why := ""
	for _, u := range a.state.Unreadable {
		if u.Kind == KindServiceCIDR {
			why = u.Key + " cannot be read"
		}
	}
	if why == "" && a.lacksClusterIPs {
		why = "no ServiceCIDR is stored"
	}
	if why != "" {
		a.unknown(clusterstate.DefaultServiceCIDR, append([]Severity{BreaksTraffic}, unrecordedAndLeaked...), "ClusterIPs whose ServiceCIDR is not known", "%s", why)
	}
}

// lostText returns the range of a stored object whose bitmap does not fit it; empty if the range cannot be read either,
// or nearly all Services speak against it.
func (a *Audit) lostText(name string) string {
	text, _, err := clusterstate.DecodeRange(a.state.Ranges[name].Value)
	if err != nil || text == "" {
		return ""
	}
	values, err := claimed(a.state, func(v rangekeeper.Value) bool {
		if name == clusterstate.ServiceNodePorts {
			return v.IsPort()
		}
		return isAddress(v) && v.Addr().Is6() == strings.Contains(text, ":")
	})
	if err != nil {
		return ""
	}
	if verdict, err := rangekeeper.JudgeRanges(nil, nil, []string{text}, values); err != nil || verdict.Outcome != rangekeeper.RangesAgree {
		return ""
	}
	return text
}

// addLostRange adds a lost range whose text is known, and reports whether it is one that the cluster can have.
func (a *Audit) addLostRange(core *rangekeeper.Audit, name, text string) bool {
	r, err := clusterstate.ParseRange(name)(text)
	if err == nil {
		_, err = core.AddUnseen(r, nil)
	}
	if err != nil {
		return false
	}
	a.ranges = append(a.ranges, auditedRange{name: name, text: r.String(), stored: a.state.Ranges[name], lost: true})
	a.unknown(name, unrecordedAndLeaked, "unrecorded and leaked values", "%s", a.whyLost(name, "the bitmap that records them is missing or cannot be read"))
	return true
}

// addLostNodePorts adds the range of node ports: the one in the stored object if that much of it can be read, or else
// kube-apiserver's default, unless a Service has another port. Then all ports are audited.
func (a *Audit) addLostNodePorts(core *rangekeeper.Audit) error {
	const name = clusterstate.ServiceNodePorts
	if text := a.lostText(name); text != "" && a.addLostRange(core, name, text) {
		return nil
	}
	r, err := rangekeeper.ParsePortRange(DefaultNodePortRange)
	if err != nil {
		return err
	}
	outside, err := outsideOf(r, a.state)
	if err != nil {
		return err
	}
	if outside == 0 && a.addLostRange(core, name, DefaultNodePortRange) {
		return nil
	}
	a.wide = true
	a.addLostRange(core, name, allPorts)
	a.unknown(name, []Severity{BreaksTraffic}, "the range of node ports", "it is not known, and Services have node ports (%d) that are not in %s, kube-apiserver's default", outside, DefaultNodePortRange)
	return nil
}

// describeStored completes a finding about the stored object of a range, whose name is its value.
func (a *Audit) describeStored(f *Finding) {
	f.Kind, f.Name, f.Mode = KindRangeAllocation, f.Value, ModeUnseen
	if f.Value == clusterstate.DefaultServiceCIDR {
		f.Kind, f.Mode = KindServiceCIDR, ModeIPAddress
		return
	}
	f.Range = f.Value
	if err := a.damaged[f.Value]; err != nil {
		f.Message = fmt.Sprintf("key %s: %v; %s", a.state.Ranges[f.Value].Key, err, f.Message)
	}
	if a.atRest && a.rebuilds(f.Value) != "" {
		f.Remedy = rangekeeper.RemedyRepair
	}
}

// rebuilds says what a repair of data at rest does with the object of a lost range: it writes the object again with the
// values that Services use, or, if the range is not known, deletes what cannot be read, so that a server sets the range
// up. Empty if it does nothing.
func (a *Audit) rebuilds(name string) string {
	at := slices.IndexFunc(a.ranges, func(r auditedRange) bool { return r.isBitmap(name) && r.lost })
	switch {
	case at >= 0 && !a.wide:
		return ActionWrite
	case a.damaged[name] != nil:
		return ActionDelete
	}
	return ""
}

// IsLost reports whether the finding is about the stored object of a range, which is missing or cannot be read.
func (f *Finding) IsLost() bool {
	return f.Reason == rangekeeper.ReasonRangeNotReadable.String() || f.Reason == rangekeeper.ReasonRangeMissing.String()
}

// lostPlans are the changes of the objects of lost ranges in data at rest.
func (a *Audit) lostPlans(findings []Finding) (plans []RangePlan) {
	for _, f := range findings {
		if !f.IsLost() || f.Remedy != rangekeeper.RemedyRepair {
			continue
		}
		plan := RangePlan{Name: f.Name, Set: []string{}, Clear: []string{}, Action: a.rebuilds(f.Name)}
		if plan.Action == ActionWrite {
			at := slices.IndexFunc(a.ranges, func(r auditedRange) bool { return r.isBitmap(f.Name) })
			plan.Range, plan.Set = a.ranges[at].text, textsOf(a.core.Values(at, rangekeeper.ValuesInUse))
		}
		plans = append(plans, plan)
	}
	return plans
}

// lostValue returns what is stored for a lost range; nil deletes the key.
func (a *Audit) lostValue(plan RangePlan) ([]byte, error) {
	if plan.Action == ActionDelete {
		return nil, nil
	}
	at := slices.IndexFunc(a.ranges, func(r auditedRange) bool { return r.isBitmap(plan.Name) })
	data, err := a.core.Snapshot(at, rangekeeper.ValuesInUse, nil)
	if err != nil {
		return nil, err
	}
	return clusterstate.EncodeRange(plan.Range, data)
}
