package audit

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// withoutParent replaces the findings about IPAddress objects without spec.parentRef, which no API server accepts: the repair
// of kube-apiserver 1.32 to 1.37 reads that field of each object of its allocator, and of each address in use, and crashes
// (repairip.go).
func (a *Audit) withoutParent(findings []Finding) []Finding {
	if !slices.ContainsFunc(a.ranges, func(r auditedRange) bool { return r.record == rangekeeper.RecordIPAddresses }) {
		return findings
	}
	var users map[rangekeeper.Value][]string
	for i := range a.state.IPAddresses {
		o := &a.state.IPAddresses[i]
		value, err := rangekeeper.ParseValue(o.Name)
		if o.Spec.ParentRef != nil || err != nil {
			continue
		}
		if users == nil {
			users = Users(a.state)
		}
		if o.Labels[networkingv1.LabelManagedBy] != allocator && len(users[value]) == 0 {
			continue
		}
		name := func(f Finding) bool { return f.Kind == KindIPAddress && f.Name == o.Name }
		f := Finding{Reason: rangekeeper.ReasonIPAddressNotAllocated.String(), Kind: KindIPAddress, Name: o.Name, Value: value.String()}
		if at := slices.IndexFunc(findings, name); at >= 0 {
			f = findings[at]
			findings = slices.Delete(findings, at, at+1)
		} else if at := slices.IndexFunc(findings, func(f Finding) bool { return f.Value == value.String() }); at >= 0 {
			f.Range = findings[at].Range
		}
		f.Severity, f.Remedy = BreaksTraffic, rangekeeper.RemedyOwner
		if a.atRest { // a repair of the data removes the object
			f.Remedy = rangekeeper.RemedyAPIServer
		}
		f.Message = "ClusterIP " + value.String() + " has an IPAddress object without spec.parentRef, at which the repair of kube-apiserver crashes; " +
			"delete it: kubectl delete ipaddress " + o.Name + ", or its key in etcd while no API server runs"
		findings = append(findings, f)
	}
	return findings
}
