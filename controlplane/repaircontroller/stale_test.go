package repaircontroller_test

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestStaleList lets the list of Services be older than the range that was read before:
// the address of a Service that it lacks would be counted as leaked, and freed in the end.
func TestStaleList(t *testing.T) {
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.V1_32, Etcd: etcd.Endpoints()})
	client := must(kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin)))
	server.Initialise()
	stored := openRange(t, etcd, "serviceips", must(rangekeeper.ParseCIDR(apiservertest.DefaultServiceClusterIPRange)))
	list := clusterstate.StoredServices(etcd.Client(), "", client.CoreV1().Services)
	var old int64 // a revision at which Services are listed
	services := repaircontroller.ListStored(func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
		return list(ctx, cmp.Or(old, at))
	})
	metrics := repaircontroller.NewMetrics()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	repairer := must(repaircontroller.New(repaircontroller.Config{
		Controller: repaircontroller.ClusterIPs, Ranges: []repair.Range{stored}, Services: services,
		Recorder: events.NewFakeRecorder(10), Metrics: metrics, Passes: 1,
	}))
	defer repairer.Close()

	before := must(client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}))
	namespaced := client.CoreV1().Services(metav1.NamespaceDefault)
	created := must(namespaced.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))
	recorded := func() bool {
		all := map[string]bool{}
		holds(t, stored, all)
		return all[created.Spec.ClusterIP]
	}
	old = must(strconv.ParseInt(before.ResourceVersion, 10, 64))
	result, err := repairer.Pass(t.Context())
	if !errors.Is(err, rangekeeper.ErrStaleList) {
		t.Errorf("%+v, %v", result, err)
	}
	if !recorded() {
		t.Errorf("%s is not recorded any more", created.Spec.ClusterIP)
	}
	failed := 0.0
	for _, family := range must(registry.Gather()) {
		if family.GetName() == "apiserver_clusterip_repair_reconcile_errors_total" {
			failed = family.Metric[0].Counter.GetValue()
		}
	}
	if failed != 1 {
		t.Errorf("%v failures in the metrics", failed)
	}

	old = 0
	result, err = repairer.Pass(t.Context())
	if err != nil || result.Services != 1 || result.Ranges[0].Cleared != 0 || !recorded() {
		t.Errorf("with a list of now: %+v, %v", result, err)
	}
}
