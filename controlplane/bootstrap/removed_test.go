package bootstrap_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// TestRemovedInEtcd takes all namespaces and the Service kubernetes away behind the API server's back. Its address is
// still taken then, as a bit of a range or as an IPAddress object, and the API server refuses to create the Service
// until the controller has freed it.
func TestRemovedInEtcd(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		t.Parallel()
		ctx := t.Context()
		h := startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{
			AdvertiseAddress: "192.0.2.11",
			// The address is freed after three turns, and by passes of a repair only later. Each has its time on a
			// machine that does much else.
			Periods: bootstrap.Periods{Endpoints: 4 * time.Second, LeaseTTL: 30 * time.Second, Namespaces: time.Second, Repairs: 10 * time.Second},
		})
		namespaces := func() (err error) {
			for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
				_, missing := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
				err = errors.Join(err, missing)
			}
			return err
		}
		eventually(t, namespaces)
		eventually(t, kubernetesObjects(t, client, "192.0.2.11"))
		removed := must(etcd.Client().Txn(ctx).Then(
			clientv3.OpDelete("/registry/services/specs/default/kubernetes"),
			clientv3.OpDelete("/registry/namespaces/default"),
			clientv3.OpDelete("/registry/namespaces/kube-system"),
			clientv3.OpDelete("/registry/namespaces/kube-public"),
			clientv3.OpDelete("/registry/namespaces/kube-node-lease"),
		).Commit())
		for _, response := range removed.Responses {
			if n := response.GetResponseDeleteRange().Deleted; n != 1 {
				t.Errorf("%d keys of one", n)
			}
		}
		eventually(t, namespaces)
		// A server that has not read its IPAddresses yet refuses for that reason first, and the address may be
		// free before it would have named the address.
		eventually(t, func() error {
			if h.said("failed; retrying", "work=kubernetesService", "reason=refused") == 0 {
				return errors.New("the address was free")
			}
			return nil
		})
		// Meanwhile the endpoints are kept.
		if err := endpoints(t, client, "192.0.2.11")(); err != nil {
			t.Error(err)
		}
		eventually(t, kubernetesObjects(t, client, "192.0.2.11"))
		if h.said("its address counts as allocated: freeing it") == 0 {
			t.Error("nothing is said of the address")
		}
		eventually(t, func() error {
			if h.said("works again", "work=kubernetesService") == 0 {
				return errors.New("nothing is said of it")
			}
			return nil
		})
		// It is the Service's again.
		other := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "other"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if _, err := client.CoreV1().Services("default").Create(ctx, other, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("another Service with the address: %v", err)
		}
		if n := h.complaints(); n != 1 {
			t.Errorf("%d complaints", n)
		}
	})
}
