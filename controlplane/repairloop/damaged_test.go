package repairloop

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// buildEtcd builds restored-etcd. It is a process of another module, which needs other versions of etcd's packages than
// those that a released kube-apiserver pins.
func buildEtcd(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "restored-etcd")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./internal/tools/restored-etcd")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0") // as the command is built
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	return program
}

// startEtcd runs an etcd that is restored from a snapshot.
func startEtcd(t *testing.T, program, snapshot string) *clientv3.Client {
	t.Helper()
	run := exec.Command(program, snapshot, "sh", "-c", `echo "$ETCDCTL_ENDPOINTS"; cat >/dev/null`)
	input, output := must(run.StdinPipe()), must(run.StdoutPipe())
	run.Stderr = os.Stderr
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		run.Wait()
	})
	endpoint := must(bufio.NewReader(output).ReadString('\n'))
	client := must(clientv3.New(clientv3.Config{Endpoints: []string{strings.TrimSpace(endpoint)}}))
	t.Cleanup(func() { client.Close() })
	return client
}

// listOf lists the Services in etcd.
func listOf(etcd *clientv3.Client) repaircontroller.ListStored {
	return func(ctx context.Context, at int64) (services []*corev1.Service, revision int64, err error) {
		answer, err := etcd.Get(ctx, "/registry/services/specs/", clientv3.WithPrefix(), clientv3.WithRev(at))
		if err != nil {
			return nil, 0, err
		}
		for _, kv := range answer.Kvs {
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(kv.Value, nil, nil)
			if err != nil {
				return nil, 0, err
			}
			services = append(services, object.(*corev1.Service))
		}
		return services, cmp.Or(at, answer.Header.Revision), nil
	}
}

// committed is a registry whose range is an etcdstore.
type committed struct {
	Registry // nil: no test calls it
	passes   repair.Range
	services repaircontroller.ListStored
}

func (c committed) RepairRange(string) (repair.Range, repaircontroller.ListStored) {
	return c.passes, c.services
}

const (
	// interval is the time between passes, and the time limit of each. On a machine that has nothing else to do a pass
	// takes a moment.
	interval = 5 * time.Second
	// patience bounds waiting for what comes within two intervals there.
	patience = 3 * time.Minute
)

func open(t *testing.T, etcd *clientv3.Client, name string, values rangekeeper.Range) *etcdstore.Store {
	store := must(etcdstore.Open(etcdstore.Config{
		Client: etcd, Key: "/registry/ranges/" + name, Range: values, Grace: 2 * interval,
	}))
	t.Cleanup(func() { store.Close(context.Background()) })
	return store
}

func addresses(t *testing.T, etcd *clientv3.Client, name, cidr string) Range {
	store := open(t, etcd, name, must(rangekeeper.ParseCIDR(cidr)))
	return RangeOf(committed{passes: store, services: listOf(etcd)}, cidr)
}

func ports(t *testing.T, etcd *clientv3.Client, name, all string) Range {
	store := open(t, etcd, name, must(rangekeeper.ParsePortRange(all)))
	return RangeOf(committed{passes: store, services: listOf(etcd)}, all)
}

// counters counts what a Loop counts.
type counters struct {
	mu     sync.Mutex
	found  map[string]int
	failed int
}

// count sets the counters of a Config.
func count(config Config) (Config, *counters) {
	c := &counters{found: map[string]int{}}
	config.Found = func(kind string, n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.found[kind] += n
	}
	config.Failed = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed++
	}
	return config, c
}

// of returns the number of findings of a type.
func (c *counters) of(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found[kind]
}

func (c *counters) failures() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// event identifies an Event of a verdict.
type event struct{ Controller, Reason, Namespace, Name, Value string }

// TestDamagedClusters repairs the damaged ranges of two real clusters. The Events, and the stored bytes after the first
// and the third pass, must be those that the clusters' API servers wrote.
func TestDamagedClusters(t *testing.T) {
	var compared atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d Events compared", compared.Load())
		if compared.Load() < 90 {
			t.Error("fewer than 90 Events were compared")
		}
	})
	program := buildEtcd(t)
	for _, cluster := range []struct {
		folder     string
		controller repaircontroller.Controller
		action     string   // in Events
		leaks      string   // the key of leaks in the verdict
		ranges     []string // the stored objects
		open       func(*clientv3.Client) []Range
	}{
		{"kube-1.32-dual-stack", repaircontroller.ClusterIPs, "ClusterIPAllocation", "clusterIP", []string{"serviceips", "secondaryserviceips"}, func(etcd *clientv3.Client) []Range {
			return []Range{addresses(t, etcd, "serviceips", "10.96.0.0/12"), addresses(t, etcd, "secondaryserviceips", "fd00:10:96::/108")}
		}},
		{"kube-1.32-dual-stack", repaircontroller.NodePorts, "PortAllocation", "nodePort", []string{"servicenodeports"}, func(etcd *clientv3.Client) []Range {
			return []Range{ports(t, etcd, "servicenodeports", "30000-32767")}
		}},
		{"kube-1.36-single-stack", repaircontroller.NodePorts, "PortAllocation", "nodePort", []string{"servicenodeports"}, func(etcd *clientv3.Client) []Range {
			return []Range{ports(t, etcd, "servicenodeports", "30000-32767")}
		}},
	} {
		t.Run(cluster.folder+"/"+cluster.controller.Name, func(t *testing.T) {
			t.Parallel() // they mostly wait for the next pass
			fixture := func(name string) string { return filepath.Join("../../testing/testdata", cluster.folder, name) }
			etcd := startEtcd(t, program, fixture("drift.db.gz"))
			clients := fake.NewSimpleClientset()
			config, counted := count(Config{
				Controller: cluster.controller, Ranges: cluster.open(etcd), Services: clients.CoreV1(), Events: clients.EventsV1(),
				Interval: interval, Passes: 3,
			})
			loop := New(config)
			// stored returns the stored values, and the number of writes.
			stored := func() (values map[string]string, writes int64) {
				values = map[string]string{}
				for _, name := range cluster.ranges {
					kv := must(etcd.Get(t.Context(), "/registry/ranges/"+name)).Kvs[0]
					values[name] = string(kv.Value)
					writes += kv.Version
				}
				return values, writes
			}
			expected := func(stage string) map[string]string {
				all := map[string]string{}
				for _, name := range cluster.ranges {
					file := must(os.Open(fixture(stage + "-" + name + ".bin.gz")))
					defer file.Close()
					all[name] = string(must(io.ReadAll(must(gzip.NewReader(file)))))
				}
				return all
			}
			damaged, writesBefore := stored()
			if !maps.Equal(damaged, expected("drift")) {
				t.Fatal("the ranges are not those of the damaged cluster")
			}

			stop, ended := make(chan struct{}), make(chan struct{})
			successes := make(chan map[string]string, 10)
			go func() {
				defer close(ended)
				loop.RunUntil(func() {
					values, _ := stored()
					successes <- values
				}, stop)
			}()
			end := sync.OnceFunc(func() {
				close(stop)
				<-ended
			})
			defer end()
			select {
			case first := <-successes:
				if !maps.Equal(first, expected("repaired1")) {
					t.Error("the stored bytes differ after the first pass")
				}
			case <-time.After(patience):
				t.Fatal("no pass has succeeded")
			}
			for late := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
				values, writes := stored()
				if maps.Equal(values, expected("repaired3")) {
					// Each range once in the first pass and once in the third.
					if writes -= writesBefore; writes != int64(2*len(cluster.ranges)) {
						t.Errorf("%d writes", writes)
					}
					break
				}
				if time.Now().After(late) {
					t.Fatal("the stored bytes differ, long after the third pass")
				}
			}

			var verdict struct {
				Events []event
				Leaks  map[string][]string `json:"leak_flagged"`
			}
			if err := json.Unmarshal(must(os.ReadFile(fixture("upstream-verdict.json"))), &verdict); err != nil {
				t.Fatal(err)
			}
			// The API server keeps one Event per reason and Service. If two values of a Service are wrong, the Event
			// names either of them: client-go sends each Event in its own goroutine.
			claims := map[string][]string{}
			services, _, err := listOf(etcd)(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range services {
				claimed := append([]string{fmt.Sprint(s.Spec.HealthCheckNodePort)}, s.Spec.ClusterIPs...)
				for _, port := range s.Spec.Ports {
					claimed = append(claimed, fmt.Sprint(port.NodePort))
				}
				claims[s.Namespace+"/"+s.Name] = claimed
			}
			want, values := map[event]bool{}, map[event]string{}
			for _, e := range verdict.Events {
				if e.Controller == cluster.controller.Name {
					value := e.Value
					e.Value = ""
					want[e], values[e] = true, value
				}
			}
			got, same := map[event]bool{}, 0
			for late := time.Now().Add(patience); time.Now().Before(late) && !maps.Equal(got, want); time.Sleep(100 * time.Millisecond) {
				clear(got)
				same = 0
				for _, e := range must(clients.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})).Items {
					one := event{e.ReportingController, e.Reason, e.Regarding.Namespace, e.Regarding.Name, ""}
					got[one] = true
					words := strings.Fields(strings.ReplaceAll(e.Note, "]:", "]: ")) // of a family, before an address
					names := func(value string) bool { return slices.Contains(words, value) }
					if names(values[one]) {
						same++
					} else if !slices.ContainsFunc(claims[one.Namespace+"/"+one.Name], names) {
						t.Fatalf("%v: the note %q has none of the Service's values", one, e.Note)
					}
					if e.Type != corev1.EventTypeWarning || e.Action != cluster.action {
						t.Fatalf("%v: %s Event with the action %q", one, e.Type, e.Action)
					}
				}
			}
			for e := range want {
				if !got[e] {
					t.Errorf("Event %v is missing", e)
				}
			}
			for e := range got {
				if !want[e] {
					t.Errorf("Event %v is not in the verdict", e)
				}
			}
			t.Logf("%d of %d Events name the value of the verdict", same, len(want))
			if same < len(want)/2 {
				t.Error("fewer than half of the Events name the value of the verdict")
			}
			compared.Add(int64(len(want)))

			end()
			if len(successes) > 0 {
				t.Error("onFirstSuccess was called more than once")
			}
			if leaks := len(verdict.Leaks[cluster.leaks]); counted.of("leak") != leaks || leaks == 0 {
				t.Errorf("%d leaks counted, want %d", counted.of("leak"), leaks)
			}
			if n := counted.failures(); n != 0 {
				t.Errorf("%d passes failed", n)
			}
		})
	}
}
