package servicetest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestList lists more Services than fit into a page, one of them as a release before 1.20 wrote it, without clusterIPs.
func TestList(t *testing.T) {
	c := start(t, nil)
	const others = 1100
	write := func(name, spec string) {
		text := fmt.Sprintf(`{"kind":"Service","apiVersion":"v1","metadata":{"name":%q,"namespace":"default"},"spec":%s}`, name, spec)
		if _, err := c.etcd.Put(t.Context(), key(name), text); err != nil {
			t.Fatal(err)
		}
	}
	write("old", `{"clusterIP":"10.0.0.9"}`)
	for i := range others {
		write("s"+strconv.Itoa(i), `{"clusterIP":"None","clusterIPs":["None"]}`)
	}
	created := must(c.create(request(t), nodePort("new"), nil))
	services, revision, err := c.registry.ListServices(t.Context(), 0)
	if err != nil || len(services) != others+2 || revision < c.stored(t, key("new")) {
		t.Fatalf("%d Services at revision %d, %v", len(services), revision, err)
	}
	named := func(name string) *corev1.Service {
		return services[slices.IndexFunc(services, func(s *corev1.Service) bool { return s.Name == name })]
	}
	if old := named("old"); !slices.Equal(old.Spec.ClusterIPs, []string{"10.0.0.9"}) {
		t.Errorf("the ClusterIPs of the old Service are %v", old.Spec.ClusterIPs)
	}
	if found := named("new"); found.Spec.ClusterIP != created.Spec.ClusterIP || found.Spec.Ports[0].NodePort != created.Spec.Ports[0].NodePort {
		t.Errorf("%+v, want %+v", found.Spec, created.Spec)
	}
}
