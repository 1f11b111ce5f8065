package cli

import (
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestReleaseBesideServers releases a port and, where there is a bitmap of ClusterIPs, an address of a Service that a
// stock kube-apiserver of the oldest and of the newest release has created.
func TestReleaseBesideServers(t *testing.T) {
	versions := apiservertest.Versions()
	for _, version := range []apiservertest.Version{versions[len(versions)-1], versions[0]} {
		t.Run(string(version), func(t *testing.T) {
			e := etcdtest.Start(t, "")
			server := apiservertest.Start(t, apiservertest.Config{Version: version, Etcd: e.Endpoints(), ServiceClusterIPRange: "10.0.0.0/24", OwnLoops: true})
			api := clientOf(t, server)
			var service *corev1.Service
			eventually(t, func() (err error) { // a server that has just started cannot allocate yet
				service, err = api.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: "web"},
					Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
				}, metav1.CreateOptions{})
				return err
			})
			port := strconv.Itoa(int(service.Spec.Ports[0].NodePort))
			etcd := []string{"--endpoints", e.Endpoints()[0]}
			runFails(t, exitFound, []string{port + " is used by default/web"}, append([]string{"release", "servicenodeports", port}, etcd...)...)
			if got := ports(t, e); !slices.Equal(got, []string{port}) {
				t.Errorf("%q", got)
			}
			words, code := []string{service.Spec.ClusterIP + " is used by default/web"}, exitFound
			if version != apiservertest.V1_32 {
				words, code = []string{"no bitmap of ClusterIPs", "rangekeeper show kubernetes"}, exitInput
			}
			runFails(t, code, words, append([]string{"release", "serviceips", service.Spec.ClusterIP}, etcd...)...)
			leaked := runOK(t, append([]string{"allocate", "servicenodeports"}, etcd...)...)
			if got := runOK(t, append([]string{"release", "servicenodeports", leaked[0]}, etcd...)...); !slices.Equal(got, []string{"servicenodeports " + leaked[0] + " released"}) {
				t.Errorf("%q", got)
			}
		})
	}
}
