package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
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
	resource, subresource string
	operation             admissionv1.OperationType
	// what names it for people, and isFirst says that the new release makes it before it is ready, or right after that.
	what    string
	isFirst bool
}

// webhookWrites are those for which a webhook may be called.
func (p *preflight) webhookWrites() []write {
	w := p.report.FirstRepair
	return []write{
		{serviceCIDRs, "", admissionv1.Create, "creations of " + serviceCIDRs, w.ServiceCIDRs > 0},
		{ipAddresses, "", admissionv1.Create, "creations of " + ipAddresses, w.Created > 0},
		{ipAddresses, "", admissionv1.Delete, "deletions of " + ipAddresses, w.Removed > 0},
		{serviceCIDRs, "status", admissionv1.Update, "updates of " + serviceCIDRs + "/status", w.ServiceCIDRs > 0 || !p.defaultIsReady()},
	}
}

// defaultIsReady reports whether the default ServiceCIDR has the condition Ready, true or not. A kube-apiserver sets it
// if it is missing.
func (p *preflight) defaultIsReady() bool {
	at := slices.IndexFunc(p.state.ServiceCIDRs, func(s networkingv1.ServiceCIDR) bool { return s.Name == clusterstate.DefaultServiceCIDR })
	if at < 0 {
		return p.unreadable(audit.KindServiceCIDR) != "" // it is not known that it is not
	}
	return slices.ContainsFunc(p.state.ServiceCIDRs[at].Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == networkingv1.ServiceCIDRConditionReady
	})
}

// checkWebhooks looks for admission webhooks that are called for the writes of the first repair pass. If one refuses
// them, or cannot be called and does not let that pass, the server is never ready (kubernetes#137356).
func (p *preflight) checkWebhooks() {
	const name = "Webhooks"
	if p.To < objectsSince && !p.byObjects {
		p.ok(name, "kube-apiserver %v writes no ServiceCIDR and IPAddress objects.", p.To)
		return
	}
	if text := p.state.Upgrade.Forbidden; text != "" {
		p.forbidden(name, "webhooks", text, "validatingwebhookconfigurations and mutatingwebhookconfigurations")
		return
	}
	found := p.dependsOn(webhookKinds, name, fmt.Sprintf("Whether webhooks match %s or %s", serviceCIDRs, ipAddresses))
	for _, c := range p.webhookConfigurations() {
		found = p.checkConfiguration(name, c) || found
	}
	if !found {
		p.ok(name, "No webhook matches %s or %s.", serviceCIDRs, ipAddresses)
	}
}

// forbidden says that it is unknown whether these match, since the server refused a list with this text, and which
// rights are missing.
func (p *preflight) forbidden(name, these, text, rights string) {
	p.add(Check{
		Name: name, Level: Unknown, Message: fmt.Sprintf("Whether %s match %s or %s: %s.", these, serviceCIDRs, ipAddresses, strings.TrimSuffix(text, ".")),
		Remedy: "Ask for get and list of " + rights + ". deploy/audit/preflight.yaml is a ClusterRole with these rights.",
	})
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
				TimeoutSeconds: h.TimeoutSeconds, MatchConditions: h.MatchConditions,
			})
		}
		all = append(all, one)
	}
	return all
}

// checkConfiguration adds a check for the webhooks of a configuration that match the same writes with the same effect,
// and reports whether there are any.
func (p *preflight) checkConfiguration(name string, c webhookConfiguration) bool {
	var effects []webhookEffect
	for i := range c.hooks {
		h := &c.hooks[i]
		effect, ok := p.effectOf(h)
		if !ok {
			continue
		}
		at := slices.IndexFunc(effects, func(e webhookEffect) bool { return e.what == effect.what && e.text == effect.text })
		if at < 0 {
			at = len(effects)
			effects = append(effects, effect)
		}
		effects[at].names = append(effects[at].names, h.Name)
	}
	for _, e := range effects {
		p.add(Check{
			Name: name, Level: e.level, Values: e.names,
			Message: fmt.Sprintf("%s of %s %s can be called for %s. %s", strings.Join(e.names, ", "), c.resource, c.name, e.what, e.text),
			Remedy:  "Exclude the resources from its rules, or from the tool that maintains it:",
			Words:   p.kubectl("edit", c.resource, c.name),
		})
	}
	return len(effects) > 0
}

// webhookEffect is what webhooks of one configuration mean for the upgrade.
type webhookEffect struct {
	level Level
	// what names the writes, and text says what follows.
	what, text string
	names      []string
}

// effectOf returns the effect of one webhook, if it matches any write.
func (p *preflight) effectOf(h *admissionv1.ValidatingWebhook) (webhookEffect, bool) {
	e := webhookEffect{level: Surprise}
	var whats []string
	starts, setsReady := false, false // writes of the first repair pass, and that of the condition Ready
	for _, w := range p.webhookWrites() {
		if !matches(h, w) {
			continue
		}
		whats = append(whats, w.what)
		if w.subresource == "" {
			starts = starts || w.isFirst
		} else {
			setsReady = w.isFirst
		}
	}
	e.what = strings.Join(whats, ", ")
	if len(h.MatchConditions) > 0 {
		e.what += ", if its matchConditions hold, which are not evaluated here"
	}
	fails := h.FailurePolicy == nil || *h.FailurePolicy == admissionv1.Fail
	switch {
	case starts && fails:
		e.level = Must
		e.text = fmt.Sprintf("The first repair pass of kube-apiserver %v calls it with failurePolicy Fail: if it refuses or does not answer, the server is never ready (kubernetes#137356).", p.To)
	case setsReady && fails:
		e.text = fmt.Sprintf("kube-apiserver %v sets the condition Ready of ServiceCIDR %s, and calls it with failurePolicy Fail: until it answers and admits that, the condition is missing. New Services get ClusterIPs nevertheless.", p.To, clusterstate.DefaultServiceCIDR)
	case starts:
		e.text = fmt.Sprintf("The first repair pass of kube-apiserver %v waits for each answer, up to timeoutSeconds.", p.To)
	case setsReady:
		e.text = fmt.Sprintf("kube-apiserver %v waits for the answer before the condition Ready of ServiceCIDR %s is set.", p.To, clusterstate.DefaultServiceCIDR)
	case fails && p.unreadable(recordKinds...) != "":
		e.level = Unknown
		e.text = "Whether the first repair pass makes such a write is unknown: " + p.unreadable(recordKinds...) + "."
	default:
		e.text = "The first repair pass makes no such write, so only later allocations or releases depend on it."
	}
	if e.level == Must && len(h.MatchConditions) > 0 {
		e.level = Unknown
	}
	return e, len(whats) > 0
}

// matches reports whether a webhook is called for a write, if its matchConditions hold. A namespaceSelector never
// excludes objects of the cluster.
func matches(h *admissionv1.ValidatingWebhook, w write) bool {
	exact := h.MatchPolicy != nil && *h.MatchPolicy == admissionv1.Exact
	return selects(h.ObjectSelector, w.resource) && slices.ContainsFunc(h.Rules, func(r admissionv1.RuleWithOperations) bool {
		return (slices.Contains(r.Operations, admissionv1.OperationAll) || slices.Contains(r.Operations, w.operation)) &&
			hasAny(r.APIGroups, "networking.k8s.io") && (!exact || hasAny(r.APIVersions, "v1")) &&
			slices.ContainsFunc(r.Resources, func(text string) bool { return matchesResource(text, w) }) &&
			(r.Scope == nil || *r.Scope != admissionv1.NamespacedScope)
	})
}

// matchesResource reports whether a rule's text names the resource of a write. A star in front of the slash stands for
// all resources, and one behind it for the resource and its subresources.
func matchesResource(text string, w write) bool {
	resource, subresource, _ := strings.Cut(text, "/")
	return (resource == "*" || resource == w.resource) && (subresource == "*" || subresource == w.subresource)
}

// hasAny reports whether a rule's list has the name or a star.
func hasAny(list []string, name string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, name)
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
