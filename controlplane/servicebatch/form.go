package servicebatch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Form returns the form of a Service.
func Form(s *corev1.Service) rangekeeper.ServiceForm {
	spec := &s.Spec
	isHeadless := spec.ClusterIP == corev1.ClusterIPNone
	hasAddress := spec.ClusterIP != "" && !isHeadless
	return rangekeeper.ServiceForm{
		NodePort: spec.Type == corev1.ServiceTypeNodePort, LoadBalancer: spec.Type == corev1.ServiceTypeLoadBalancer,
		ExternalName: spec.Type == corev1.ServiceTypeExternalName, Headless: isHeadless,
		OneAddress: hasAddress, TwoAddresses: hasAddress && len(spec.ClusterIPs) > 1,
		RequiresDualStack:   spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack,
		WithoutNodePorts:    spec.AllocateLoadBalancerNodePorts != nil && !*spec.AllocateLoadBalancerNodePorts,
		LacksNodePort:       slices.ContainsFunc(spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == 0 }),
		Local:               spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
		HealthCheckNodePort: spec.HealthCheckNodePort != 0,
	}
}
