package servicebatch

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestList reads Services of all forms back, in more than two chunks.
func TestList(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "web", CreationTimestamp: metav1.Unix(1e9, 0)}
	ports := []corev1.ServicePort{{Protocol: "TCP", NodePort: 30001}, {Protocol: "UDP"}, {Protocol: "other", NodePort: -1}, {Protocol: "SCTP", NodePort: 65535}}
	listed := []Port{{"TCP", 30001}, {"other", -1}, {"SCTP", 65535}}
	dual := []string{"10.0.0.1", "fd00::1"}
	forms := []struct {
		object corev1.Service
		want   Service
	}{
		{corev1.Service{}, Service{}},
		{corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: "NodePort", ClusterIP: dual[0], ClusterIPs: dual, Ports: ports, HealthCheckNodePort: 7}},
			Service{Namespace: "ns", Name: "web", Created: 1e9, ClusterIP: dual[0], ClusterIPs: dual, Ports: listed, HealthCheckNodePort: 7, Form: rangekeeper.ServiceForm{
				NodePort: true, OneAddress: true, TwoAddresses: true, LacksNodePort: true, HealthCheckNodePort: true,
			}}},
		{corev1.Service{Spec: corev1.ServiceSpec{
			Type: "LoadBalancer", ClusterIP: "10.0.0.2", ClusterIPs: []string{"other", "10.0.0.2"}, ExternalTrafficPolicy: "Local",
			IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack), AllocateLoadBalancerNodePorts: new(false),
		}}, Service{ClusterIP: "10.0.0.2", ClusterIPs: []string{"other", "10.0.0.2"}, Form: rangekeeper.ServiceForm{
			LoadBalancer: true, OneAddress: true, TwoAddresses: true, RequiresDualStack: true, WithoutNodePorts: true, Local: true,
		}}},
		{corev1.Service{Spec: corev1.ServiceSpec{Type: "ExternalName", ClusterIP: "None", ClusterIPs: []string{"None"}, AllocateLoadBalancerNodePorts: new(true)}},
			Service{ClusterIP: "None", ClusterIPs: []string{"None"}, Form: rangekeeper.ServiceForm{ExternalName: true, Headless: true}}},
	}
	var l List
	const count = 2*perChunk + 10
	for i := range count {
		fields := FieldsOf(&forms[i%len(forms)].object)
		fields.CreateRevision = int64(i)
		l.Add(fields.AppendTo(nil))
	}
	check := func(i int, got Service) {
		t.Helper()
		want := forms[i%len(forms)].want
		want.CreateRevision = int64(i)
		for _, s := range []*Service{&got, &want} { // an empty list may be nil
			s.ClusterIPs, s.Ports = append([]string{}, s.ClusterIPs...), append([]Port{}, s.Ports...)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%d: got %+v\nwant %+v", i, got, want)
		}
	}
	n := 0
	for i, s := range l.All() {
		check(i, *s)
		n++
	}
	if n != count || l.Len() != count {
		t.Errorf("%d of %d", n, l.Len())
	}
	for _, i := range []int{0, perChunk - 1, perChunk, count - 1} {
		check(i, l.At(i))
	}
	if l.Find("ns", "web") != 1 || l.Find("ns", "other") != -1 || !l.HasNamespace("ns") || l.HasNamespace("other") {
		t.Errorf("found at %d", l.Find("ns", "web"))
	}
	claims, err := l.ClaimsOf(perChunk + 1)
	var values []string
	for _, claim := range claims {
		values = append(values, fmt.Sprint(claim.Value))
	}
	if want := []string{"10.0.0.1", "fd00::1", "30001", "65535", "7"}; err != nil || !slices.Equal(values, want) {
		t.Errorf("%q, %v", values, err)
	}
}

// TestAddressList reads IPAddress objects of all forms back.
func TestAddressList(t *testing.T) {
	parent := networkingv1.ParentReference{Group: "g", Resource: "gateways", Namespace: "ns", Name: "a"}
	var l AddressList
	var want []rangekeeper.IPAddress
	for _, c := range []struct {
		managedBy, version string
		parent             *networkingv1.ParentReference
	}{
		{"ipallocator.k8s.io", "7", &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "web"}},
		{"other", "", &parent}, {"", "x", nil}, {"", "1", &networkingv1.ParentReference{}},
		{"", "1", &networkingv1.ParentReference{Group: "g", Resource: "services"}},
	} {
		o := networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1", ResourceVersion: c.version}, Spec: networkingv1.IPAddressSpec{ParentRef: c.parent}}
		one := rangekeeper.IPAddress{Name: o.Name, ManagedBy: c.managedBy, Created: time.Unix(time.Time{}.Unix(), 0), WithoutParent: c.parent == nil}
		if c.managedBy != "" {
			o.Labels = map[string]string{networkingv1.LabelManagedBy: c.managedBy}
			o.CreationTimestamp, one.Created = metav1.Unix(1e9, 0), time.Unix(1e9, 0)
		}
		fmt.Sscan(c.version, &one.Revision)
		if p := c.parent; p != nil {
			one.ParentGroup, one.ParentResource, one.ParentNamespace, one.ParentName = p.Group, p.Resource, p.Namespace, p.Name
		}
		l.Add(AddressFieldsOf(&o).AppendTo(nil))
		want = append(want, one)
	}
	got := slices.Collect(l.All())
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%d: got %+v\nwant %+v", i, got[i], want[i])
		}
	}
	if l.Len() != len(want) || len(got) != len(want) {
		t.Errorf("%d, %d", l.Len(), len(got))
	}
}
