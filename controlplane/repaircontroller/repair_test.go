package repaircontroller_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const interval = 5 * time.Second

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// verdict is what the reference said of the damaged cluster.
type verdict struct {
	Events []struct{ Controller, Reason, Namespace, Name, Value string }
	Leaks  struct {
		ClusterIP, NodePort []string
	} `json:"leak_flagged"`
}

func readVerdict(t *testing.T) (v verdict) {
	t.Helper()
	text := must(os.ReadFile(etcdtest.Fixture(etcdtest.DualStack, "upstream-verdict.json")))
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// ranges are the stored ranges of the cluster.
type ranges struct {
	primary, secondary *etcdstore.Store
	ports              *etcdstore.Store
}

func openRange(t *testing.T, etcd *embedded.Etcd, name string, values rangekeeper.Range) *etcdstore.Store {
	t.Helper()
	store := must(etcdstore.Open(etcdstore.Config{
		Client: etcd.Client(), Key: "/registry/ranges/" + name, Range: values, Grace: 2 * interval,
	}))
	t.Cleanup(func() { store.Close(context.Background()) })
	return store
}

// holds returns what is recorded as allocated.
func holds(t *testing.T, store *etcdstore.Store, into map[string]bool) {
	t.Helper()
	allocator := must(rangekeeper.NewAllocator(store.Range(), rangekeeper.Contiguous, 1))
	defer allocator.Close()
	if err := allocator.Restore(store.Range().String(), must(store.Read(t.Context())).Snapshot); err != nil {
		t.Fatal(err)
	}
	for value := range allocator.All() {
		into[fmt.Sprint(value)] = true
	}
}

func (r *ranges) recorded(t *testing.T) map[string]bool {
	all := map[string]bool{}
	holds(t, r.primary, all)
	holds(t, r.secondary, all)
	holds(t, r.ports, all)
	return all
}

// TestDamagedCluster repairs a damaged cluster beside its API server, while 1,000
// Services are created and deleted: the same Events as of the reference, metrics to
// match, leaks gone with the third pass and not before, and nothing of the new
// Services lost.
func TestDamagedCluster(t *testing.T) {
	want := readVerdict(t)
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.V1_32, Etcd: etcd.Endpoints(), ServiceClusterIPRange: "10.96.0.0/12,fd00:10:96::/108",
	})
	client := must(kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin)))
	stored := &ranges{
		openRange(t, etcd, "serviceips", must(rangekeeper.ParseCIDR("10.96.0.0/12"))),
		openRange(t, etcd, "secondaryserviceips", must(rangekeeper.ParseCIDR("fd00:10:96::/108"))),
		openRange(t, etcd, "servicenodeports", must(rangekeeper.ParsePortRange("30000-32767"))),
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer broadcaster.Shutdown()
	metrics := repaircontroller.NewMetrics()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	repairer := func(c repaircontroller.Controller, names []repaircontroller.RangeName, ranges ...repair.Range) *repaircontroller.Repairer {
		return must(repaircontroller.New(repaircontroller.Config{
			Controller: c, Ranges: ranges, Names: names, Services: repaircontroller.ListStored(clusterstate.StoredServices(etcd.Client(), "", client.CoreV1().Services)),
			Recorder: broadcaster.NewRecorder(scheme.Scheme, c.Name), Metrics: metrics, Interval: interval,
		}))
	}
	repairers := []*repaircontroller.Repairer{
		repairer(repaircontroller.ClusterIPs, []repaircontroller.RangeName{{Name: "serviceips"}, {Name: "secondaryserviceips"}}, stored.primary, stored.secondary),
		repairer(repaircontroller.NodePorts, []repaircontroller.RangeName{{Name: "servicenodeports"}}, stored.ports),
	}
	leaks := slices.Concat(want.Leaks.ClusterIP, want.Leaks.NodePort)
	if len(leaks) < 10 {
		t.Fatal("few leaks in the verdict")
	}

	// The churn goes on until the last pass is over.
	const least = 1000
	churning, stop := context.WithCancel(t.Context())
	var created, timeouts, begun, ended atomic.Int64 // requests of the churn begin and end
	// On a busy machine etcd may not answer a server in time. Whether the request took effect does not matter here.
	timedOut := func(err error) bool { return apierrors.IsInternalError(err) && timeouts.Add(1) < 20 }
	var group errgroup.Group
	churn := func() {
		for worker := range 4 {
			group.Go(func() error {
				for i := 0; churning.Err() == nil || created.Load() < least; i++ {
					name := fmt.Sprintf("churn-%d-%d", worker, i)
					begun.Add(1)
					s, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
						ObjectMeta: metav1.ObjectMeta{Name: name},
						Spec: corev1.ServiceSpec{
							Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack),
							Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}},
						},
					}, metav1.CreateOptions{})
					ended.Add(1)
					if timedOut(err) {
						continue
					}
					if err != nil {
						return fmt.Errorf("create: %w", err)
					}
					created.Add(1)
					if i%8 == 0 {
						continue // it stays
					}
					begun.Add(1)
					err = client.CoreV1().Services("default").Delete(t.Context(), s.Name, metav1.DeleteOptions{})
					ended.Add(1)
					if err != nil && !timedOut(err) {
						return fmt.Errorf("delete: %w", err)
					}
				}
				return nil
			})
		}
	}
	var underWay int64 // how many requests were, at some time of the last passes
	for n := 1; n <= 3; n++ {
		before := ended.Load()
		for _, r := range repairers {
			result := must(r.Pass(t.Context()))
			t.Logf("pass %d: %d Services, %d findings, %+v", n, result.Services, len(result.Findings), result.Ranges)
		}
		underWay = begun.Load() - before + timeouts.Load()
		recorded := stored.recorded(t)
		for _, leak := range leaks {
			if recorded[leak] != (n < 3) {
				t.Errorf("pass %d: %s recorded: %v", n, leak, recorded[leak])
			}
		}
		if n == 1 {
			churn() // before, a new Service could be given a port that is in use and not recorded
		}
		if n < 3 {
			time.Sleep(interval)
		}
	}
	stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d Services created meanwhile", created.Load())

	// Each Service that is there has what it claims.
	recorded := stored.recorded(t)
	services := must(client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}))
	left := 0
	for _, s := range services.Items {
		if !strings.HasPrefix(s.Name, "churn-") {
			continue
		}
		left++
		values := slices.Clone(s.Spec.ClusterIPs)
		for _, port := range s.Spec.Ports {
			values = append(values, fmt.Sprint(port.NodePort))
		}
		for _, value := range values {
			if !recorded[value] {
				t.Errorf("%s has %s, which is not recorded", s.Name, value)
			}
		}
	}
	if left < least/10 {
		t.Errorf("%d Services are left", left)
	}

	// One Event is kept for each reason and object.
	subject := func(controller, reason, namespace, name string) string {
		return fmt.Sprintf("%s %s %s/%s", controller, reason, namespace, name)
	}
	expected := map[string]bool{}
	duplicates := 0
	for _, e := range want.Events {
		if strings.HasSuffix(e.Reason, "AlreadyAllocated") {
			duplicates++ // which of the two is named depends on the order of the list
			continue
		}
		expected[subject(e.Controller, e.Reason, e.Namespace, e.Name)] = true
	}
	var got map[string]bool
	gotDuplicates := 0
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		got, gotDuplicates = map[string]bool{}, 0
		for _, e := range must(client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})).Items {
			switch {
			case !strings.HasSuffix(e.ReportingController, "-repair-controller"):
			case strings.HasSuffix(e.Reason, "AlreadyAllocated"):
				gotDuplicates++
			default:
				got[subject(e.ReportingController, e.Reason, e.Regarding.Namespace, e.Regarding.Name)] = true
			}
		}
		if maps.Equal(got, expected) && gotDuplicates == duplicates {
			break
		}
	}
	if !maps.Equal(got, expected) || gotDuplicates != duplicates {
		for key := range expected {
			if !got[key] {
				t.Errorf("no Event %s", key)
			}
		}
		for key := range got {
			if !expected[key] {
				t.Errorf("Event %s is not in the verdict", key)
			}
		}
		t.Errorf("%d Events of duplicates, want %d", gotDuplicates, duplicates)
	}
	t.Logf("%d Events of %d", len(got)+gotDuplicates, len(want.Events))

	// What was recorded and cleaned counts once, what cannot be repaired in each pass. A
	// Service that claims two wrong values counts twice, and has one Event.
	counted := map[string]int{}
	for _, family := range must(registry.Gather()) {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if label.GetName() == "type" {
					counted[family.GetName()+" "+label.GetValue()] = int(metric.Counter.GetValue())
				}
			}
		}
	}
	t.Logf("%v", counted)
	// The gauges are those of the last pass: what is recorded is used or leaked, but for the values of Services that
	// were created or deleted meanwhile.
	t.Logf("%d creations and deletions while the last passes ran", underWay)
	gauges := map[string]float64{}
	for _, family := range must(registry.Gather()) {
		for _, metric := range family.Metric {
			if name := family.GetName(); metric.Gauge != nil {
				for _, label := range metric.Label {
					name = strings.TrimSpace(name + " " + label.GetValue())
				}
				gauges[name] = metric.Gauge.GetValue()
			}
		}
	}
	for name, size := range map[string]float64{"serviceips": 1<<20 - 2, "secondaryserviceips": 1<<16 - 1, "servicenodeports": 2768} {
		used := gauges["rangekeeper_range_used "+name]
		if gauges["rangekeeper_range_size "+name] != size || used == 0 ||
			math.Abs(used-gauges["rangekeeper_range_in_use "+name]-gauges["rangekeeper_leaks "+name]) > float64(underWay) ||
			gauges["rangekeeper_range_free "+name] != size-used || gauges["rangekeeper_leaks "+name] > float64(underWay) {
			t.Errorf("%s: %v", name, gauges)
		}
	}
	if gauges["rangekeeper_findings "+repaircontroller.NodePorts.Name+" servicenodeports PortAlreadyAllocated"] == 0 ||
		gauges["rangekeeper_repair_last_success_timestamp_seconds "+repaircontroller.NodePorts.Name] == 0 {
		t.Errorf("%v", gauges)
	}
	for _, of := range []struct {
		family     string
		controller repaircontroller.Controller
		ranges     []string
		leaks      int
	}{
		{"apiserver_clusterip_repair_ip_errors_total", repaircontroller.ClusterIPs, []string{"serviceips", "secondaryserviceips"}, len(want.Leaks.ClusterIP)},
		{"apiserver_nodeport_repair_port_errors_total", repaircontroller.NodePorts, []string{"servicenodeports"}, len(want.Leaks.NodePort)},
	} {
		repaired := 0
		for _, name := range of.ranges {
			repaired += newBits(t, "drift-"+name+".bin.gz", "repaired1-"+name+".bin.gz")
		}
		for kind, expected := range map[string]int{"repair": repaired, "leak": of.leaks} {
			if got := counted[of.family+" "+kind]; got != expected || got == 0 {
				t.Errorf("%s %s: %d, want %d", of.family, kind, got, expected)
			}
		}
		events := map[string]int{}
		for _, e := range want.Events {
			if e.Controller == of.controller.Name {
				events[e.Reason]++
			}
		}
		for kind, reason := range map[string]string{"duplicate": "AlreadyAllocated", "outOfRange": "OutOfRange"} {
			least := 0
			for full, n := range events {
				if strings.HasSuffix(full, reason) {
					least += 3 * n
				}
			}
			if got := counted[of.family+" "+kind]; got < least || got > 2*least || got%3 != 0 {
				t.Errorf("%s %s: %d, want %d, or up to twice that", of.family, kind, got, least)
			}
		}
	}
}

// newBits counts the bits that the second value has and the first has not: what the
// reference has set.
func newBits(t *testing.T, before, after string) (n int) {
	t.Helper()
	read := func(name string) []byte {
		file := must(os.Open(etcdtest.Fixture(etcdtest.DualStack, name)))
		defer file.Close()
		return must(io.ReadAll(must(gzip.NewReader(file))))
	}
	old := read(before)
	for i, b := range read(after) {
		n += bits.OnesCount8(b &^ old[i])
	}
	return n
}
