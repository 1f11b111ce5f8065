// Package plan asks Rangekeeper's bootstrap plans, with Kubernetes' objects in questions and answers, and makes the changes
// that they order. It is for the drop-in packages of the control plane. What each plan decides, and by which fields,
// stands in docs/bootstrap-json.md. A slice that is nil is not an empty one: questions need each one that is not
// said to be optional.
package plan

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Stage is what the server is about to do.
type Stage string

const (
	// StageStart is that of a server that is not ready yet, and takes away what it left behind when it ended.
	StageStart Stage = "start"
	// StageRun is that of a server that runs.
	StageRun Stage = "run"
	// StageStop is that of a server that stops in order.
	StageStop Stage = "stop"
)

// NamespacesQuestion asks which namespaces are missing.
type NamespacesQuestion struct {
	// Existing names those of Wanted that exist. Others do not matter.
	Existing []string `json:"existing"`
	Wanted   []string `json:"wanted"`
}

// NamespacesAnswer lists what has to be created. "Already exists" counts as success.
type NamespacesAnswer struct {
	Create []corev1.Namespace `json:"create"`
}

// Namespaces asks.
func Namespaces(question NamespacesQuestion) (NamespacesAnswer, error) {
	return ask[NamespacesAnswer]("namespaces", question)
}

// ServiceQuestion asks what has to be done about the Service of the API servers.
type ServiceQuestion struct {
	// Existing is nil if there is none.
	Existing *corev1.Service `json:"existing"`
	Wanted   WantedService   `json:"wanted"`
	// Reconcile resets ports and type of one that exists.
	Reconcile bool `json:"reconcile"`
}

// WantedService is what the Service should be.
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
	// LeaseID is that of the lease of etcd that gives the key a time to live; 0 if it has none.
	LeaseID int64 `json:"leaseId"`
}

// LeaseQuestion asks what has to be done about the own lease.
type LeaseQuestion struct {
	AdvertiseAddress string `json:"advertiseAddress"`
	Stage            Stage  `json:"stage"`
	// LeaseTTLMillis is for how long it is to hold; whole seconds, at least one.
	LeaseTTLMillis int64 `json:"leaseTtlMs"`
	// Generation is that of the last put that took place or may have; 0 if there was none.
	Generation int64 `json:"generation"`
	// Read is nil if the key is not there.
	Read *StoredLease `json:"read"`
}

// LeaseAnswer says what has to be done about the own lease.
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

// EndpointsQuestion asks what has to be done about Endpoints and EndpointSlice.
type EndpointsQuestion struct {
	// Name is that of the Service and of both objects.
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

// EndpointsAnswer says what has to be done: first about the Endpoints, then about the slice.
type EndpointsAnswer struct {
	Endpoints Change[corev1.Endpoints]          `json:"endpoints"`
	Slice     Change[discoveryv1.EndpointSlice] `json:"slice"`
	Refused   Refusal                           `json:"refused"`
	// Survey is what the leases tell.
	Survey struct {
		// Faults are for reports only.
		Faults []json.RawMessage `json:"faults"`
	} `json:"survey"`
}

// Endpoints asks.
func Endpoints(question EndpointsQuestion) (EndpointsAnswer, error) {
	return ask[EndpointsAnswer]("endpoints", question)
}

// SliceQuestion asks what has to be done about the EndpointSlice of Endpoints that stand there.
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
		return answer, fmt.Errorf("the question about %s: %w", name, err)
	}
	if text, err = rangekeeper.BootstrapPlan(text, nil); err != nil {
		return answer, fmt.Errorf("the plan of %s: %w", name, err)
	}
	var answers map[string]Answer
	if err = json.Unmarshal(text, &answers); err != nil {
		return answer, fmt.Errorf("the answer about %s: %w", name, err)
	}
	return answers[name], nil
}
