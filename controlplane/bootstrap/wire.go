package bootstrap

import (
	"encoding/json"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// The JSON that is exchanged with the core; docs/bootstrap-json.md describes it.

type step struct {
	Send    []order           `json:"send"`
	Cancel  []uint64          `json:"cancel"`
	Reports []json.RawMessage `json:"reports"`
	WaitMs  *int64            `json:"waitMs"`
	Phase   phase             `json:"phase"`
}

// phase is a name, or for a phase with more to say an object with one field.
type phase struct {
	Stopped *struct{} `json:"stopped"` // why is reported
	name    string
}

func (p *phase) UnmarshalJSON(text []byte) error {
	if strings.HasPrefix(string(text), `"`) {
		return json.Unmarshal(text, &p.name)
	}
	type plain phase
	return json.Unmarshal(text, (*plain)(p))
}

type order struct {
	ID        uint64  `json:"id"`
	Request   request `json:"request"`
	TimeoutMs int64   `json:"timeoutMs"`
}

// request has one field that is not empty.
type request struct {
	Ready *struct {
		Path string `json:"path"`
	} `json:"ready"`
	Repair string `json:"repair"`
	Get    *struct {
		Object objectKey `json:"object"`
	} `json:"get"`
	Create *object `json:"create"`
	Update *object `json:"update"`
	Delete *struct {
		Object          objectKey `json:"object"`
		UID             string    `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"delete"`
	FreeServiceIP *struct {
		Address string `json:"address"`
	} `json:"freeServiceIP"`
	GetLease *struct {
		Key string `json:"key"`
	} `json:"getLease"`
	ListLeases *struct {
		Prefix string `json:"prefix"`
	} `json:"listLeases"`
	PutLease    *putLease    `json:"putLease"`
	DeleteLease *deleteLease `json:"deleteLease"`
}

// event has one field that is not empty.
type event struct {
	Object       *objectKey    `json:"object,omitempty"`
	LeaseDeleted *leaseDeleted `json:"leaseDeleted,omitempty"`
}

type leaseDeleted struct {
	Key string `json:"key"`
}

type putLease struct {
	Key         string `json:"key"`
	Value       []byte `json:"value"`
	TTLSeconds  int64  `json:"ttlSeconds"`
	ModRevision int64  `json:"modRevision"`
}

type deleteLease struct {
	Key         string           `json:"key"`
	ModRevision int64            `json:"modRevision"`
	LeaseID     clientv3.LeaseID `json:"leaseId"`
}

type objectKey struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (k objectKey) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// object stands under the name of its kind.
type object struct{ unstructured.Unstructured }

func (o *object) UnmarshalJSON(text []byte) error {
	byKind := map[string]map[string]any{}
	if err := utiljson.Unmarshal(text, &byKind); err != nil {
		return err
	}
	for _, o.Object = range byKind {
	}
	return nil
}

func (o object) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{o.GetKind(): o.Object})
}

func (o *object) key() objectKey { return objectKey{o.GetKind(), o.GetNamespace(), o.GetName()} }

// writesEndpoints reports whether a request writes Endpoints or an EndpointSlice.
func (r request) writesEndpoints() bool {
	var kind string
	switch {
	case r.Create != nil:
		kind = r.Create.GetKind()
	case r.Update != nil:
		kind = r.Update.GetKind()
	case r.Delete != nil:
		kind = r.Delete.Object.Kind
	}
	return kind == "Endpoints" || kind == "EndpointSlice"
}

// String is the key of an object, and what of it a reader wants to know: the type and address of a Service, the
// addresses of endpoints.
func (o *object) String() string {
	text := o.key().String()
	switch o.GetKind() {
	case "Service":
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		return fmt.Sprintf("%s: %v %v", text, spec["type"], spec["clusterIP"])
	case "Endpoints", "EndpointSlice":
		return fmt.Sprintf("%s: %s", text, strings.Join(addressesOf(o.Object), ", "))
	}
	return text
}

// addressesOf returns the ready addresses of Endpoints, and all of an EndpointSlice.
func addressesOf(object map[string]any) (all []string) {
	subsets, _, _ := unstructured.NestedSlice(object, "subsets")
	for _, subset := range subsets {
		addresses, _, _ := unstructured.NestedSlice(subset.(map[string]any), "addresses")
		for _, address := range addresses {
			ip, _, _ := unstructured.NestedString(address.(map[string]any), "ip")
			all = append(all, ip)
		}
	}
	endpoints, _, _ := unstructured.NestedSlice(object, "endpoints")
	for _, endpoint := range endpoints {
		addresses, _, _ := unstructured.NestedStringSlice(endpoint.(map[string]any), "addresses")
		all = append(all, addresses...)
	}
	return all
}

// answer is how a request ended: a word, or something with one field.
type answer any

const (
	done          = "done"
	notFound      = "notFound"
	alreadyExists = "alreadyExists"
	conflict      = "conflict"
	skipped       = "skipped"
)

type found struct {
	Object object `json:"object"`
}

type leases struct {
	Leases []storedLease `json:"leases"`
}

type storedLease struct {
	Key         string `json:"key"`
	Value       []byte `json:"value"`
	ModRevision int64  `json:"modRevision"`
	LeaseID     int64  `json:"leaseId"`
}

type written struct {
	Written struct {
		ModRevision int64 `json:"modRevision"`
	} `json:"written"`
}

func writtenAt(revision int64) (w written) {
	w.Written.ModRevision = revision
	return w
}

type failed struct {
	Failed failure `json:"failed"`
}

type failure struct {
	Reason  reason `json:"reason"`
	Message string `json:"message"`
}

func fails(why reason, err error) failed { return failed{failure{why, err.Error()}} }

type reason string

const (
	unanswered  reason = "unanswered"
	unavailable reason = "unavailable"
	refused     reason = "refused"
	notReady    reason = "notReady"
	repairFails reason = "repair"
	badAnswer   reason = "badAnswer"
)

// write describes the write of a request; empty if it has none, or only those of a repair.
func (r request) write() string {
	switch {
	case r.Create != nil:
		return "create " + r.Create.String()
	case r.Update != nil:
		return "update " + r.Update.String()
	case r.Delete != nil:
		return "delete " + r.Delete.Object.String()
	case r.FreeServiceIP != nil:
		return "free " + r.FreeServiceIP.Address
	case r.PutLease != nil:
		return "put lease " + r.PutLease.Key
	case r.DeleteLease != nil:
		return "delete lease " + r.DeleteLease.Key
	default:
		return ""
	}
}
