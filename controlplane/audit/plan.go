package audit

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Plan is the document that says what a repair changes.
type Plan struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Source     *Source `json:"source"`
	// Ranges are the bitmaps.
	Ranges   []RangePlan `json:"ranges"`
	Findings []Finding   `json:"findings"`
	Leaks    []Leak      `json:"leaks"`
	// Objects are the IPAddress objects that change in data at rest, those for Services
	// first. On a running cluster kube-apiserver repairs them.
	Objects []ObjectPlan `json:"objects,omitempty"`
	// ServiceCIDR is the object that is created in data at rest, nil if none is.
	ServiceCIDR *ServiceCIDRPlan `json:"serviceCIDR,omitempty"`
	// ServerObjects are what the API servers keep and the repair writes or deletes; in data at rest the leases of all
	// servers, as none of them runs.
	ServerObjects []ServerObject `json:"serverObjects,omitempty"`
	// Unknown is what the source does not show, and so is not repaired.
	Unknown []Unknown   `json:"unknown,omitempty"`
	Summary PlanSummary `json:"summary"`
	// Applied reports whether it was carried out.
	Applied bool `json:"applied"`
	// Incomplete reports whether an error or an interrupt ended the repair before all was done. What is set and cleared
	// was written all the same.
	Incomplete bool `json:"incomplete,omitempty"`
}

// RangePlan is what changes in one bitmap, values ascending.
type RangePlan struct {
	Name  string   `json:"name"`
	Range string   `json:"range"`
	Set   []string `json:"set"`
	Clear []string `json:"clear"`
	// Action is write or delete for the object of a range that is missing or cannot be read: it is written again with
	// the values that Services use, or deleted, so that a server sets the range up; empty for others.
	Action string `json:"action,omitempty"`
}

// ObjectPlan is what changes for the IPAddress object of one address: it is created,
// replaced or removed.
type ObjectPlan struct {
	Address string `json:"address"` // of an object that is removed its name
	// Removed reports whether there is an object, which is removed or replaced.
	Removed bool `json:"removed"`
	// Namespace and Name are those of the Service for which an object is created,
	// empty if none is.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// ServiceCIDRPlan is a ServiceCIDR object that is created.
type ServiceCIDRPlan struct {
	Name  string   `json:"name"`
	CIDRs []string `json:"cidrs"`
}

// PlanSummary counts. The findings and leaks of a plan that was applied are those that are left.
type PlanSummary struct {
	Set   int `json:"set"`
	Clear int `json:"clear"`
	// LeftToOwners are the findings that only the owners of Services, or administrators, can repair.
	LeftToOwners int        `json:"leftToOwners"`
	Findings     Count      `json:"findings"`
	Leaks        Count      `json:"leaks"`
	BySeverity   BySeverity `json:"bySeverity"`
}

// summarize counts what the lists hold, or once the plan is applied what is left of that.
func (p *Plan) summarize() {
	findings, leaks := p.Findings, p.Leaks
	if p.Applied {
		findings, leaks = p.left()
	}
	p.Summary = PlanSummary{
		LeftToOwners: len(p.LeftToOwners()), Findings: Count{Found: len(findings)}, Leaks: Count{Found: len(leaks)},
		BySeverity: countSeverities(findings, leaks, nil, false),
	}
	for _, r := range p.Ranges {
		p.Summary.Set += len(r.Set)
		p.Summary.Clear += len(r.Clear)
	}
}

// LeftToOwners returns the findings that only the owners of Services, or administrators, can repair.
func (p *Plan) LeftToOwners() []Finding {
	var all []Finding
	for _, f := range p.Findings {
		if f.Remedy == rangekeeper.RemedyOwner {
			all = append(all, f)
		}
	}
	return all
}

// ChangesAny reports whether a value is set or cleared, or an object changes. The deletion of a lease is a change if
// there is a finding about it: others expire soon after the start of etcd.
func (p *Plan) ChangesAny() bool {
	return p.ServiceCIDR != nil || len(p.Objects) > 0 || slices.ContainsFunc(p.Findings, p.RepairsServers) || slices.ContainsFunc(p.Ranges, func(r RangePlan) bool { return len(r.Set)+len(r.Clear) > 0 || r.Action != "" })
}

// changesObject reports whether the IPAddress object of an address is created, replaced or removed.
func (p *Plan) changesObject(address string) bool {
	return slices.ContainsFunc(p.Objects, func(o ObjectPlan) bool { return o.Address == address })
}

// RepairsServers reports whether the finding is about what the API servers keep, and is repaired. Endpoints and their
// slice are repaired together.
func (p *Plan) RepairsServers(f Finding) bool {
	return f.ofBootstrap && f.Remedy == rangekeeper.RemedyRepair && !f.Stays && slices.ContainsFunc(p.ServerObjects, func(o ServerObject) bool {
		return o.Kind == f.Kind && o.Namespace == f.Namespace && o.Name == f.Name || o.Action == ActionWrite && f.isOfEndpoints()
	})
}

// LookedAtAgain counts the findings about what API servers keep that a second look may repair.
func (p *Plan) LookedAtAgain() (n int) {
	for _, f := range p.Findings {
		if f.ofBootstrap && f.Stays {
			n++
		}
	}
	return n
}

// isOfEndpoints reports whether it is about the Endpoints of the Service kubernetes or the slice that mirrors them.
func (f *Finding) isOfEndpoints() bool {
	return f.Kind == KindEndpoints || f.Kind == KindEndpointSlice && f.Name == clusterstate.KubernetesService
}

// repairs reports whether the changes are the repair of a finding.
func (p *Plan) repairs(f Finding) bool {
	if p.RepairsServers(f) {
		return true
	}
	if f.IsLost() {
		return slices.ContainsFunc(p.Ranges, func(r RangePlan) bool { return r.Name == f.Name && r.Action != "" })
	}
	if f.Remedy != rangekeeper.RemedyRepair {
		return f.Remedy == rangekeeper.RemedyAPIServer && p.changesObject(f.Value)
	}
	return slices.ContainsFunc(p.Ranges, func(r RangePlan) bool {
		return r.Name == f.Range && (slices.Contains(r.Set, f.Value) || slices.Contains(r.Clear, f.Value))
	})
}

// frees reports whether the changes free a leaked value.
func (p *Plan) frees(l Leak) bool {
	return !l.Stays && (l.Remedy == rangekeeper.RemedyRepair || p.changesObject(l.Value))
}

// left returns the findings and leaks that there are after the changes.
func (p *Plan) left() (findings []Finding, leaks []Leak) {
	return slices.DeleteFunc(slices.Clone(p.Findings), p.repairs), slices.DeleteFunc(slices.Clone(p.Leaks), p.frees)
}

// Leaves reports whether changes are not applied, or whether anything is left after them.
func (p *Plan) Leaves() bool {
	findings, leaks := p.left()
	return !p.Applied && p.ChangesAny() || len(findings)+len(leaks) > 0
}

// SetApplied records that the plan was carried out. From then on the summary counts what is left.
func (p *Plan) SetApplied() {
	p.Applied = true
	isWritten := func(u Unknown) bool {
		return slices.ContainsFunc(p.Ranges, func(r RangePlan) bool { return r.Name == u.Range && r.Action == ActionWrite })
	}
	p.Unknown = slices.DeleteFunc(slices.Clone(p.Unknown), isWritten)
	p.summarize()
}

// SetIncomplete records that the repair has ended before all was done. If it has written nothing, it was not applied.
func (p *Plan) SetIncomplete() {
	p.Incomplete, p.Applied = true, p.ChangesAny()
	p.summarize()
}

// LeaksLeft is the number of leaks in bitmaps that stay for now, as they may still
// come into use.
func (p *Plan) LeaksLeft() int {
	n := 0
	for _, l := range p.Leaks {
		if l.Stays {
			n++
		}
	}
	return n
}

// AloneLeft are the addresses that stay for now though only a bitmap beside IPAddress
// objects records them: a server may be creating the object.
func (p *Plan) AloneLeft() []string {
	var all []string
	for _, f := range p.Findings {
		if f.Stays && f.Kind == KindServiceCIDR {
			all = append(all, f.Value)
		}
	}
	return all
}

// After adds what earlier passes of the same repair have done. What they have found
// and could not repair is found again, if it is still there.
func (p *Plan) After(earlier *Plan) {
	for _, before := range earlier.Ranges {
		i := slices.IndexFunc(p.Ranges, func(r RangePlan) bool { return r.Name == before.Name })
		if i < 0 {
			p.Ranges = append(p.Ranges, before)
			continue
		}
		p.Ranges[i].Set = union(before.Set, p.Ranges[i].Set)
		p.Ranges[i].Clear = union(before.Clear, p.Ranges[i].Clear)
	}
	p.sortRanges()
	for _, f := range earlier.Findings {
		if f.Remedy == rangekeeper.RemedyRepair && !f.Stays {
			p.Findings = append(p.Findings, f)
		}
	}
	sortFindings(p.Findings)
	p.Findings = slices.CompactFunc(p.Findings, func(a, b Finding) bool { return reflect.DeepEqual(a, b) })
	p.summarize()
}

func union(a, b []string) []string {
	all := append(append([]string{}, a...), b...) // never nil, which is null in JSON
	slices.SortFunc(all, CompareValues)
	return slices.Compact(all)
}

func (p *Plan) sortRanges() {
	slices.SortFunc(p.Ranges, func(a, b RangePlan) int { return cmp.Compare(a.Name, b.Name) })
}

// Plan returns what a repair changes: the document of what is to be done, or of what
// was done, once the core's report has recorded it.
func (a *Audit) Plan() (*Plan, error) {
	if a.elsewhere != nil {
		return nil, a.elsewhere
	}
	if a.servicesAlone && len(a.state.Ranges) == 0 {
		return nil, fmt.Errorf("%s; no range is stored here that could be repaired", ServicesAlone)
	}
	p := &Plan{APIVersion: APIVersion, Kind: KindRepairPlan, Source: a.report.Source, Ranges: []RangePlan{}, Unknown: a.report.Unknown}
	for i, r := range a.ranges {
		if r.record == rangekeeper.RecordBitmap {
			set, clear := textsOf(a.core.Values(i, rangekeeper.ValuesSet)), textsOf(a.core.Values(i, rangekeeper.ValuesClear))
			p.Ranges = append(p.Ranges, RangePlan{Name: r.name, Range: r.text, Set: set, Clear: clear})
		}
	}
	var err error
	if p.Findings, err = a.findings(); err != nil {
		return nil, err
	}
	p.Ranges = append(p.Ranges, a.lostPlans(p.Findings)...)
	p.sortRanges()
	if p.Leaks, err = a.leaks(); err != nil {
		return nil, err
	}
	if a.atRest {
		if p.Objects, err = a.Objects(); err != nil {
			return nil, err
		}
		if p.ServerObjects, err = a.ServerObjects(time.Time{}); err != nil {
			return nil, err
		}
	}
	if a.missing != nil && a.atRest {
		p.ServiceCIDR = &ServiceCIDRPlan{a.missing.Name, a.missing.Spec.CIDRs}
	}
	p.summarize()
	return p, nil
}

// Objects returns what the first repair pass of a kube-apiserver changes for IPAddress objects.
func (a *Audit) Objects() (all []ObjectPlan, err error) {
	repairs, err := a.core.ObjectRepairs()
	for _, r := range repairs {
		object := ObjectPlan{Address: r.Address.String(), Removed: r.Removed >= 0}
		if object.Removed {
			object.Address = a.state.IPAddresses.At(r.Removed).Name
		}
		if r.Service >= 0 {
			of := a.state.Services.At(r.Service)
			object.Namespace, object.Name = of.Namespace, of.Name
		}
		all = append(all, object)
	}
	return all, err
}

func textsOf(values iter.Seq[rangekeeper.Value]) []string {
	all := []string{}
	for value := range values {
		all = append(all, value.String())
	}
	return all
}

// NewValues returns what is to be stored in data at rest for the bitmaps and objects
// that change, by key; nil deletes the key. Objects are created at the time now.
func (a *Audit) NewValues(now time.Time) (map[string][]byte, error) {
	all := map[string][]byte{}
	for i, r := range a.ranges {
		counts := a.core.Range(i)
		if r.record != rangekeeper.RecordBitmap || counts.Set+counts.Clear == 0 {
			continue
		}
		value, err := a.encode(i)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", r.stored.Key, err)
		}
		all[r.stored.Key] = value
	}
	for _, plan := range a.lostPlans(a.report.Findings) {
		value, err := a.lostValue(plan)
		if err != nil {
			return nil, fmt.Errorf("key %s%s: %w", a.state.RangesPrefix, plan.Name, err)
		}
		all[a.state.RangesPrefix+plan.Name] = value
	}
	if a.missing != nil {
		value, err := a.state.EncodeServiceCIDR(newServiceCIDR(a.missing, now))
		if err != nil {
			return nil, fmt.Errorf("ServiceCIDR %s: %w", a.missing.Name, err)
		}
		all[a.state.ServiceCIDRsPrefix+a.missing.Name] = value
	}
	servers, err := a.ServerObjects(now)
	if err != nil {
		return nil, err
	}
	for _, o := range servers {
		all[o.Key] = o.Value
	}
	repairs, err := a.core.ObjectRepairs()
	if err != nil {
		return nil, err
	}
	for _, r := range repairs {
		var value []byte
		name := r.Address.String()
		if r.Removed >= 0 {
			name = a.state.IPAddresses.At(r.Removed).Name
		}
		if r.Service >= 0 {
			if value, err = a.state.EncodeIPAddress(newIPAddress(r.Address.Addr(), a.state.Services.At(r.Service), now)); err != nil {
				return nil, fmt.Errorf("IPAddress %s: %w", r.Address, err)
			}
		}
		all[a.state.IPAddressesPrefix+name] = value
	}
	return all, nil
}

// newIPAddress returns the object by which a kube-apiserver records an address of a
// Service.
func newIPAddress(address netip.Addr, s servicebatch.Service, now time.Time) *networkingv1.IPAddress {
	family := corev1.IPv4Protocol
	if address.Is6() {
		family = corev1.IPv6Protocol
	}
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: address.String(), UID: uuid.NewUUID(), Generation: 1, CreationTimestamp: metav1.NewTime(now),
			Labels: map[string]string{networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: allocator},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name},
		},
	}
}

// allocator is the label managed-by of the objects of the ClusterIP allocator.
const allocator = "ipallocator.k8s.io"

// RecordChosen records that just these values of the bitmaps were set and cleared, as somebody chose them; ranges that
// are not among them are as they were.
func (a *Audit) RecordChosen(changes map[string]rangekeeper.Repaired) error {
	for i, r := range a.ranges {
		if r.record != rangekeeper.RecordBitmap {
			continue
		}
		if err := a.core.RecordChosenRepair(i, changes[r.name]); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// RecordNoRepair records that nothing was written, so all that is found stays.
func (a *Audit) RecordNoRepair() error {
	for i, r := range a.ranges {
		if r.record != rangekeeper.RecordBitmap {
			continue
		}
		if err := a.core.RecordFailedRepair(i); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// Core returns the core's report, which stays the audit's.
func (a *Audit) Core() *rangekeeper.Report { return a.core }

// encode puts the repaired bitmap into a copy of the stored object.
func (a *Audit) encode(index int) ([]byte, error) {
	data, err := a.core.Snapshot(index, rangekeeper.ValuesNext, nil)
	if err != nil {
		return nil, err
	}
	object, err := rangekeeper.DecodeRangeAllocation(a.ranges[index].stored.Value)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	if err := object.Set(a.ranges[index].text, data); err != nil {
		return nil, err
	}
	return object.Encode(nil)
}
