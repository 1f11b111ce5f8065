package audit

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// ServerObject is what API servers keep in etcd, and a repair writes or deletes: a lease, with its address as its name,
// the Endpoints of the Service kubernetes, or an EndpointSlice of it.
type ServerObject struct {
	// Action is delete or write.
	Action    string `json:"action"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Key is its key, ModRevision the revision that the key must have, 0 if there must be none, and Value what is
	// written, nil for a deletion.
	Key         string `json:"-"`
	ModRevision int64  `json:"-"`
	Value       []byte `json:"-"`
}

// The actions of a repair.
const (
	ActionDelete = "delete"
	ActionWrite  = "write"
)

// LookAgain is after which time what stays of the servers' objects is repaired by another look; 0 if nothing stays.
func (a *Audit) LookAgain() time.Duration { return a.lookAgain }

// ServerObjects returns what a repair writes and deletes of the servers' objects, in this order. An object is
// created at the time now.
func (a *Audit) ServerObjects(now time.Time) (all []ServerObject, err error) {
	for _, r := range a.bootstrapRepairs {
		var o ServerObject
		switch {
		case r.DeleteLease != nil:
			o = ServerObject{Kind: KindMasterLease, Name: leaseName(r.DeleteLease.Key), Key: r.DeleteLease.Key, ModRevision: r.DeleteLease.ModRevision}
			if key, ok := a.leaseKeys[o.Key]; ok {
				o.Key = key
			}
		case r.Delete != nil:
			of := r.Delete.Object
			o = ServerObject{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, Key: a.state.EndpointSliceKey(of.Name)}
			o.ModRevision, err = strconv.ParseInt(r.Delete.ResourceVersion, 10, 64)
		case r.Update != nil:
			o, err = a.written(r.Update)
		case r.Create != nil:
			o, err = a.written(r.Create.createdAt(now))
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Kind, o.Name, err)
		}
		if o.Action = ActionWrite; o.Value == nil {
			o.Action = ActionDelete
		}
		all = append(all, o)
	}
	return all, nil
}

// createdAt returns a new object with what an API server gives it.
func (o *storedObject) createdAt(now time.Time) *storedObject {
	if o.Endpoints != nil { // which have no generation
		e := *o.Endpoints
		e.UID, e.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(now)
		return &storedObject{Endpoints: &e}
	}
	slice := *o.EndpointSlice
	slice.UID, slice.CreationTimestamp, slice.Generation, slice.ResourceVersion = uuid.NewUUID(), metav1.NewTime(now), 1, ""
	return &storedObject{EndpointSlice: &slice}
}

// written returns the write of an object, whose resource version is that of its key.
func (a *Audit) written(of *storedObject) (o ServerObject, err error) {
	var version string
	if of.Endpoints != nil {
		e := *of.Endpoints
		o = ServerObject{Kind: KindEndpoints, Namespace: e.Namespace, Name: e.Name, Key: a.state.EndpointsKey()}
		version, e.ResourceVersion = e.ResourceVersion, ""
		o.Value, err = clusterstate.EncodeEndpoints(&e)
	} else {
		s := *of.EndpointSlice
		o = ServerObject{Kind: KindEndpointSlice, Namespace: s.Namespace, Name: s.Name, Key: a.state.EndpointSliceKey(s.Name)}
		version, s.ResourceVersion = s.ResourceVersion, ""
		o.Value, err = clusterstate.EncodeEndpointSlice(&s)
	}
	if err == nil && version != "" {
		o.ModRevision, err = strconv.ParseInt(version, 10, 64)
	}
	return o, err
}

// ServersRepaired takes what a later look at the servers' objects has found, and what was written and deleted then.
func (p *Plan) ServersRepaired(later *Audit, done []ServerObject) {
	p.Findings = append(slices.DeleteFunc(p.Findings, func(f Finding) bool { return f.ofBootstrap }), later.ofBootstrap...)
	sortFindings(p.Findings)
	_, _, unknown := later.KubernetesService()
	p.Unknown = append(slices.DeleteFunc(slices.Clone(p.Unknown), Unknown.IsOfBootstrap), unknown...)
	p.ServerObjects = done
	p.summarize()
}
