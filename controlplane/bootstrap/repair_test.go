package bootstrap_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

const (
	endpointsKey = "/registry/services/endpoints/default/kubernetes"
	sliceKey     = "/registry/endpointslices/default/kubernetes"
)

// quickPeriods are for tests of many rounds. A lease outlives many that fail: on a machine that does much else requests
// may take longer than a round, which ends them.
var quickPeriods = bootstrap.Periods{Endpoints: time.Second, LeaseTTL: time.Minute, Namespaces: time.Second, Repairs: time.Minute}

// damage is what somebody does by hand to one of the two objects.
type damage struct {
	what      string
	endpoints func(*corev1.Endpoints)
	slice     func(*discoveryv1.EndpointSlice)
	// inEtcd is for what the API server would refuse.
	inEtcd bool
}

// damages are done to objects with two addresses.
func damages() []damage {
	port := func(p int32) *int32 { return &p }
	name := func(s string) *string { return &s }
	return []damage{
		{what: "an address more", endpoints: func(e *corev1.Endpoints) {
			e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, corev1.EndpointAddress{IP: "192.0.2.99"})
		}},
		{what: "an address less", endpoints: func(e *corev1.Endpoints) { e.Subsets[0].Addresses = e.Subsets[0].Addresses[:1] }},
		{what: "other addresses", endpoints: func(e *corev1.Endpoints) {
			e.Subsets[0].Addresses = []corev1.EndpointAddress{{IP: "192.0.2.98"}, {IP: "192.0.2.99"}}
		}},
		{what: "an address of the other family", endpoints: func(e *corev1.Endpoints) {
			e.Subsets[0].Addresses[1].IP = "2001:db8::1"
		}},
		{what: "an address that is not ready", endpoints: func(e *corev1.Endpoints) {
			subset := &e.Subsets[0]
			subset.Addresses, subset.NotReadyAddresses = subset.Addresses[:1], subset.Addresses[1:]
		}},
		{what: "no address", endpoints: func(e *corev1.Endpoints) { e.Subsets = nil }},
		{what: "two subsets", endpoints: func(e *corev1.Endpoints) {
			second := *e.Subsets[0].DeepCopy()
			second.Ports[0].Port = 7443
			e.Subsets = append(e.Subsets, second)
		}},
		{what: "another port", endpoints: func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 7443 }},
		{what: "another name of the port", endpoints: func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Name = "web" }},
		{what: "another protocol", endpoints: func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Protocol = corev1.ProtocolUDP }},
		{what: "a port more", endpoints: func(e *corev1.Endpoints) {
			e.Subsets[0].Ports = append(e.Subsets[0].Ports, corev1.EndpointPort{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP})
		}},
		{what: "the label gone", endpoints: func(e *corev1.Endpoints) { delete(e.Labels, "endpointslice.kubernetes.io/skip-mirror") }},
		{what: "the label wrong", endpoints: func(e *corev1.Endpoints) { e.Labels["endpointslice.kubernetes.io/skip-mirror"] = "false" }},
		{what: "an impossible port", inEtcd: true, endpoints: func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 0 }},
		{what: "an impossible address", inEtcd: true, endpoints: func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP = "nonsense" }},

		{what: "an endpoint more", slice: func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"192.0.2.99"}})
		}},
		{what: "an endpoint less", slice: func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[1:] }},
		{what: "no endpoint", slice: func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil }},
		{what: "another address", slice: func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"192.0.2.99"} }},
		{what: "two addresses in an endpoint", slice: func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Addresses = append(s.Endpoints[0].Addresses, "192.0.2.99")
		}},
		{what: "an endpoint that is not ready", slice: func(s *discoveryv1.EndpointSlice) {
			ready := false
			s.Endpoints[0].Conditions.Ready = &ready
		}},
		{what: "another port", slice: func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = port(7443) }},
		{what: "another name of the port", slice: func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = name("web") }},
		{what: "no port", slice: func(s *discoveryv1.EndpointSlice) { s.Ports = nil }},
		{what: "the label gone", slice: func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) }},
		{what: "the label of another Service", slice: func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "web" }},
		{what: "another family", inEtcd: true, slice: func(s *discoveryv1.EndpointSlice) {
			s.AddressType = discoveryv1.AddressTypeIPv6
			s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"2001:db8::1"}}}
		}},
		{what: "the type FQDN", inEtcd: true, slice: func(s *discoveryv1.EndpointSlice) {
			s.AddressType = discoveryv1.AddressTypeFQDN
			s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"example.com"}}}
		}},
	}
}

// TestMend damages Endpoints and EndpointSlice by hand in many ways, one after the other:
// each time all is right again, and what others have added is still there.
func TestMend(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		t.Parallel()
		ctx := t.Context()
		var hosts []*host
		addresses := []string{"192.0.2.11", "192.0.2.12"}
		var right func() error
		for i, address := range addresses { // one after the other: of two that create the Service one would complain
			hosts = append(hosts, startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{
				AdvertiseAddress: address, Reconcile: true, Periods: quickPeriods,
			}))
			right = kubernetesObjects(t, client, addresses[:i+1]...)
			eventually(t, right)
		}
		const mark, text = "example.com/foreign", "kept"
		// repaired waits for a write after this revision that has made all right.
		repaired := func(what, key string, revision int64) {
			t.Helper()
			var err error
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				got := must(etcd.Client().Get(ctx, key)).Kvs
				if err = right(); err == nil && (len(got) == 0 || got[0].ModRevision <= revision) {
					err = fmt.Errorf("%s was not written", key)
				}
				if err == nil {
					return
				}
			}
			t.Fatalf("%s: %v", what, err)
		}
		marked := func(what string, object metav1.Object, err error) {
			t.Helper()
			if err != nil || object.GetLabels()[mark] != text || object.GetAnnotations()[mark] != text {
				t.Errorf("%s: labels %v and annotations %v are left, %v", what, object.GetLabels(), object.GetAnnotations(), err)
			}
		}
		addMark := func(object *metav1.ObjectMeta) {
			if object.Annotations == nil {
				object.Annotations = map[string]string{}
			}
			object.Labels[mark], object.Annotations[mark] = text, text
		}
		all := damages()
		for _, d := range all {
			var revision int64
			what, key := "Endpoints with "+d.what, endpointsKey
			var object any
			if d.endpoints != nil {
				e := must(client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
				addMark(&e.ObjectMeta)
				d.endpoints(e)
				e.TypeMeta, object = metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, e
				if !d.inEtcd {
					revision = revisionOf(must(client.CoreV1().Endpoints("default").Update(ctx, e, metav1.UpdateOptions{})))
				}
			} else {
				s := must(client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
				addMark(&s.ObjectMeta)
				d.slice(s)
				s.TypeMeta, object = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, s
				what, key = "EndpointSlice with "+d.what, sliceKey
				if !d.inEtcd {
					revision = revisionOf(must(client.DiscoveryV1().EndpointSlices("default").Update(ctx, s, metav1.UpdateOptions{})))
				}
			}
			if d.inEtcd {
				object.(metav1.Object).SetResourceVersion("")
				revision = must(etcd.Client().Put(ctx, key, string(must(json.Marshal(object))))).Header.Revision
			}
			repaired(what, key, revision)
			if d.endpoints != nil {
				e, err := client.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
				marked(what, e, err)
			} else {
				s, err := client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
				marked(what, s, err)
			}
		}
		for _, keys := range [][]string{{endpointsKey}, {sliceKey}, {endpointsKey, sliceKey}} {
			var deletes []clientv3.Op
			for _, key := range keys {
				deletes = append(deletes, clientv3.OpDelete(key))
			}
			revision := must(etcd.Client().Txn(ctx).Then(deletes...).Commit()).Header.Revision
			for _, key := range keys {
				repaired(fmt.Sprint(keys, " deleted"), key, revision)
			}
		}
		t.Logf("%d ways of damage", len(all)+3)
		if len(all) < 25 {
			t.Error("too few")
		}
		for _, h := range hosts {
			if n := h.complaints(); n > 0 {
				t.Errorf("%d complaints, though all could be repaired", n)
			}
		}
	})
}

func revisionOf(object metav1.Object) (revision int64) {
	must(fmt.Sscan(object.GetResourceVersion(), &revision))
	return revision
}
