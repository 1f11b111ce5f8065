package clusterstate

import (
	corev1 "k8s.io/api/core/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// AddService adds what a Service claims to a batch.
func AddService(batch *rangekeeper.Services, s *corev1.Service) {
	batch.Add(s.Spec.ClusterIP, s.Spec.ClusterIPs)
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			batch.AddPort(string(p.Protocol), p.NodePort)
		}
	}
	batch.SetHealthCheckNodePort(s.Spec.HealthCheckNodePort)
}
