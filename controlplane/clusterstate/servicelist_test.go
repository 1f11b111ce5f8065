package clusterstate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, nil) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// encrypted returns the flag with which a server encrypts all it stores.
func encrypted(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	config := `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [{
		"resources": ["*.*"], "providers": [{"secretbox": {"keys": [{"name": "key1", "secret": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}}]}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--encryption-provider-config=" + file
}

// storage is an etcd with a kube-apiserver.
type storage struct {
	t      *testing.T
	etcd   *etcdtest.Cluster
	client *clientv3.Client
	api    *kubernetes.Clientset
}

func startStorage(t *testing.T, flags ...string) *storage {
	etcd := etcdtest.StartCluster(t, 1)
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), Flags: append(flags, "--etcd-compaction-interval=0"),
	})
	server.Initialise()
	return &storage{t, etcd, etcd.Client(), must(kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin)))}
}

// create creates a headless Service, which is one write, with this port.
func (s *storage) create(name string, port int32) *corev1.Service {
	s.t.Helper()
	service, err := s.api.CoreV1().Services("default").Create(s.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: port}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return service
}

func (s *storage) revision() int64 { return etcdtest.Revision(s.t, s.client) }

func (s *storage) fill(revision int64) { etcdtest.Fill(s.t, s.client, revision) }

// getter gets Services of a namespace, after a call of before.
type getter struct {
	clusterstate.ServiceGetter
	before func(name string)
}

func (g getter) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Service, error) {
	g.before(name)
	return g.ServiceGetter.Get(ctx, name, options)
}

// reader returns a list of the Services in etcd that calls before each GET.
func (s *storage) reader(before func(name string)) func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
	return clusterstate.StoredServices(s.client, "", func(namespace string) getter {
		return getter{s.api.CoreV1().Services(namespace), before}
	})
}

// summary has the name, the version and the port of each Service.
func summary(services []*corev1.Service) (all []string) {
	for _, service := range services {
		all = append(all, fmt.Sprintf("%s/%s %s: %d", service.Namespace, service.Name, service.ResourceVersion, service.Spec.Ports[0].Port))
	}
	slices.Sort(all)
	return all
}

// beside runs a test beside a server that stores Services as they are, and beside one that encrypts them.
func beside(t *testing.T, test func(t *testing.T, s *storage, isEncrypted bool)) {
	t.Run("plain", func(t *testing.T) { test(t, startStorage(t), false) })
	t.Run("encrypted", func(t *testing.T) { test(t, startStorage(t, encrypted(t)), true) })
}

// TestStoredServices lists more than one page of Services, at a revision and now, and gets over the API server those
// that are encrypted, each once.
func TestStoredServices(t *testing.T) {
	beside(t, func(t *testing.T, s *storage, isEncrypted bool) {
		const count = 520
		var right []*corev1.Service
		for i := range count {
			right = append(right, s.create(fmt.Sprint("s", i), int32(1+i)))
		}
		if _, err := s.client.Put(t.Context(), "/registry/services/endpoints/default/web", "no Service"); err != nil {
			t.Fatal(err)
		}
		var gets atomic.Int64
		list := s.reader(func(string) { gets.Add(1) })
		check := func(at int64, want []*corev1.Service, wantGets int64) {
			t.Helper()
			gets.Store(0)
			before := s.revision()
			services, revision, err := list(t.Context(), at)
			if err != nil || !slices.Equal(summary(services), summary(want)) {
				t.Errorf("at %d: %d Services, want %d: %v", at, len(services), len(want), err)
			}
			if at != 0 && revision != at || revision < at || at == 0 && revision < before {
				t.Errorf("at %d: revision %d", at, revision)
			}
			if n := gets.Load(); isEncrypted && n != wantGets || !isEncrypted && n != 0 {
				t.Errorf("at %d: %d GETs, want %d", at, n, wantGets)
			}
		}
		check(0, right, count)
		check(s.revision(), right, 0)
		old := s.revision()
		services := s.api.CoreV1().Services("default")
		changed := right[7].DeepCopy()
		changed.Spec.Ports[0].Port = 4242
		changed = must(services.Update(t.Context(), changed, metav1.UpdateOptions{}))
		if err := services.Delete(t.Context(), "s8", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		now := slices.Concat(right[:7], []*corev1.Service{changed}, right[9:])
		check(0, now, 1)
		if !isEncrypted {
			check(old, right, 0)
			return
		}
		// What is deleted is forgotten; the old versions cannot be got any more, and the new ones are right, too.
		check(old, now, 3)
	})
}

// TestSameRevision restores etcd under the server, and creates the same Service again, at the same revision, with
// another port. The watch cache has the lost one, and its list is right by all keys and mod revisions.
func TestSameRevision(t *testing.T) {
	beside(t, func(t *testing.T, s *storage, _ bool) {
		list := s.reader(func(string) {})
		s.create("first", 1)
		for i := range 10 {
			name := fmt.Sprint("web-", i)
			backup := s.etcd.CopyData(0)
			target := s.revision() + 300
			s.fill(target)
			lost := s.create(name, 80)
			isLost := func(service *corev1.Service) bool { return service.UID == lost.UID }
			services, _, err := list(t.Context(), 0)
			if err != nil || !slices.ContainsFunc(services, isLost) {
				t.Fatal(summary(services), err)
			}
			s.etcd.PutBack(0, backup)
			s.fill(target)
			web := s.recreate(name, 8080)
			if web == nil || web.ResourceVersion != lost.ResourceVersion {
				continue // the server has written something else before
			}
			cached := must(s.api.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}))
			if !slices.ContainsFunc(cached.Items, func(service corev1.Service) bool { return isLost(&service) }) {
				continue // the server has listed again, before etcd was as far again
			}
			for _, at := range []int64{0, must(strconv.ParseInt(web.ResourceVersion, 10, 64))} {
				services, _, err := list(t.Context(), at)
				if want := fmt.Sprintf("default/%s %s: 8080", name, web.ResourceVersion); err != nil || !slices.Contains(summary(services), want) {
					t.Errorf("at %d: %q, %v, want %s", at, summary(services), err, want)
				}
			}
			return
		}
		t.Fatal("the restored etcd has never had a Service at the revision of the one that the watch cache has")
	})
}

// recreate creates a Service once the server has its connection to etcd again; nil if another write came before.
func (s *storage) recreate(name string, port int32) *corev1.Service {
	s.t.Helper()
	for {
		service, err := s.api.CoreV1().Services("default").Create(s.t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: port}}},
		}, metav1.CreateOptions{})
		switch {
		case err == nil:
			return service
		case apierrors.IsAlreadyExists(err): // by a request without an answer
			return nil
		case s.t.Context().Err() != nil:
			s.t.Fatal(err)
		}
	}
}

// TestWrittenMeanwhile writes encrypted Services between the look at etcd and the GET.
func TestWrittenMeanwhile(t *testing.T) {
	s := startStorage(t, encrypted(t))
	services := s.api.CoreV1().Services("default")
	kept, web := s.create("kept", 1), s.create("web", 2)
	update := func() *corev1.Service {
		web.Spec.Ports[0].Port++
		web = must(services.Update(t.Context(), web, metav1.UpdateOptions{}))
		return web
	}
	// act is done before the next GET of web; false if it is to be done before all others, too.
	var act func() (isOver bool)
	list := s.reader(func(name string) {
		if act != nil && name == "web" && act() {
			act = nil
		}
	})
	// check compares the list with what the server has answered last, also while it was listed.
	check := func(what string, want ...**corev1.Service) {
		t.Helper()
		got, _, err := list(t.Context(), s.revision())
		var all []*corev1.Service
		for _, service := range want {
			all = append(all, *service)
		}
		if err != nil || !slices.Equal(summary(got), summary(all)) {
			t.Errorf("%s: %q, %v, want %q", what, summary(got), err, summary(all))
		}
	}
	act = func() bool { update(); return true }
	check("updated once", &kept, &web)
	check("after that", &kept, &web)

	update()
	act = func() bool { update(); return false }
	if got, _, err := list(t.Context(), 0); !errors.Is(err, clusterstate.ErrOtherServices) || !strings.Contains(err.Error(), "/services/specs/default/web") {
		t.Errorf("updated all the time: %q, %v", summary(got), err)
	}
	act = nil
	check("after that", &kept, &web)

	update()
	act = func() bool {
		if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		return true
	}
	check("deleted", &kept)

	// Another etcd than that of the server.
	other := etcdtest.Start(t, "").Client()
	for _, kv := range must(s.client.Get(t.Context(), clusterstate.ServiceKeys(""), clientv3.WithPrefix())).Kvs {
		if _, err := other.Put(t.Context(), string(kv.Key), string(kv.Value)); err != nil {
			t.Fatal(err)
		}
	}
	wrong := clusterstate.StoredServices(other, "", s.api.CoreV1().Services)
	if got, _, err := wrong(t.Context(), 0); !errors.Is(err, clusterstate.ErrOtherServices) {
		t.Errorf("of another etcd: %q, %v", summary(got), err)
	}
}

// TestRestoredMeanwhile restores etcd between the read of an encrypted Service and its GET, which finds another one of
// the same revision. It must neither be listed nor be taken for the first one when that is there again.
func TestRestoredMeanwhile(t *testing.T) {
	s := startStorage(t, encrypted(t))
	backup := s.etcd.CopyData(0)
	target := s.revision() + 300
	var other *corev1.Service
	var otherData string
	for range 10 {
		s.etcd.PutBack(0, backup)
		s.fill(target)
		if other = s.recreate("web", 8080); other != nil {
			otherData = s.etcd.CopyData(0)
			break
		}
	}
	for range 10 {
		s.etcd.PutBack(0, backup)
		s.fill(target)
		web := s.recreate("web", 80)
		if web == nil || other == nil || web.ResourceVersion != other.ResourceVersion {
			continue
		}
		restored := false
		list := s.reader(func(string) {
			if !restored {
				restored = true
				s.etcd.PutBack(0, otherData)
				for { // until the server has its connection again
					now, err := s.api.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
					if err == nil && now.UID == other.UID {
						return
					}
				}
			}
		})
		if got, _, err := list(t.Context(), 0); !errors.Is(err, clusterstate.ErrOtherServices) {
			t.Errorf("%q, %v", summary(got), err)
		}
		if got, _, err := list(t.Context(), 0); err != nil || !slices.Equal(summary(got), summary([]*corev1.Service{other})) {
			t.Errorf("after that: %q, %v, want %q", summary(got), err, summary([]*corev1.Service{other}))
		}
		return
	}
	t.Fatal("no two histories have had the Service at the same revision")
}
