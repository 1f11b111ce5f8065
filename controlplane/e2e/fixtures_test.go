package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

const (
	// eventsTimeout covers the Events of the first pass, which are written after it, and those of IPAddress objects,
	// which are removed after a grace: a minute, the timeout of a request.
	eventsTimeout = 6 * time.Minute
	// thirdPassTimeout covers two intervals of 3 minutes. The third pass then cleans leaks.
	thirdPassTimeout = 9 * time.Minute
)

// fixture is a damaged cluster that a stock kube-apiserver has repaired.
type fixture struct{ etcdtest.FixtureCluster }

// event identifies an Event of the verdict, which has no messages.
type event struct{ Controller, Reason, Namespace, Name string }

// TestFixtures starts a server on each damaged cluster. After the first and the third repair pass the stored bytes must
// be those that a stock kube-apiserver wrote, and so must the Events of the first pass.
func TestFixtures(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, cluster := range etcdtest.FixtureClusters {
		f := fixture{cluster}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			f.test(t)
		})
	}
}

func (f fixture) test(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(f.Name, "drift.db.gz"))
	server := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Version(f.Release), Rangekeeper: true, Etcd: etcd.Endpoints(),
		ServiceClusterIPRange: f.ClusterIPRange, ServiceNodePortRange: "30000-32767",
	})
	if different := f.different(t, etcd.Client(), "repaired1"); len(different) > 0 {
		t.Errorf("after the first pass %s differ from those that a stock kube-apiserver wrote", strings.Join(different, ", "))
	}
	client := must(kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin)))
	missing := f.events(t)
	want, found := len(missing), make(map[event]bool)
	for end := time.Now().Add(eventsTimeout); len(missing) > 0 && time.Now().Before(end); time.Sleep(time.Second) {
		for _, e := range must(client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})).Items {
			key := event{e.ReportingController, e.Reason, e.Regarding.Namespace, e.Regarding.Name}
			if missing[key] {
				found[key] = true
				delete(missing, key)
			} else if !found[key] {
				t.Errorf("a stock kube-apiserver does not write Event %+v: %s", key, e.Note)
				found[key] = true
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d Events are missing: %v", len(missing), want, missing)
	}
	t.Logf("%d Events", want-len(missing))
	if !isLong {
		return
	}
	different := f.different(t, etcd.Client(), "repaired3")
	for end := time.Now().Add(thirdPassTimeout); len(different) > 0 && time.Now().Before(end); time.Sleep(5 * time.Second) {
		different = f.different(t, etcd.Client(), "repaired3")
	}
	if len(different) > 0 {
		t.Errorf("after the third pass %s differ from those that a stock kube-apiserver wrote", strings.Join(different, ", "))
	}
}

// events returns the Events of the verdict.
func (f fixture) events(t *testing.T) map[event]bool {
	t.Helper()
	var verdict struct {
		Events []event
		// LeakedIPAddresses are IPAddress objects without a Service. The removal of each is an Event.
		LeakedIPAddresses []string `json:"leaked_ip_addresses"`
	}
	if err := json.Unmarshal(must(os.ReadFile(etcdtest.Fixture(f.Name, "upstream-verdict.json"))), &verdict); err != nil {
		t.Fatal(err)
	}
	all := make(map[event]bool)
	for _, e := range verdict.Events {
		all[e] = true
	}
	for _, name := range verdict.LeakedIPAddresses {
		all[event{Controller: "ipallocator-repair-controller", Reason: "IPAddressNotAllocated", Name: name}] = true
	}
	return all
}

// different returns the ranges whose stored bytes differ from those of a stage.
func (f fixture) different(t *testing.T, etcd *clientv3.Client, stage string) (names []string) {
	t.Helper()
	for _, name := range f.Bitmaps {
		answer := must(etcd.Get(t.Context(), clusterstate.RangeKey(clusterstate.DefaultPrefix, name)))
		want := etcdtest.Gunzip(t, etcdtest.Fixture(f.Name, stage+"-"+name+".bin.gz"))
		if len(answer.Kvs) != 1 || !bytes.Equal(answer.Kvs[0].Value, want) {
			names = append(names, name)
		}
	}
	return names
}
