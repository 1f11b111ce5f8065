package bootstrap_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// TestTurnsByEvent has a controller whose regular turns are ten minutes apart. It recreates what is deleted, and
// removes the address of a server whose lease runs out, all the same.
func TestTurnsByEvent(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		t.Parallel()
		const a, b = "192.0.2.11", "192.0.2.12"
		// On a busy machine a shorter lease would end before the first turn, and the next one is in ten minutes.
		grant := must(etcd.Client().Grant(t.Context(), 15))
		living, kill := context.WithCancel(t.Context())
		must(etcd.Client().KeepAlive(living, grant.ID))
		const value = `{"kind":"Endpoints","apiVersion":"v1","metadata":{"generation":1},"subsets":[{"addresses":[{"ip":"` + b + `"}]}]}`
		must(etcd.Client().Put(t.Context(), leaseDirectory+b, value, clientv3.WithLease(grant.ID)))
		startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{
			AdvertiseAddress: a,
			Periods: bootstrap.Periods{
				Endpoints: 10 * time.Minute, LeaseTTL: 20 * time.Minute, Namespaces: 10 * time.Minute, Repairs: 10 * time.Minute,
			},
		})
		eventually(t, kubernetesObjects(t, client, a, b))
		kill()
		eventually(t, leases(t, etcd, a))
		expired := time.Now()
		eventually(t, kubernetesObjects(t, client, a))
		t.Logf("killed: gone %v after its lease", time.Since(expired))
		deletions := map[string]func(context.Context, string, metav1.DeleteOptions) error{
			"Endpoints": client.CoreV1().Endpoints("default").Delete, "the slice": client.DiscoveryV1().EndpointSlices("default").Delete,
			"the Service": client.CoreV1().Services("default").Delete,
		}
		for what, deletes := range deletions {
			if err := deletes(t.Context(), "kubernetes", metav1.DeleteOptions{}); err != nil {
				t.Fatal(what, err)
			}
			deleted := time.Now()
			eventually(t, kubernetesObjects(t, client, a))
			t.Logf("%s: back after %v", what, time.Since(deleted))
		}
	})
}
