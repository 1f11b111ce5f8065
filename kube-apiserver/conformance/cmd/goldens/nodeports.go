package main

import (
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	// Linked in for collectServiceNodePorts.
	_ "k8s.io/kubernetes/pkg/registry/core/service/portallocator/controller"
)

// collectServiceNodePorts is the function by which the reference's port repair reads a Service. It is linked by name,
// as it is not exported, and the repair's output does not show the order.
//
//go:linkname collectServiceNodePorts k8s.io/kubernetes/pkg/registry/core/service/portallocator/controller.collectServiceNodePorts
func collectServiceNodePorts(service *corev1.Service) []int

type nodePortRow struct {
	Ports               []servicePort `json:"ports"`
	HealthCheckNodePort int32         `json:"health_check_node_port"`
	// Collected are the ports that the repair allocates one by one; it reports the second of two equal ones as a
	// duplicate.
	Collected []int `json:"collected"`
}

type servicePort struct {
	Protocol string `json:"protocol"`
	NodePort int32  `json:"node_port"`
}

func nodePortRows() ([]any, error) {
	var rows []any
	for _, row := range nodePortInputs() {
		service := &corev1.Service{Spec: corev1.ServiceSpec{HealthCheckNodePort: row.HealthCheckNodePort}}
		for _, port := range row.Ports {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
				Protocol: corev1.Protocol(port.Protocol),
				NodePort: port.NodePort,
			})
		}
		row.Collected = append([]int{}, collectServiceNodePorts(service)...)
		rows = append(rows, row)
	}
	return rows, nil
}

func nodePortInputs() []nodePortRow {
	const a, b, c = 30000, 31000, 32767
	row := func(health int32, ports ...servicePort) nodePortRow {
		return nodePortRow{Ports: append([]servicePort{}, ports...), HealthCheckNodePort: health}
	}
	tcp := func(port int32) servicePort { return servicePort{"TCP", port} }
	udp := func(port int32) servicePort { return servicePort{"UDP", port} }
	sctp := func(port int32) servicePort { return servicePort{"SCTP", port} }
	none := func(port int32) servicePort { return servicePort{"", port} }
	lower := func(port int32) servicePort { return servicePort{"tcp", port} }

	rows := []nodePortRow{
		// No node ports.
		row(0), row(0, tcp(0)), row(0, tcp(0), udp(0)), row(0, tcp(0), tcp(0)),
		// Different ports.
		row(0, tcp(a)), row(0, udp(a)), row(0, sctp(a)), row(0, tcp(a), tcp(b)), row(0, tcp(b), tcp(a)), row(0, tcp(c), udp(b), sctp(a)), row(0, tcp(0), tcp(a), tcp(0), udp(b)),
		// The same port with different protocols counts once.
		row(0, tcp(a), udp(a)), row(0, udp(a), tcp(a)), row(0, tcp(a), udp(a), sctp(a)), row(0, tcp(a), tcp(b), udp(a), udp(b)), row(0, tcp(a), none(a)), row(0, none(a), tcp(a)), row(0, tcp(a), lower(a)),
		// The same port with the same protocol counts each time.
		row(0, tcp(a), tcp(a)), row(0, udp(a), udp(a)), row(0, sctp(a), sctp(a)), row(0, none(a), none(a)), row(0, tcp(a), tcp(a), tcp(a)), row(0, tcp(a), udp(a), tcp(a)), row(0, tcp(a), udp(a), udp(a)),
		row(0, tcp(a), udp(a), tcp(a), udp(a)), row(0, tcp(a), tcp(b), tcp(a), tcp(b)), row(0, udp(a), tcp(a), udp(a), tcp(b)), row(0, lower(a), lower(a)),
		// Unknown protocols.
		row(0, servicePort{"DCCP", a}, servicePort{"DCCP", a}), row(0, servicePort{"DCCP", a}, tcp(a)), row(b, servicePort{"DCCP", b}),
		// The health check's port, alone and beside others.
		row(a), row(b, tcp(a)), row(b, tcp(0)), row(b, tcp(a), udp(a)), row(c, tcp(a), tcp(b)),
		// The health check's port among the others: added only where TCP is one of its protocols.
		row(a, tcp(a)), row(a, udp(a)), row(a, sctp(a)), row(a, none(a)), row(a, lower(a)), row(a, tcp(a), udp(a)), row(a, udp(a), tcp(a)), row(a, udp(a), sctp(a)), row(a, udp(a), sctp(a), tcp(a)),
		row(a, tcp(a), tcp(a)), row(a, udp(a), udp(a)), row(a, tcp(b), udp(a)), row(a, udp(b), tcp(a)), row(b, tcp(a), udp(b), udp(b)), row(a, none(a), udp(a)),
		// Values that an API server refuses, but that an object written to etcd by hand may have.
		row(0, tcp(-1)), row(0, tcp(70000)), row(-1), row(70000), row(-1, tcp(-1)), row(0, tcp(-1), tcp(-1)), row(2147483647, tcp(-2147483648)), row(1, tcp(1), tcp(65535)),
	}
	// So many ports that a linear search would be slow.
	many := make([]servicePort, 0, 150)
	for port := int32(a); port < a+50; port++ {
		many = append(many, tcp(port), udp(port), tcp(port+25))
	}
	return append(rows, row(a+10, many...), row(c, many...))
}
