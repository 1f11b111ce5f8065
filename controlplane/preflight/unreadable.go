package preflight

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

var (
	// recordKinds are the kinds of objects that an audit reads.
	recordKinds  = []string{audit.KindService, audit.KindIPAddress, audit.KindServiceCIDR}
	webhookKinds = []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
	policyKinds  = []string{
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	}
)

// readOverAPI is the remedy where the Services are stored in another etcd, or objects are encrypted at rest.
const readOverAPI = "Run this over the Kubernetes API, which shows them."

// checkUnreadable looks for objects that cannot be decoded, or whose name is not that of their key. A kube-apiserver
// cannot list the kind of the former, and without lists of Services and IPAddress objects it is never ready; the latter
// it lists, and never finds.
func (p *preflight) checkUnreadable() {
	var keys, encrypted []string
	problem := ""
	for _, u := range p.state.Unreadable {
		if u.Encrypted != nil {
			encrypted = append(encrypted, u.Key)
			continue
		}
		keys, problem = append(keys, u.Key), cmp.Or(problem, u.Problem)
	}
	if len(keys) > 0 {
		p.add(Check{
			Name: "Unreadable", Level: Must, Values: keys,
			Message: fmt.Sprintf("These objects cannot be read: %s (%s). If kube-apiserver cannot read them either, it cannot list their kind, and one whose name is not that of its key it cannot find; what they use or record is unknown.",
				some(keys), problem),
			Remedy: "Look at them with kubectl, and restore or delete in etcd those that kube-apiserver cannot read either, or shows under the names of others.",
		})
	}
	if len(encrypted) > 0 {
		p.add(Check{
			Name: "Encrypted", Level: Unknown, Values: encrypted,
			Message: fmt.Sprintf("These objects are encrypted at rest: %s. Whether kube-apiserver %v can decrypt them, and what they use or record, is unknown.", some(encrypted), p.To),
			Remedy:  readOverAPI,
		})
	}
}

// unreadable says which objects of these kinds cannot be decoded; empty if there are none.
func (p *preflight) unreadable(kinds ...string) string {
	var keys []string
	for _, u := range p.state.Unreadable {
		if slices.Contains(kinds, u.Kind) {
			keys = append(keys, u.Key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return some(keys) + " cannot be read"
}

// readFirst is the remedy of what depends on objects that cannot be decoded.
func (p *preflight) readFirst() string {
	if slices.ContainsFunc(p.state.Unreadable, func(u clusterstate.Unreadable) bool { return u.Encrypted == nil }) {
		return "Restore or delete in etcd the objects that kube-apiserver cannot read either, and run this again."
	}
	return readOverAPI
}

// repairLater is the remedy of faults that a repair would repair if it were not refused beside such objects.
func (p *preflight) repairLater() string { return p.readFirst() + " Nothing is repaired before that." }

// dependsOn adds a check as unknown if objects of these kinds cannot be decoded, or are stored elsewhere, and reports
// whether it did.
func (p *preflight) dependsOn(kinds []string, name, what string) bool {
	unreadable, remedy := p.unreadable(kinds...), p.readFirst()
	if unreadable == "" && p.lacksServices && slices.Contains(kinds, audit.KindService) {
		unreadable, remedy = audit.ServicesElsewhere, readOverAPI
	}
	if unreadable != "" {
		p.add(Check{Name: name, Level: Unknown, Message: what + ": " + unreadable + ".", Remedy: remedy})
	}
	return unreadable != ""
}
