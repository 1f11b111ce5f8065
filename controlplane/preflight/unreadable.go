package preflight

import (
	"fmt"
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

var (
	// recordKinds are the kinds of objects that an audit reads.
	recordKinds  = []string{audit.KindService, audit.KindIPAddress, audit.KindServiceCIDR}
	webhookKinds = []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
	policyKinds  = []string{
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	}
)

const (
	readFirst = "Restore or delete in etcd the objects that kube-apiserver cannot read either, and run this again."
	// readOverAPI is the remedy where the Services are stored in another etcd.
	readOverAPI = "Run this over the Kubernetes API, which shows the Services."
	// repairLater is the remedy of faults that a repair would repair if it were not refused beside such objects.
	repairLater = readFirst + " Nothing is repaired before that."
)

// checkUnreadable looks for objects that cannot be decoded, or whose name is not that of their key. A kube-apiserver
// cannot list the kind of the former, and without lists of Services and IPAddress objects it is never ready; the latter
// it lists, and never finds.
func (p *preflight) checkUnreadable() {
	var keys []string
	for _, u := range p.state.Unreadable {
		keys = append(keys, u.Key)
	}
	if len(keys) == 0 {
		return
	}
	p.add(Check{
		Name: "Unreadable", Level: Must, Values: keys,
		Message: fmt.Sprintf("These objects cannot be read: %s (%s). If kube-apiserver cannot read them either, it cannot list their kind, and one whose name is not that of its key it cannot find; what they use or record is unknown.",
			some(keys), p.state.Unreadable[0].Problem),
		Remedy: "Look at them with kubectl, and restore or delete in etcd those that kube-apiserver cannot read either, or shows under the names of others.",
	})
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

// dependsOn adds a check as unknown if objects of these kinds cannot be decoded, or are stored elsewhere, and reports
// whether it did.
func (p *preflight) dependsOn(kinds []string, name, what string) bool {
	unreadable := p.unreadable(kinds...)
	remedy := readFirst
	if unreadable == "" && p.lacksServices && slices.Contains(kinds, audit.KindService) {
		unreadable, remedy = audit.ServicesElsewhere, readOverAPI
	}
	if unreadable != "" {
		p.add(Check{Name: name, Level: Unknown, Message: what + ": " + unreadable + ".", Remedy: remedy})
	}
	return unreadable != ""
}
