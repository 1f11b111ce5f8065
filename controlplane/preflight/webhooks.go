package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	serviceCIDRs = "servicecidrs"
	ipAddresses  = "ipaddresses"
)

// webhookConfiguration is one of either kind, whose webhooks have the same fields as far as they matter.
type webhookConfiguration struct {
	resource, name string
	hooks          []admissionv1.ValidatingWebhook
}

// write is a kind of write that a kube-apiserver makes.
type write struct {
	resource  string
	operation admissionv1.OperationType
}

// checkWebhooks looks for admission webhooks that are called for the writes of the first repair pass. If one refuses them, or
// cannot be called and does not let that pass, the server is never ready (kubernetes#137356).
func (p *preflight) checkWebhooks() {
	const name = "Webhooks"
	if p.To < objectsSince && !p.byObjects {
		p.ok(name, "kube-apiserver %v writes no ServiceCIDR and IPAddress objects.", p.To)
		return
	}
	if text := p.state.Upgrade.Forbidden; text != "" {
		p.add(Check{
			Name: name, Level: Unknown, Message: fmt.Sprintf("Whether webhooks match %s or %s: %s.", serviceCIDRs, ipAddresses, strings.TrimSuffix(text, ".")),
			Remedy: "Ask for get and list of validatingwebhookconfigurations and mutatingwebhookconfigurations. deploy/audit/preflight.yaml is a ClusterRole with these rights.",
		})
		return
	}
	found := false
	for _, c := range p.webhookConfigurations() {
		found = p.checkConfiguration(name, c) || found
	}
	if !found {
		p.ok(name, "No webhook matches %s or %s.", serviceCIDRs, ipAddresses)
	}
}

func (p *preflight) webhookConfigurations() (all []webhookConfiguration) {
	for _, c := range p.state.Upgrade.Validating {
		all = append(all, webhookConfiguration{"validatingwebhookconfiguration", c.Name, c.Webhooks})
	}
	for _, c := range p.state.Upgrade.Mutating {
		one := webhookConfiguration{resource: "mutatingwebhookconfiguration", name: c.Name}
		for _, h := range c.Webhooks {
			one.hooks = append(one.hooks, admissionv1.ValidatingWebhook{
				Name: h.Name, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy, ObjectSelector: h.ObjectSelector,
				TimeoutSeconds: h.TimeoutSeconds,
			})
		}
		all = append(all, one)
	}
	return all
}

// checkConfiguration adds a check if a webhook of a configuration matches.
func (p *preflight) checkConfiguration(name string, c webhookConfiguration) bool {
	first := map[write]bool{
		{serviceCIDRs, admissionv1.Create}: p.report.FirstRepair.ServiceCIDRs > 0,
		{ipAddresses, admissionv1.Create}:  p.report.FirstRepair.Created > 0,
		{ipAddresses, admissionv1.Delete}:  p.report.FirstRepair.Removed > 0,
	}
	var names []string
	isCalled, stops := false, false
	for i := range c.hooks {
		h := &c.hooks[i]
		var matched []write
		for w := range first {
			if matches(h, w) {
				matched = append(matched, w)
			}
		}
		if len(matched) == 0 {
			continue
		}
		names = append(names, h.Name)
		calls := slices.ContainsFunc(matched, func(w write) bool { return first[w] })
		isCalled = isCalled || calls
		stops = stops || calls && (h.FailurePolicy == nil || *h.FailurePolicy == admissionv1.Fail)
	}
	if len(names) == 0 {
		return false
	}
	check := Check{
		Name: name, Level: Surprise, Values: names,
		Message: fmt.Sprintf("%s of %s %s can be called for %s or %s.", strings.Join(names, ", "), c.resource, c.name, serviceCIDRs, ipAddresses),
		Remedy:  "Exclude both resources from its rules, or from the tool that maintains it:",
		Words:   []string{"kubectl edit", c.resource, c.name},
	}
	switch {
	case stops:
		check.Level = Must
		check.Message += fmt.Sprintf(" The first repair pass of kube-apiserver %v calls it with failurePolicy Fail: if it refuses or does not answer, the server is never ready (kubernetes#137356).", p.To)
	case isCalled:
		check.Message += fmt.Sprintf(" The first repair pass of kube-apiserver %v waits for each answer, up to timeoutSeconds.", p.To)
	default:
		check.Message += " The first repair pass has nothing to write, so only later allocations depend on it."
	}
	p.add(check)
	return true
}

// matches reports whether a webhook is called for a write. A namespaceSelector never excludes objects of the cluster, and
// matchConditions are not evaluated: they are taken to match.
func matches(h *admissionv1.ValidatingWebhook, w write) bool {
	exact := h.MatchPolicy != nil && *h.MatchPolicy == admissionv1.Exact
	return selects(h.ObjectSelector, w.resource) && slices.ContainsFunc(h.Rules, func(r admissionv1.RuleWithOperations) bool {
		return (slices.Contains(r.Operations, admissionv1.OperationAll) || slices.Contains(r.Operations, w.operation)) &&
			hasAny(r.APIGroups, "networking.k8s.io") && (!exact || hasAny(r.APIVersions, "v1")) &&
			hasAny(r.Resources, w.resource, w.resource+"/*", "*/*") &&
			(r.Scope == nil || *r.Scope != admissionv1.NamespacedScope)
	})
}

// hasAny reports whether a rule's list has one of the names or a star.
func hasAny(list []string, names ...string) bool {
	return slices.Contains(list, "*") || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(list, name) })
}

// selects reports whether an objectSelector selects an object that a kube-apiserver creates.
func selects(s *metav1.LabelSelector, resource string) bool {
	selector, err := metav1.LabelSelectorAsSelector(cmp.Or(s, new(metav1.LabelSelector)))
	if err != nil {
		return true // the API server refuses such a selector
	}
	if resource == serviceCIDRs {
		return selector.Matches(labels.Set{})
	}
	return slices.ContainsFunc([]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, func(family corev1.IPFamily) bool {
		return selector.Matches(labels.Set(labelsOf(family)))
	})
}
