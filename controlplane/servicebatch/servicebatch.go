// Package servicebatch brings Services of client-go to the core library.
package servicebatch

import (
	corev1 "k8s.io/api/core/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Add adds the claims of a Service to a batch.
func Add(batch *rangekeeper.Services, s *corev1.Service) {
	batch.Add(s.Spec.ClusterIP, s.Spec.ClusterIPs)
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			batch.AddPort(string(p.Protocol), p.NodePort)
		}
	}
	batch.SetHealthCheckNodePort(s.Spec.HealthCheckNodePort)
}

// AddAll adds the claims of Services to a batch.
func AddAll(batch *rangekeeper.Services, services []corev1.Service) {
	for i := range services {
		Add(batch, &services[i])
	}
}
