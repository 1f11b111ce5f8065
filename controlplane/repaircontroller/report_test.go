package repaircontroller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// TestReported repairs the damaged cluster without an API server. The log names each finding of the reference with its
// Service, and each value that is freed. The notes of Events are those of the reference
// (k8s.io/kubernetes v1.37.2, pkg/registry/core/service, repair.go of both allocators).
func TestReported(t *testing.T) {
	want := readVerdict(t)
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	list := clusterstate.StoredServices(etcd.Client(), "", (&kubernetes.Clientset{}).CoreV1().Services)
	recorder := events.NewFakeRecorder(100_000)
	var log bytes.Buffer
	repaired := func(c repaircontroller.Controller, ranges ...repair.Range) {
		t.Helper()
		r := must(repaircontroller.New(repaircontroller.Config{
			Controller: c, Ranges: ranges, Services: repaircontroller.ListStored(list), Recorder: recorder,
			Log: slog.New(slog.NewJSONHandler(&log, nil)), Interval: time.Millisecond, Passes: 1,
		}))
		defer r.Close()
		for { // until the grace of the leaks is over
			if result := must(r.Pass(t.Context())); !slices.ContainsFunc(result.Ranges, func(of repaircontroller.RangeResult) bool { return of.Leaked > of.Cleared }) {
				return
			}
		}
	}
	open := func(name string, values rangekeeper.Range) repair.Range {
		store := must(etcdstore.Open(etcdstore.Config{Client: etcd.Client(), Key: "/registry/ranges/" + name, Range: values, Grace: time.Millisecond}))
		t.Cleanup(func() { store.Close(context.Background()) })
		return store
	}
	repaired(repaircontroller.ClusterIPs, open("serviceips", must(rangekeeper.ParseCIDR("10.96.0.0/12"))),
		open("secondaryserviceips", must(rangekeeper.ParseCIDR("fd00:10:96::/108"))))
	repaired(repaircontroller.NodePorts, open("servicenodeports", must(rangekeeper.ParsePortRange("30000-32767"))))
	close(recorder.Events)

	logged, freed := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(log.String()) {
		var entry struct{ Msg, Reason, Namespace, Service, Values string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Values == "" {
			value := strings.Trim(strings.Fields(strings.TrimPrefix(entry.Msg, "node port "))[0], `"`)
			if value == "ClusterIP" {
				value = strings.Trim(strings.Fields(entry.Msg)[1], `"`)
			}
			logged[strings.Join([]string{entry.Reason, entry.Namespace, entry.Service, value}, " ")] = true
			continue
		}
		first, last, isRun := strings.Cut(entry.Values, "-")
		freed[first] = true
		if isRun { // of two, in the fixture
			freed[last] = true
		}
	}
	for _, e := range want.Events {
		if !logged[strings.Join([]string{e.Reason, e.Namespace, e.Name, e.Value}, " ")] {
			t.Errorf("the log has no %+v", e)
		}
	}
	leaks := slices.Concat(want.Leaks.ClusterIP, want.Leaks.NodePort)
	for _, leak := range leaks {
		if !freed[leak] {
			t.Errorf("the log does not say that %s is freed", leak)
		}
	}
	if len(want.Events) < 50 || len(leaks) < 10 || len(freed) != len(leaks) {
		t.Errorf("%d Events, %d leaks, %d values freed", len(want.Events), len(leaks), len(freed))
	}

	notes := map[string]bool{}
	values := regexp.MustCompile(`:(10\.[0-9.]+|fd00:[0-9a-f:]+) |Port [0-9]+ `)
	for event := range recorder.Events {
		notes[values.ReplaceAllString(event, "* ")] = true
	}
	for _, note := range []string{
		"ClusterIPAlreadyAllocated Cluster IP [IPv4]* was assigned to multiple services; please recreate service",
		"ClusterIPAlreadyAllocated Cluster IP [IPv6]* was assigned to multiple services; please recreate service",
		"ClusterIPNotAllocated Cluster IP [IPv4]* is not allocated; repairing",
		"ClusterIPNotAllocated Cluster IP [IPv6]* is not allocated; repairing",
		"ClusterIPOutOfRange Cluster IP [IPv4]* is not within the service CIDR 10.96.0.0/12; please recreate service",
		"PortAlreadyAllocated * was assigned to multiple services; please recreate service",
		"PortNotAllocated * is not allocated; repairing",
	} {
		if note = "Warning " + note; !notes[note] {
			t.Errorf("no Event %q in %q", note, slices.Sorted(maps.Keys(notes)))
		}
		delete(notes, note)
	}
	if len(notes) > 0 {
		t.Errorf("%q", slices.Sorted(maps.Keys(notes)))
	}
}
