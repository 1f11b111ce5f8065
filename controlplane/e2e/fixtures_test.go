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

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

const (
	// eventsTimeout is for the Events of the first pass, which are written after it, and of the IPAddress objects that are removed
	// when their grace is over: the time limit of a request, a minute, since that pass.
	eventsTimeout = 3 * time.Minute
	// thirdPassTimeout is for two intervals of 3 minutes, after which the third pass cleans what has leaked.
	thirdPassTimeout = 9 * time.Minute
)

// fixture is a damaged cluster, and what the unchanged server made of it.
type fixture struct {
	name           string
	version        apiservertest.Version
	clusterIPRange string
	ranges         []string
}

var fixtures = []fixture{
	{etcdtest.DualStack, apiservertest.V1_32, "10.96.0.0/12,fd00:10:96::/108", []string{audit.ServiceIPs, audit.SecondaryServiceIPs, audit.ServiceNodePorts}},
	{etcdtest.SingleStack, apiservertest.V1_36, "10.0.0.0/16", []string{audit.ServiceNodePorts}},
}

// event is what the verdict has of an Event; it does not have its text.
type event struct{ Controller, Reason, Namespace, Name string }

// TestFixtures starts a server on each damaged cluster: after its first pass there are the Events and the bytes that the
// unchanged server wrote, after its third one those of its third.
func TestFixtures(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			if isLong {
				t.Parallel() // they wait most of the time
			}
			f.test(t)
		})
	}
}

func (f fixture) test(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(f.name, "drift.db.gz"))
	server := apiservertest.Start(t, apiservertest.Config{
		Version: f.version, Rangekeeper: true, Etcd: etcd.Endpoints(),
		ServiceClusterIPRange: f.clusterIPRange, ServiceNodePortRange: "30000-32767",
	})
	if wrong := f.unlike(t, etcd.Client(), "repaired1"); len(wrong) > 0 {
		t.Errorf("after the first pass %s are not as the unchanged server left them", strings.Join(wrong, ", "))
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
				t.Errorf("the unchanged server does not write %+v: %s", key, e.Note)
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
	wrong := f.unlike(t, etcd.Client(), "repaired3")
	for end := time.Now().Add(thirdPassTimeout); len(wrong) > 0 && time.Now().Before(end); time.Sleep(5 * time.Second) {
		wrong = f.unlike(t, etcd.Client(), "repaired3")
	}
	if len(wrong) > 0 {
		t.Errorf("after the third pass %s are not as the unchanged server left them", strings.Join(wrong, ", "))
	}
}

// events are those of the verdict.
func (f fixture) events(t *testing.T) map[event]bool {
	t.Helper()
	var verdict struct {
		Events []event
		// LeakedIPAddresses are IPAddress objects without a Service, which have an Event each when they are removed.
		LeakedIPAddresses []string `json:"leaked_ip_addresses"`
	}
	if err := json.Unmarshal(must(os.ReadFile(etcdtest.Fixture(f.name, "upstream-verdict.json"))), &verdict); err != nil {
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

// unlike gives the ranges whose stored bytes are not those of a stage.
func (f fixture) unlike(t *testing.T, etcd *clientv3.Client, stage string) (names []string) {
	t.Helper()
	for _, name := range f.ranges {
		answer := must(etcd.Get(t.Context(), clusterstate.RangeKey(clusterstate.DefaultPrefix, name)))
		want := etcdtest.Gunzip(t, etcdtest.Fixture(f.name, stage+"-"+name+".bin.gz"))
		if len(answer.Kvs) != 1 || !bytes.Equal(answer.Kvs[0].Value, want) {
			names = append(names, name)
		}
	}
	return names
}
