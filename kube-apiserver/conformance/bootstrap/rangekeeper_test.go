package bootstrap

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	rk "github.com/rangekeeper/rangekeeper/go-bindings"
)

// rangekeeper is a server with Rangekeeper's core. It carries out its orders one by one, on its own clock.
type rangekeeper struct {
	t     *testing.T
	world *world
	core  *rk.Bootstrap
	now   time.Duration
	ready bool
	// rounds counts the syncs of the Service.
	rounds  int
	stopped bool
	reports []json.RawMessage
}

func newRangekeeper(t *testing.T, w *world, c config) server {
	given := map[string]any{
		"advertiseAddress": c.address, "serviceClusterIpRange": c.serviceRange, "kubernetesServiceNodePort": c.nodePort,
		"extraServicePorts": append([]corev1.ServicePort{}, c.servicePorts...), "extraEndpointPorts": append([]corev1.EndpointPort{}, c.endpointPorts...),
		"reconcile": c.reconcile, "extraNamespaces": append([]string{}, c.namespaces...), "etcdPrefix": w.prefix, "placement": "inside",
	}
	switch {
	case c.none:
		given["mode"] = "none"
	case c.count > 0:
		given["mode"] = map[string]int{"master-count": c.count}
	}
	text, err := json.Marshal(given)
	check(t, err)
	core, err := rk.NewBootstrap(text)
	check(t, err)
	r := &rangekeeper{t: t, world: w, core: core}
	t.Cleanup(func() {
		core.Close()
		if t.Failed() {
			t.Logf("%s reports %s", c.address, r.reports)
		}
	})
	return r
}

func (r *rangekeeper) start() { r.settle() }

func (r *rangekeeper) run() {
	r.ready = true
	for before := r.rounds; r.rounds == before; {
		r.now += r.settle()
	}
}

func (r *rangekeeper) stop() {
	check(r.t, r.core.Stop(r.now))
	for !r.stopped {
		r.now += r.settle()
	}
}

func (r *rangekeeper) kill() { r.core.Close() }

type action struct {
	Ready  *struct{}
	Repair string
	Get    *struct{ Object objectKey }
	Create map[string]json.RawMessage
	Update map[string]json.RawMessage
	Delete *struct {
		Object          objectKey
		UID             types.UID
		ResourceVersion string
	}
	GetLease    *struct{ Key string }
	ListLeases  *struct{ Prefix string }
	PutLease    *putLease
	DeleteLease *struct {
		Key         string
		ModRevision int64
	}
}

type objectKey struct{ Kind, Namespace, Name string }

type putLease struct {
	Key                     string
	Value                   []byte
	TTLSeconds, ModRevision int64
}

// settle carries out orders until there are no more, and returns the time until the next one is due.
func (r *rangekeeper) settle() time.Duration {
	for range 1000 {
		text, err := r.core.Poll(r.now, nil)
		check(r.t, err)
		var step struct {
			Send []struct {
				ID      uint64
				Request action
			}
			Reports []json.RawMessage
			WaitMs  int64
			Phase   json.RawMessage
		}
		check(r.t, json.Unmarshal(text, &step))
		r.reports = append(r.reports, step.Reports...)
		r.stopped = len(step.Phase) > 0 && step.Phase[0] == '{' // the only phase with fields
		if len(step.Send) == 0 {
			return time.Duration(step.WaitMs) * time.Millisecond
		}
		for _, order := range step.Send {
			answer, err := json.Marshal(r.perform(order.Request))
			check(r.t, err)
			check(r.t, r.core.Answered(r.now, order.ID, answer))
		}
	}
	r.t.Fatal("the orders do not end")
	return 0
}

func (r *rangekeeper) perform(request action) any {
	ctx := r.t.Context()
	switch {
	case request.Ready != nil:
		if !r.ready {
			return failure("notReady", "not yet")
		}
		return "done"
	case request.Repair != "":
		return "done"
	case request.Get != nil:
		key := request.Get.Object
		if key.Kind == "Service" {
			r.rounds++
		}
		object, err := r.world.get(key.Kind, key.Namespace, key.Name)
		if err != nil {
			return answer(err)
		}
		return map[string]any{"object": map[string]any{key.Kind: object}}
	case request.Create != nil:
		_, err := r.world.create(r.object(request.Create))
		return answer(err)
	case request.Update != nil:
		_, err := r.world.update(r.object(request.Update))
		return answer(err)
	case request.Delete != nil:
		d := request.Delete
		return answer(r.world.delete(d.Object.Kind, d.Object.Namespace, d.Object.Name, &metav1.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion}))
	case request.GetLease != nil:
		return r.leases(request.GetLease.Key)
	case request.ListLeases != nil:
		return r.leases(request.ListLeases.Prefix, clientv3.WithPrefix())
	case request.PutLease != nil:
		p := request.PutLease
		granted, err := r.world.etcd.Grant(ctx, p.TTLSeconds)
		check(r.t, err)
		put := clientv3.OpPut(p.Key, string(p.Value), clientv3.WithLease(granted.ID))
		got, err := r.world.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(p.Key), "=", p.ModRevision)).Then(put).Commit()
		check(r.t, err)
		if !got.Succeeded {
			return "conflict"
		}
		return map[string]any{"written": map[string]any{"modRevision": got.Header.Revision}}
	case request.DeleteLease != nil:
		d := request.DeleteLease
		got, err := r.world.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(d.Key), "=", d.ModRevision)).Then(clientv3.OpDelete(d.Key)).Commit()
		check(r.t, err)
		if !got.Succeeded {
			return "conflict"
		}
		return "done"
	default:
		r.t.Fatalf("unknown order %+v", request)
		return nil
	}
}

func (r *rangekeeper) leases(key string, options ...clientv3.OpOption) any {
	got, err := r.world.etcd.Get(r.t.Context(), key, options...)
	check(r.t, err)
	all := []any{}
	for _, kv := range got.Kvs {
		all = append(all, map[string]any{"key": string(kv.Key), "value": kv.Value, "modRevision": kv.ModRevision, "leaseId": kv.Lease})
	}
	return map[string]any{"leases": all}
}

// object decodes the object in the field of its kind.
func (r *rangekeeper) object(byKind map[string]json.RawMessage) runtime.Object {
	for kind, text := range byKind {
		object := map[string]runtime.Object{
			"Namespace": &corev1.Namespace{}, "Service": &corev1.Service{}, "Endpoints": &corev1.Endpoints{}, "EndpointSlice": &discoveryv1.EndpointSlice{},
		}[kind]
		check(r.t, json.Unmarshal(text, object))
		return object
	}
	return nil
}

// answer is the result of a request to the API server.
func answer(err error) any {
	switch {
	case err == nil:
		return "done"
	case apierrors.IsNotFound(err):
		return "notFound"
	case apierrors.IsAlreadyExists(err):
		return "alreadyExists"
	case apierrors.IsConflict(err):
		return "conflict"
	default:
		return failure("refused", fmt.Sprint(err))
	}
}

func failure(reason, message string) any {
	return map[string]any{"failed": map[string]string{"reason": reason, "message": message}}
}
