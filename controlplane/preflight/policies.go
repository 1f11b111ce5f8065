package preflight

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// policy is an admission policy that has bindings, as far as it matters.
type policy struct {
	resource, name string
	constraints    *admissionv1.MatchResources
	// bindings have nil for one that matches all that the policy matches.
	bindings []*admissionv1.MatchResources
	// refuses says that it can refuse a write, and isConditional that its matchConditions decide whether it is
	// evaluated.
	refuses, isConditional bool
}

// checkPolicies looks for admission policies that are evaluated for the writes of the first repair pass, as
// checkWebhooks does for webhooks.
func (p *preflight) checkPolicies() {
	const name = "Policies"
	if p.To < objectsSince && !p.byObjects {
		return // as checkWebhooks says
	}
	if text := p.state.Upgrade.PoliciesForbidden; text != "" {
		p.forbidden(name, "admission policies", text, "the admission policies and their bindings")
		return
	}
	found := p.dependsOn(policyKinds, name, fmt.Sprintf("Whether admission policies match %s or %s", serviceCIDRs, ipAddresses))
	for _, one := range p.policies() {
		found = p.checkPolicy(name, one) || found
	}
	if !found {
		p.ok(name, "No admission policy that can refuse a write matches %s or %s.", serviceCIDRs, ipAddresses)
	}
}

func (p *preflight) policies() (all []policy) {
	u := p.state.Upgrade
	for _, v := range u.ValidatingPolicies {
		one := policy{
			resource: "validatingadmissionpolicy", name: v.Name, constraints: v.Spec.MatchConstraints,
			refuses: true, isConditional: len(v.Spec.MatchConditions) > 0,
		}
		for _, b := range u.ValidatingBindings { // of which others than Deny only warn or log
			if b.Spec.PolicyName == v.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) {
				one.bindings = append(one.bindings, b.Spec.MatchResources)
			}
		}
		all = append(all, one)
	}
	for _, m := range u.MutatingPolicies {
		one := policy{
			resource: "mutatingadmissionpolicy", name: m.Name, constraints: m.Spec.MatchConstraints,
			refuses: m.Spec.FailurePolicy == nil || *m.Spec.FailurePolicy == admissionv1.Fail, isConditional: len(m.Spec.MatchConditions) > 0,
		}
		for _, b := range u.MutatingBindings {
			if b.Spec.PolicyName == m.Name {
				one.bindings = append(one.bindings, b.Spec.MatchResources)
			}
		}
		all = append(all, one)
	}
	return all
}

// checkPolicy adds a check for a policy that is evaluated for any write and can refuse it, and reports whether it did.
func (p *preflight) checkPolicy(name string, one policy) bool {
	var whats []string
	starts, setsReady := false, false
	for _, w := range p.webhookWrites() {
		if !one.refuses || !one.matches(w) {
			continue
		}
		whats = append(whats, w.what)
		if w.subresource == "" {
			starts = starts || w.isFirst
		} else {
			setsReady = w.isFirst
		}
	}
	if len(whats) == 0 {
		return false
	}
	c := Check{
		Name: name, Level: Must, Values: []string{one.name},
		Message: fmt.Sprintf("%s %s is evaluated for %s", one.resource, one.name, strings.Join(whats, ", ")),
		Remedy:  "See that its expressions admit the requests of kube-apiserver (user system:apiserver), or exclude the resources from its matchConstraints:",
		Words:   p.kubectl("edit", one.resource, one.name),
	}
	if one.isConditional {
		c.Level = Unknown
		c.Message += ", if its matchConditions hold, which are not evaluated here"
	}
	switch {
	case starts:
		c.Message += fmt.Sprintf(". If it refuses the first repair pass of kube-apiserver %v, the server is never ready (kubernetes#137356).", p.To)
	case setsReady:
		c.Level = Surprise
		c.Message += fmt.Sprintf(". If it refuses the condition Ready of ServiceCIDR %s, that is missing. New Services get ClusterIPs nevertheless.", clusterstate.DefaultServiceCIDR)
	case p.unreadable(recordKinds...) != "":
		c.Level = Unknown
		c.Message += ". Whether the first repair pass makes such a write is unknown: " + p.unreadable(recordKinds...) + "."
	default:
		c.Level = Surprise
		c.Message += ". The first repair pass makes no such write, so only later allocations or releases depend on it."
	}
	p.add(c)
	return true
}

// matches reports whether the policy is evaluated for a write, if its matchConditions hold.
func (one policy) matches(w write) bool {
	return matchesResources(one.constraints, w) && slices.ContainsFunc(one.bindings, func(m *admissionv1.MatchResources) bool {
		return m == nil || matchesResources(m, w)
	})
}

// matchesResources reports whether constraints or a binding match a write. Without rules they match all, which a policy
// never has.
func matchesResources(m *admissionv1.MatchResources, w write) bool {
	if m == nil || !selects(m.ObjectSelector, w.resource) {
		return false
	}
	matching := func(rules []admissionv1.NamedRuleWithOperations, mayMatch bool) bool {
		return slices.ContainsFunc(rules, func(r admissionv1.NamedRuleWithOperations) bool {
			h := &admissionv1.ValidatingWebhook{Rules: []admissionv1.RuleWithOperations{r.RuleWithOperations}, MatchPolicy: m.MatchPolicy}
			return matches(h, w) && (len(r.ResourceNames) == 0 || w.isNamed(r.ResourceNames, mayMatch))
		})
	}
	return (len(m.ResourceRules) == 0 || matching(m.ResourceRules, true)) && !matching(m.ExcludeResourceRules, false)
}

// isNamed reports whether the object of a write has one of the names. That of an IPAddress is not known here.
func (w write) isNamed(names []string, unknown bool) bool {
	if w.resource == serviceCIDRs {
		return slices.Contains(names, clusterstate.DefaultServiceCIDR)
	}
	return unknown
}
