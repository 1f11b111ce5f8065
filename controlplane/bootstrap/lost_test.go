package bootstrap_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

const kubernetesKey = "/registry/services/specs/default/kubernetes"

// lostPeriods leave all of the work to the turns of the Service: repair passes are ten minutes apart.
var lostPeriods = bootstrap.Periods{Endpoints: 10 * time.Second, LeaseTTL: 15 * time.Second, Namespaces: time.Minute, Repairs: 10 * time.Minute}

// TestLostService deletes the Service kubernetes in etcd, where its address stays recorded, as after a partial restore.
func TestLostService(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		t.Parallel()
		const own = "192.0.2.11"
		startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: own, Periods: lostPeriods})
		eventually(t, kubernetesObjects(t, client, own))
		must(etcd.Client().Delete(t.Context(), kubernetesKey))
		lost := time.Now()
		eventually(t, kubernetesObjects(t, client, own))
		t.Logf("back after %v", time.Since(lost))
		state := must(clusterstate.ReadEtcd(t.Context(), etcd.Client(), clusterstate.Options{}))
		report := must(audit.New(state, audit.Options{Now: time.Now()})).Report()
		if len(report.Findings)+len(report.Leaks) > 0 || report.Summary.Services != 1 {
			t.Errorf("%+v %+v", report.Findings, report.Leaks)
		}
	})
}

// TestLostServiceWithHeir has another Service with the address by the time: that keeps it.
func TestLostServiceWithHeir(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		t.Parallel()
		const own = "192.0.2.11"
		h := startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: own, Periods: lostPeriods})
		eventually(t, kubernetesObjects(t, client, own))
		stored := must(etcd.Client().Get(t.Context(), kubernetesKey)).Kvs[0].Value
		// Names of the same length, as lengths stand before them.
		heir := strings.Replace(string(stored), "\n\nkubernetes", "\n\nsuccessors", 1)
		must(etcd.Client().Put(t.Context(), "/registry/services/specs/default/successors", heir))
		must(etcd.Client().Delete(t.Context(), kubernetesKey))
		eventually(t, func() error {
			if h.said("default/successors uses 10.96.0.1") == 0 {
				return errors.New("the heir is not named")
			}
			return nil
		})
		state := must(clusterstate.ReadEtcd(t.Context(), etcd.Client(), clusterstate.Options{}))
		if report := must(audit.New(state, audit.Options{Now: time.Now()})).Report(); report.Summary.Services != 1 || report.Ranges[0].Used.N != 1 {
			t.Errorf("%+v", report.Ranges)
		}
	})
}
