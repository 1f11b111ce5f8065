package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// served is a tenant with a stock kube-apiserver, which goes on while etcd is restored.
type served struct {
	*cluster
	t    *testing.T
	etcd *etcdtest.Cluster
	api  *kubernetes.Clientset
	// red is the tenant. Its passes wait for listing with their lists.
	red     Tenant
	listing sync.Mutex
	passed  *passes
}

func serve(t *testing.T) *served {
	etcd := etcdtest.StartCluster(t, 1)
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), Flags: []string{"--etcd-compaction-interval=0"},
	})
	server.Initialise()
	s := &served{
		cluster: &cluster{client: etcd.Client()}, t: t, etcd: etcd, passed: newPasses(),
		api: must(kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin))),
	}
	list := clusterstate.StoredServices(s.client, "", s.api.CoreV1().Services)
	s.red = Tenant{
		Name: "red",
		Ranges: []etcdstore.Config{{
			Client: s.client, Key: s.key("red", "servicenodeports"), Range: must(rangekeeper.ParsePortRange("30000-30063")),
			Strategy: rangekeeper.DynamicBandFirst, Grace: interval, Replace: rangekeeper.ReplaceAlways,
		}},
		Services: func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
			s.listing.Lock()
			defer s.listing.Unlock()
			return list(ctx, at)
		},
	}
	return s
}

// start starts a fleet with the tenant, and returns once it has had a pass.
func (s *served) start() {
	f := start(s.t, Config{Interval: interval, Timeout: time.Minute, Passed: func(pass Pass) {
		if pass.Err == nil {
			s.passed.add(pass)
		}
	}})
	if err := f.Add(s.red); err != nil {
		s.t.Fatal(err)
	}
	s.passed.await(s.t, 1, "red")
}

// await waits for so many passes that do not fail.
func (s *served) await(n int) {
	s.t.Helper()
	s.passed.mu.Lock()
	before := s.passed.counts["red"]
	s.passed.mu.Unlock()
	s.passed.await(s.t, before+n, "red")
}

func (s *served) recorded() []string {
	return s.stored(s.t, "red", "servicenodeports", s.red.Ranges[0].Range)
}

// create creates a Service with a node port, as soon as the server can.
func (s *served) create(name string, port int32) *corev1.Service {
	s.t.Helper()
	for {
		service, err := s.api.CoreV1().Services("default").Create(s.t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
		}, metav1.CreateOptions{})
		if err == nil {
			return service
		}
		if apierrors.IsAlreadyExists(err) { // by a request without an answer
			return must(s.api.CoreV1().Services("default").Get(s.t.Context(), name, metav1.GetOptions{}))
		}
		if s.t.Context().Err() != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *served) remove(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := s.api.CoreV1().Services("default").Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *served) revision() int64 { return etcdtest.Revision(s.t, s.client) }

// restore puts a copy of etcd's data back, and lets other writers reach a revision.
func (s *served) restore(backup string, revision int64) {
	s.t.Helper()
	s.etcd.PutBack(0, backup)
	etcdtest.Fill(s.t, s.client, revision)
}

// cached has the node ports of the Services that the server lists.
func (s *served) cached() (ports []string) {
	s.t.Helper()
	for _, service := range must(s.api.CoreV1().Services("default").List(s.t.Context(), metav1.ListOptions{})).Items {
		ports = append(ports, fmt.Sprint(service.Spec.Ports[0].NodePort))
	}
	slices.Sort(ports)
	return ports
}

// TestRestore restores a backup that has Services which were deleted since: etcd has them again, and all lists of the
// server lack them, at whatever revision. Their ports stay recorded, and are recorded in a range that is missing.
func TestRestore(t *testing.T) {
	for _, what := range []string{"with the range", "without a range"} {
		t.Run(what, func(t *testing.T) {
			s := serve(t)
			var want []string
			for i := range int32(6) {
				s.create(fmt.Sprint("s", i), 30000+i)
				want = append(want, fmt.Sprint(30000+i))
			}
			var backup string
			if what == "without a range" {
				backup = s.etcd.CopyData(0)
			}
			s.start()
			if got := s.recorded(); !slices.Equal(got, want) {
				t.Fatalf("recorded before: %v", got)
			}
			if backup == "" {
				backup = s.etcd.CopyData(0)
			}
			func() {
				s.listing.Lock()
				defer s.listing.Unlock()
				s.remove("s3", "s4", "s5")
				s.restore(backup, s.revision()+20)
				if got := s.cached(); !slices.Equal(got, want[:3]) {
					t.Fatalf("the server lists %v after the restore: its watch cache is right", got)
				}
			}()
			s.await(6)
			if got := s.recorded(); !slices.Equal(got, want) {
				t.Errorf("recorded after the restore: %v, want %v", got, want)
			}
		})
	}
}

// TestSameRevision restores etcd, and creates the same Service again, at the same revision, with another node port. The
// server's watch cache has the lost one, and its list is right by all keys and mod revisions.
func TestSameRevision(t *testing.T) {
	s := serve(t)
	s.create("s0", 30000)
	s.start()
	backup := s.etcd.CopyData(0)
	s.listing.Lock() // no pass writes
	target := s.revision() + 300
	s.restore(backup, target)
	lost := s.create("web", 30020)
	s.listing.Unlock()
	s.await(2)
	for range 10 {
		isSame := func() bool {
			s.listing.Lock()
			defer s.listing.Unlock()
			s.restore(backup, target)
			web := s.create("web", 30021)
			if web.ResourceVersion != lost.ResourceVersion {
				return false // the server has written something else before
			}
			if got := s.cached(); !slices.Equal(got, []string{"30000", "30020"}) {
				t.Fatalf("the server lists %v after the restore: its watch cache is right", got)
			}
			return true
		}()
		if isSame {
			s.await(6)
			if got, want := s.recorded(), []string{"30000", "30021"}; !slices.Equal(got, want) {
				t.Errorf("recorded after the restore: %v, want %v", got, want)
			}
			return
		}
	}
	t.Fatal("the restored etcd has never had the Service at the same revision")
}
