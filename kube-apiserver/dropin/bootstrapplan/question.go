// Package bootstrapplan sends questions to Rangekeeper's bootstrap plans, with Kubernetes' objects in questions and
// answers, and makes the changes of the answers. It is for the drop-in packages of the control plane.
// docs/bootstrap-json.md describes the decisions of each plan and the fields they depend on. A nil slice is not an
// empty one: a question must have every slice that is not optional.
package bootstrapplan

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/servermetrics"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Stage is the stage of the server's life.
type Stage string

const (
	// StageStart: the server is not ready yet, and removes the lease and address of its last run.
	StageStart Stage = "start"
	// StageRun: the server runs.
	StageRun Stage = "run"
	// StageStop: the server shuts down gracefully.
	StageStop Stage = "stop"
)

// NamespacesQuestion asks which namespaces are missing.
type NamespacesQuestion struct {
	// Existing has the names in Wanted that exist; other names have no effect.
	Existing []string `json:"existing"`
	Wanted   []string `json:"wanted"`
}

// NamespacesAnswer lists the namespaces to create. "Already exists" counts as success.
type NamespacesAnswer struct {
	Create []corev1.Namespace `json:"create"`
}

// Namespaces plans the system namespaces.
func Namespaces(question NamespacesQuestion) (NamespacesAnswer, error) {
	return ask[NamespacesAnswer]("namespaces", question)
}

// ServiceQuestion asks for the change to the Service of the API servers.
type ServiceQuestion struct {
	// Existing is nil if the Service does not exist.
	Existing *corev1.Service `json:"existing"`
	Wanted   WantedService   `json:"wanted"`
	// Reconcile resets the ports and type of an existing Service.
	Reconcile bool `json:"reconcile"`
}

// WantedService is the desired Service.
type WantedService struct {
	Name      string `json:"name"`
	ClusterIP string `json:"clusterIp"`
	Port      int32  `json:"port"`
	PortName  string `json:"portName"`
	// SecurePort is the port on which the API servers listen.
	SecurePort int `json:"securePort"`
	// NodePort, if not 0, makes the Service one of type NodePort.
	NodePort   int32                `json:"nodePort"`
	ExtraPorts []corev1.ServicePort `json:"extraPorts"`
}

// Service plans the Service.
func Service(question ServiceQuestion) (Change[corev1.Service], error) {
	return ask[Change[corev1.Service]]("service", question)
}

// LeaseKey returns the key that questions have for the lease of the server with this address. The storage may have
// another one.
func LeaseKey(address string) string { return "/registry/masterleases/" + address }

// StoredLease is a lease that was read.
type StoredLease struct {
	// Key is the result of LeaseKey.
	Key string `json:"key"`
	// Value is a v1 Endpoints, in Kubernetes' protobuf or JSON.
	Value []byte `json:"value"`
	// ModRevision is the revision of the last write.
	ModRevision uint64 `json:"modRevision"`
	// LeaseID is the ID of the etcd lease that limits the key's time to live; 0 if it has none.
	LeaseID int64 `json:"leaseId"`
}

// LeaseQuestion asks for the change to the server's own lease.
type LeaseQuestion struct {
	AdvertiseAddress string `json:"advertiseAddress"`
	Stage            Stage  `json:"stage"`
	// LeaseTTLMillis is the lease's time to live: whole seconds, at least one.
	LeaseTTLMillis int64 `json:"leaseTtlMs"`
	// Generation is that of the last put that took effect or has an unknown outcome; 0 if there was none.
	Generation int64 `json:"generation"`
	// Read is nil if the key does not exist.
	Read *StoredLease `json:"read"`
}

// LeaseAnswer is the change to the server's own lease.
type LeaseAnswer struct {
	// Request is empty if there is nothing to write.
	Request struct {
		PutLease *struct {
			// Value is a v1 Endpoints in Kubernetes' protobuf.
			Value      []byte `json:"value"`
			TTLSeconds uint64 `json:"ttlSeconds"`
		} `json:"putLease"`
		DeleteLease *struct{} `json:"deleteLease"`
	} `json:"request"`
	// Endpoints reports whether the endpoints are to be planned next.
	Endpoints bool `json:"endpoints"`
	// Generation is for the next question, unless the put ends with a conflict.
	Generation int64 `json:"generation"`
}

// Lease plans the server's own lease.
func Lease(question LeaseQuestion) (LeaseAnswer, error) {
	return ask[LeaseAnswer]("lease", question)
}

// CheckAddress returns an error if the API server refuses the address in endpoints. Every plan that has the server's
// address checks it; this one has no other effect.
func CheckAddress(address string) error {
	_, err := Lease(LeaseQuestion{AdvertiseAddress: address, Stage: StageStart, LeaseTTLMillis: 1000})
	return err
}

// Mode decides which addresses the endpoints have: ModeLease, or a result of ModeMasterCount.
type Mode any

// ModeLease keeps the addresses of all servers that hold a lease.
const ModeLease = "lease"

// ModeMasterCount keeps up to count addresses, at least 1.
func ModeMasterCount(count int) Mode { return map[string]int{"master-count": count} }

// EndpointsQuestion asks for the changes to Endpoints and EndpointSlice.
type EndpointsQuestion struct {
	// Name is the name of the Service and of both objects.
	Name             string `json:"name"`
	AdvertiseAddress string `json:"advertiseAddress"`
	Mode             Mode   `json:"mode"`
	Stage            Stage  `json:"stage"`
	// Ports are all ports of the server's endpoint.
	Ports []corev1.EndpointPort `json:"ports"`
	// Reconcile resets ports that differ from Ports in StageRun.
	Reconcile bool `json:"reconcile"`
	// Leases are all leases, listed after both objects were read; nil unless the mode is lease.
	Leases []StoredLease `json:"leases"`
	// Endpoints is nil if the object does not exist.
	Endpoints *corev1.Endpoints `json:"endpoints"`
	// Slice is nil if the object does not exist. It was read before the Endpoints.
	Slice *discoveryv1.EndpointSlice `json:"slice"`
}

// Refusal is the reason for which wrong endpoints are not changed; empty if there is none.
type Refusal string

const (
	// NoLeases: no server holds a lease, not even this one.
	NoLeases Refusal = "no-leases"
	// OnlyOwnAddress: the starting server would remove the only address.
	OnlyOwnAddress Refusal = "only-own-address"
	// OwnLeaseMissing: this server's lease is gone right after its put, and has to be put again.
	OwnLeaseMissing Refusal = "own-lease-missing"
)

// EndpointsAnswer has the changes, to be made to the Endpoints first.
type EndpointsAnswer struct {
	Endpoints Change[corev1.Endpoints]          `json:"endpoints"`
	Slice     Change[discoveryv1.EndpointSlice] `json:"slice"`
	Refused   Refusal                           `json:"refused"`
	// Survey is the state of the leases.
	Survey struct {
		// Faults are for the log.
		Faults []json.RawMessage `json:"faults"`
	} `json:"survey"`
	// Found is for metrics.
	Found servermetrics.Found `json:"found"`
}

// Endpoints plans Endpoints and EndpointSlice.
func Endpoints(question EndpointsQuestion) (EndpointsAnswer, error) {
	return ask[EndpointsAnswer]("endpoints", question)
}

// SliceQuestion asks for the change to the EndpointSlice of stored Endpoints.
type SliceQuestion struct {
	Endpoints *corev1.Endpoints `json:"endpoints"`
	// Slice is nil if the object does not exist. It was read before the Endpoints.
	Slice *discoveryv1.EndpointSlice `json:"slice"`
}

// Slice plans the EndpointSlice.
func Slice(question SliceQuestion) (Change[discoveryv1.EndpointSlice], error) {
	return ask[Change[discoveryv1.EndpointSlice]]("slice", question)
}

func ask[Answer any](name string, question any) (answer Answer, err error) {
	text, err := json.Marshal(map[string]any{name: question})
	if err != nil {
		return answer, fmt.Errorf("encode the question about %s: %w", name, err)
	}
	if text, err = rangekeeper.BootstrapPlan(text, nil); err != nil {
		return answer, fmt.Errorf("plan %s: %w", name, err)
	}
	var answers map[string]Answer
	if err = json.Unmarshal(text, &answers); err != nil {
		return answer, fmt.Errorf("decode the answer about %s: %w", name, err)
	}
	return answers[name], nil
}
