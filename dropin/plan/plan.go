// Package plan asks Rangekeeper's bootstrap plans, with Kubernetes' objects in questions and answers, and makes the changes
// that they order. It is for the drop-in packages of the control plane. docs/bootstrap-json.md has the decisions of each plan, and
// the fields they depend on. A nil slice is not an empty one: questions need each one that is not documented as optional.
package plan

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Stage is the stage of the server's life.
type Stage string

const (
	// StageStart: the server is not ready yet, and removes the lease and address of its last run.
	StageStart Stage = "start"
	// StageRun: the server runs.
	StageRun Stage = "run"
	// StageStop: the server shuts down in order.
	StageStop Stage = "stop"
)

// NamespacesQuestion asks which namespaces are missing.
type NamespacesQuestion struct {
	// Existing names those of Wanted that exist. Others do not matter.
	Existing []string `json:"existing"`
	Wanted   []string `json:"wanted"`
}

// NamespacesAnswer lists the namespaces to create. "Already exists" counts as success.
type NamespacesAnswer struct {
	Create []corev1.Namespace `json:"create"`
}

// Namespaces asks.
func Namespaces(question NamespacesQuestion) (NamespacesAnswer, error) {
	return ask[NamespacesAnswer]("namespaces", question)
}

// ServiceQuestion asks for the change to the Service of the API servers.
type ServiceQuestion struct {
	// Existing is nil if there is none.
	Existing *corev1.Service `json:"existing"`
	Wanted   WantedService   `json:"wanted"`
	// Reconcile resets ports and type of one that exists.
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
	// NodePort, if not 0, makes it one of type NodePort.
	NodePort   int32                `json:"nodePort"`
	ExtraPorts []corev1.ServicePort `json:"extraPorts"`
}

// Service asks.
func Service(question ServiceQuestion) (Change[corev1.Service], error) {
	return ask[Change[corev1.Service]]("service", question)
}

// LeaseKey is the key that questions have for the lease of the server with this address. Where the leases of the cluster
// really are is the storage's business.
func LeaseKey(address string) string { return "/registry/masterleases/" + address }

// StoredLease is a lease as it was read.
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
	// LeaseTTLMillis is for how long it is to hold; whole seconds, at least one.
	LeaseTTLMillis int64 `json:"leaseTtlMs"`
	// Generation is the generation of the last put that took effect or may have; 0 if there was none.
	Generation int64 `json:"generation"`
	// Read is nil if the key is not there.
	Read *StoredLease `json:"read"`
}

// LeaseAnswer is the change to the server's own lease.
type LeaseAnswer struct {
	// Request is empty if nothing has to be written.
	Request struct {
		PutLease *struct {
			// Value is a v1 Endpoints in Kubernetes' protobuf.
			Value      []byte `json:"value"`
			TTLSeconds uint64 `json:"ttlSeconds"`
		} `json:"putLease"`
		DeleteLease *struct{} `json:"deleteLease"`
	} `json:"request"`
	// Endpoints is whether the plan of the endpoints follows.
	Endpoints bool `json:"endpoints"`
	// Generation is for the next question, unless the put has met a conflict.
	Generation int64 `json:"generation"`
}

// Lease asks.
func Lease(question LeaseQuestion) (LeaseAnswer, error) {
	return ask[LeaseAnswer]("lease", question)
}

// Mode is how the endpoints are kept: ModeLease, or a result of ModeMasterCount.
type Mode any

// ModeLease keeps the addresses of all servers that hold a lease.
const ModeLease = "lease"

// ModeMasterCount keeps up to so many addresses, at least 1.
func ModeMasterCount(count int) Mode { return map[string]int{"master-count": count} }

// EndpointsQuestion asks for the changes to Endpoints and EndpointSlice.
type EndpointsQuestion struct {
	// Name is the name of the Service and of both objects.
	Name             string `json:"name"`
	AdvertiseAddress string `json:"advertiseAddress"`
	Mode             Mode   `json:"mode"`
	Stage            Stage  `json:"stage"`
	// Ports are all that the server's endpoint has.
	Ports []corev1.EndpointPort `json:"ports"`
	// Reconcile resets other ports while it runs.
	Reconcile bool `json:"reconcile"`
	// Leases are all there are, listed after both objects were read; nil but in mode lease.
	Leases []StoredLease `json:"leases"`
	// Endpoints is nil if there are none.
	Endpoints *corev1.Endpoints `json:"endpoints"`
	// Slice is nil if there is none. It was read before the Endpoints.
	Slice *discoveryv1.EndpointSlice `json:"slice"`
}

// Refusal says why endpoints are left, though they do not look right; empty if they are not.
type Refusal string

const (
	// NoLeases is that no server holds a lease, not even this one.
	NoLeases Refusal = "no-leases"
	// OnlyOwnAddress is that a server that starts would take away the only address.
	OnlyOwnAddress Refusal = "only-own-address"
	// OwnLeaseMissing is that the own lease is gone right after it was put: it has to be put once more.
	OwnLeaseMissing Refusal = "own-lease-missing"
)

// EndpointsAnswer is the changes, first to the Endpoints, then to the slice.
type EndpointsAnswer struct {
	Endpoints Change[corev1.Endpoints]          `json:"endpoints"`
	Slice     Change[discoveryv1.EndpointSlice] `json:"slice"`
	Refused   Refusal                           `json:"refused"`
	// Survey is the state of the leases.
	Survey struct {
		// Faults are for reports only.
		Faults []json.RawMessage `json:"faults"`
	} `json:"survey"`
}

// Endpoints asks.
func Endpoints(question EndpointsQuestion) (EndpointsAnswer, error) {
	return ask[EndpointsAnswer]("endpoints", question)
}

// SliceQuestion asks for the change to the EndpointSlice of stored Endpoints.
type SliceQuestion struct {
	Endpoints *corev1.Endpoints `json:"endpoints"`
	// Slice is nil if there is none. It was read before the Endpoints.
	Slice *discoveryv1.EndpointSlice `json:"slice"`
}

// Slice asks.
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
