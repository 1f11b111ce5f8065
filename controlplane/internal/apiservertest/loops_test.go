package apiservertest_test

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The keys that the server's loops write in a fresh etcd.
const (
	defaultKey    = "/registry/namespaces/default"
	nodeLeaseKey  = "/registry/namespaces/kube-node-lease"
	systemKey     = "/registry/namespaces/kube-system"
	serviceKey    = "/registry/services/specs/default/kubernetes"
	endpointsKey  = "/registry/services/endpoints/default/kubernetes"
	sliceKey      = "/registry/endpointslices/default/kubernetes"
	nodePortsKey  = "/registry/ranges/servicenodeports"
	serviceIPsKey = "/registry/ranges/serviceips"
)

// loopHooks are the post-start hooks of the loops.
var loopHooks = []string{"start-system-namespaces-controller", "bootstrap-controller", "start-service-ip-repair-controllers"}

const (
	// loopPeriod is how often a server looks after the kubernetes Service.
	loopPeriod = 10 * time.Second
	// patience is for what takes a few seconds on a machine that has nothing else to do.
	patience = 2 * time.Minute
)

func exists(t *testing.T, etcd *embedded.Etcd, key string) bool {
	t.Helper()
	got, err := etcd.Client().Get(t.Context(), key, clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return got.Count > 0
}

// remove deletes a key behind the server's back.
func remove(t *testing.T, etcd *embedded.Etcd, key string) {
	t.Helper()
	got, err := etcd.Client().Delete(t.Context(), key)
	if err != nil || got.Deleted != 1 {
		t.Fatalf("delete %s: %v, %v", key, got, err)
	}
}

// hooks are the post-start hooks that a server says it has run.
func hooks(t *testing.T, s *apiservertest.Server) (names []string) {
	t.Helper()
	report, err := newClient(t, s.RESTConfig(apiservertest.Admin)).Discovery().RESTClient().
		Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(report)) {
		if name, ok := strings.CutPrefix(line, "[+]poststarthook/"); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	return names
}

// TestLoops leaves a server alone with a fresh etcd, and takes something away. With its
// loops everything is there after a while, once more as well; without them nothing is,
// although the server has had two periods.
func TestLoops(t *testing.T) {
	eachVersion(t, func(t *testing.T, v apiservertest.Version) {
		t.Parallel() // it mostly waits
		written := []string{defaultKey, nodeLeaseKey, serviceKey, endpointsKey, sliceKey, nodePortsKey}
		if v == apiservertest.V1_32 {
			written = append(written, serviceIPsKey)
		}
		t.Run("on", func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t, "")
			s := apiservertest.Start(t, apiservertest.Config{Version: v, Etcd: etcd.Endpoints(), OwnLoops: true})
			for _, name := range loopHooks {
				if !slices.Contains(hooks(t, s), name) {
					t.Errorf("no hook %s: it has another name", name)
				}
			}
			appear := func(key string) {
				t.Helper()
				for deadline := time.Now().Add(patience); !exists(t, etcd, key); time.Sleep(50 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%s does not appear", key)
					}
				}
			}
			for _, key := range written {
				appear(key)
			}
			remove(t, etcd, endpointsKey)
			appear(endpointsKey)
		})
		t.Run("off", func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t, "")
			s := apiservertest.Start(t, apiservertest.Config{Version: v, Etcd: etcd.Endpoints()})
			run := hooks(t, s)
			if len(run) == 0 {
				t.Error("no hook is known")
			}
			for _, name := range loopHooks {
				if slices.Contains(run, name) {
					t.Errorf("hook %s was run", name)
				}
			}
			remove(t, etcd, systemKey) // made together with the roles in it
			time.Sleep(2 * loopPeriod)
			for _, key := range append(written, systemKey) {
				if exists(t, etcd, key) {
					t.Errorf("%s is there", key)
				}
			}
		})
	})
}

// TestServices creates a Service at a server without loops, and finds its values in
// the stored ranges.
func TestServices(t *testing.T) {
	eachVersion(t, func(t *testing.T, v apiservertest.Version) {
		etcd := etcdtest.Start(t, "")
		s := apiservertest.Start(t, apiservertest.Config{
			Version: v, Etcd: etcd.Endpoints(), ServiceClusterIPRange: "10.20.0.0/20,fd00:20::/112", ServiceNodePortRange: "31000-31099",
		})
		s.Initialise()
		policy := corev1.IPFamilyPolicyRequireDualStack
		service, err := newClient(t, s.RESTConfig(apiservertest.Admin)).CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &policy, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(service.Spec.ClusterIPs) != 2 {
			t.Errorf("ClusterIPs %v", service.Spec.ClusterIPs)
		}
		ports, err := rangekeeper.ParsePortRange("31000-31099")
		if err != nil {
			t.Fatal(err)
		}
		onlyIn(t, etcd, "servicenodeports", ports, rangekeeper.PortValue(uint16(service.Spec.Ports[0].NodePort)))
		if v == apiservertest.V1_32 {
			for i, name := range []string{"serviceips", "secondaryserviceips"} {
				cidr := strings.Split("10.20.0.0/20,fd00:20::/112", ",")[i]
				values, err := rangekeeper.ParseCIDR(cidr)
				if err != nil {
					t.Fatal(err)
				}
				onlyIn(t, etcd, name, values, rangekeeper.AddrValue(netip.MustParseAddr(service.Spec.ClusterIPs[i])))
			}
		}
		if n := faults(t, etcd); n != 0 {
			t.Errorf("%d faults", n)
		}
		remove(t, etcd, "/registry/services/specs/default/web")
		if n := faults(t, etcd); n == 0 {
			t.Error("no fault without the Service")
		}
	})
}

// onlyIn compares a stored range with the one value that is to be in it.
func onlyIn(t *testing.T, etcd *embedded.Etcd, name string, values rangekeeper.Range, want rangekeeper.Value) {
	t.Helper()
	got, err := etcd.Client().Get(t.Context(), "/registry/ranges/"+name)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("%s: %v, %v", name, got, err)
	}
	stored, err := rangekeeper.DecodeRangeAllocation(got.Kvs[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	text, err := stored.Range()
	if err != nil {
		t.Fatal(err)
	}
	data, err := stored.Data(nil)
	if err != nil {
		t.Fatal(err)
	}
	allocator, err := rangekeeper.NewAllocator(values, rangekeeper.Contiguous, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := allocator.Restore(text, data); err != nil {
		t.Fatal(err)
	}
	if all := slices.Collect(allocator.All()); !slices.Equal(all, []rangekeeper.Value{want}) {
		t.Errorf("%s: %v, and %v was expected", name, all, want)
	}
}

// faults counts the findings and leaks of the ranges. What the loops keep is missing.
func faults(t *testing.T, etcd *embedded.Etcd) int {
	state, err := clusterstate.ReadEtcd(t.Context(), etcd.Client(), clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	audited, err := audit.New(state, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return len(audited.Report().Findings) + len(audited.Report().Leaks)
}

// TestRepair starts servers on a damaged cluster: one with its loops reports it, and
// without them it stays as it is.
func TestRepair(t *testing.T) {
	for _, fixture := range etcdtest.FixtureClusters {
		for _, ownLoops := range []bool{true, false} {
			name := fixture.Release + "/off"
			if ownLoops {
				name = fixture.Release + "/on"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel() // one waits for what is not to come
				etcd := etcdtest.Start(t, etcdtest.Fixture(fixture.Name, "drift.db.gz"))
				before := storedRanges(t, etcd)
				s := apiservertest.Start(t, apiservertest.Config{
					Version: apiservertest.Version(fixture.Release), Etcd: etcd.Endpoints(), ServiceClusterIPRange: fixture.ClusterIPRange, OwnLoops: ownLoops,
				})
				// The first repair ends before a server is ready; its Events are written a little later.
				ctx, cancel := context.WithTimeout(t.Context(), loopPeriod)
				if ownLoops {
					ctx, cancel = context.WithTimeout(t.Context(), patience)
				}
				defer cancel()
				client := newClient(t, s.RESTConfig(apiservertest.Admin))
				found := map[string]int{}
				for {
					events, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					clear(found)
					for _, e := range events.Items {
						if strings.HasSuffix(e.ReportingController, "-repair-controller") {
							found[e.ReportingController]++
						}
					}
					if len(found) == 2 || ctx.Err() != nil {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				t.Logf("Events: %v", found)
				changed := !maps.Equal(before, storedRanges(t, etcd))
				if ownLoops && (len(found) != 2 || !changed) {
					t.Errorf("the loops are on, but there are Events of %v only, or the ranges (changed: %t) are as before", found, changed)
				}
				if !ownLoops && (len(found) != 0 || changed) {
					t.Errorf("the loops are off, but there are Events of %v, or the ranges have changed: %t", found, changed)
				}
			})
		}
	}
}

// storedRanges are the values under all keys of ranges.
func storedRanges(t *testing.T, etcd *embedded.Etcd) map[string]string {
	t.Helper()
	got, err := etcd.Client().Get(t.Context(), "/registry/ranges/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) == 0 {
		t.Fatal(got, err)
	}
	values := map[string]string{}
	for _, kv := range got.Kvs {
		values[string(kv.Key)] = string(kv.Value)
	}
	return values
}
