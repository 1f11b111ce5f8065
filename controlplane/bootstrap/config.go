package bootstrap

import (
	"cmp"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Config describes a server and how its endpoint is kept. Empty fields have kube-apiserver's defaults.
type Config struct {
	// AdvertiseAddress is the address under which others reach this server: its endpoint. There is no default.
	AdvertiseAddress string `json:"advertiseAddress"`
	// SecurePort is the port on which it listens, 6443 by default in kube-apiserver. 0 is refused.
	SecurePort uint16 `json:"securePort"`
	// ServiceClusterIPRange is the (primary) range of ClusterIPs; empty for 10.0.0.0/24. Its first address is the
	// ClusterIP of the Service kubernetes.
	ServiceClusterIPRange string `json:"serviceClusterIpRange,omitempty"`
	// KubernetesServiceNodePort is the node port of the Service kubernetes; 0 for none.
	KubernetesServiceNodePort uint16 `json:"kubernetesServiceNodePort,omitempty"`
	// ExtraServicePorts and ExtraEndpointPorts are those beside the server's own.
	ExtraServicePorts  []corev1.ServicePort  `json:"extraServicePorts,omitempty"`
	ExtraEndpointPorts []corev1.EndpointPort `json:"extraEndpointPorts,omitempty"`
	// Reconcile resets ports and type of a Service that exists, and ports of its endpoints.
	Reconcile bool `json:"reconcile,omitempty"`
	// Mode is how the endpoints are kept; empty for Lease.
	Mode Mode `json:"mode,omitzero"`
	// ExtraNamespaces are to be there beside the four that every cluster has.
	ExtraNamespaces []string `json:"extraNamespaces,omitempty"`
	// EtcdPrefix is kube-apiserver's --etcd-prefix; empty for /registry.
	EtcdPrefix string `json:"etcdPrefix,omitempty"`
	// Form is which kube-apiserver's order of start is followed; empty for Hooks.
	Form Form `json:"form,omitempty"`
	// Placement is where this runs; empty for Beside.
	Placement Placement `json:"placement,omitempty"`
	// Periods are the intervals of the work; empty for kube-apiserver's.
	Periods Periods `json:"periods,omitzero"`
}

// Form is which kube-apiserver's order of start is followed.
type Form string

const (
	// SingleController is that to about 1.26: the first repairs must succeed at once.
	SingleController Form = "single-controller"
	// Hooks is that since then: the first repairs must succeed within a minute.
	Hooks Form = "hooks"
)

// Placement is where the controller runs.
type Placement string

const (
	// Inside is inside an API server, which becomes ready only when its hooks have ended.
	Inside Placement = "inside"
	// Beside is a process of its own. While the API server does not answer, its lease is not refreshed.
	Beside Placement = "beside"
)

// Mode is how the endpoints of the Service kubernetes are kept: kube-apiserver's --endpoint-reconciler-type.
type Mode struct {
	name string
	// count is the argument of MasterCount.
	count uint32
}

var (
	// Lease keeps the addresses of all servers that hold a lease in etcd.
	Lease = Mode{name: "lease"}
	// None leaves the endpoints to others.
	None = Mode{name: "none"}
)

// MasterCount keeps up to so many addresses, at least 1. Nobody looks who lives.
func MasterCount(count uint32) Mode { return Mode{"master-count", count} }

// String is the value of --endpoint-reconciler-type.
func (m Mode) String() string { return cmp.Or(m.name, Lease.name) }

// MarshalJSON returns the form of docs/bootstrap-json.md.
func (m Mode) MarshalJSON() ([]byte, error) {
	if m.name == "master-count" {
		return json.Marshal(map[string]uint32{m.name: m.count})
	}
	return json.Marshal(m.name)
}

// Periods are the intervals of the work; 0 for kube-apiserver's.
type Periods struct {
	// Endpoints: the Service kubernetes, the own lease and the endpoints; 10 s. LeaseTTL is how long a lease lives that
	// is not refreshed; 15 s. Namespaces: 1 min. Repairs: each of the two; 3 min.
	Endpoints, LeaseTTL, Namespaces, Repairs time.Duration
}

// MarshalJSON returns the form of docs/bootstrap-json.md.
func (p Periods) MarshalJSON() ([]byte, error) {
	all := map[string]int64{}
	for name, period := range map[string]time.Duration{
		"endpointsMs": p.Endpoints, "leaseTtlMs": p.LeaseTTL, "namespacesMs": p.Namespaces, "repairsMs": p.Repairs,
	} {
		if period != 0 {
			all[name] = period.Milliseconds()
		}
	}
	return json.Marshal(all)
}
