package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/version"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// TestFailOn has faults that are less severe than what the exit code is about.
func TestFailOn(t *testing.T) {
	leaky := changed(t, etcdtest.SingleStack, "clean.db.gz", map[string][]byte{nodePortsKey: stored(t, "30000-32767", []byte{0xff, 0xff})})
	drift := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	for _, c := range []struct {
		file, severity string
		want           int
	}{
		{leaky, "wasted", exitFound}, {leaky, "breaksTraffic", exitOK}, {drift, "breaksTraffic", exitFound}, {drift, "exhausted", exitFound},
	} {
		if c.file == leaky {
			// The bitmap lacks ports in use, too.
			report := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", leaky)
			if by := report.Summary.BySeverity; by.BreaksTraffic.Found > 0 || by.Wasted.Found == 0 {
				t.Fatalf("%+v", by)
			}
		}
		runJSON[audit.Report](t, c.want, "audit", "--etcd-snapshot", c.file, "--fail-on", c.severity, "--strict")
	}
	runFails(t, exitInput, []string{`--fail-on is breaksTraffic, duplicateRisk, exhausted, wasted, not "bad"`}, "audit", "--etcd-snapshot", drift, "--fail-on", "bad")
}

// TestUnseenIsNoZero audits a cluster whose bitmaps the source cannot see.
func TestUnseenIsNoZero(t *testing.T) {
	a, err := audit.New(&clusterstate.State{Revision: 7, Unseen: &clusterstate.Unseen{}, Services: etcdtest.List(corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}})}, audit.Options{
		Source: &audit.Source{Type: audit.FromAPI, Name: "https://127.0.0.1:6443", Context: "prod", Revision: 7, Version: version.Number},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := a.Report()
	for _, c := range []struct {
		strict bool
		failOn audit.Severity
		want   error
	}{{false, audit.Wasted, nil}, {true, audit.Wasted, ErrUnseen}, {true, audit.BreaksTraffic, ErrUnseen}} {
		if err := (&auditFlags{strict: c.strict, severity: c.failOn}).end(r, nil); err != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	text, err := json.Marshal(r.Summary)
	if want := `{"findings":null,"leaks":null,"services":1,"unreadable":0,"bySeverity":{"breaksTraffic":null,"duplicateRisk":null,"exhausted":null,"wasted":null},` +
		`"found":{"findings":0,"leaks":0,"breaksTraffic":0,"duplicateRisk":0,"exhausted":0,"wasted":0}}`; err != nil || string(text) != want {
		t.Errorf("%s", text)
	}
	var shown strings.Builder
	if err := writeAudit(&shown, a, r, screen.FormatTable, nil, "rangekeeper"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Kubernetes API https://127.0.0.1:6443 (context prod), revision 7,", "\nok for all that the Kubernetes API shows: nothing found in 1 Service\n",
		"     0  break traffic now\n        not shown: the range of ClusterIPs; the range of node ports\n",
		"     0  are wasted\n        not shown: leaked and unrecorded ClusterIPs; leaked and unrecorded node\n        ports\n",
		"servicenodeports  30000-32767  unseen  2768  at least 0  at most 2768\n",
	} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("no %q in\n%s", want, shown.String())
		}
	}
	var metrics strings.Builder
	if err := screen.WritePrometheus(&metrics, r); err != nil || strings.Contains(metrics.String(), "rangekeeper_faults{") || strings.Contains(metrics.String(), "rangekeeper_range_used{") {
		t.Errorf("%v, %s", err, metrics.String())
	}
}

// TestFullRange fills a range.
func TestFullRange(t *testing.T) {
	_, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	found := func(report audit.Report) (all []string) {
		for _, f := range report.Findings {
			all = append(all, f.Reason+" "+string(f.Severity)+" "+f.Kind+" "+f.Name+" "+f.Value)
		}
		return all
	}
	nearly, full := "RangeNearlyFull exhausted RangeAllocation servicenodeports 30000-30003", "RangeFull exhausted RangeAllocation servicenodeports 30000-30003"
	for i := range 4 {
		runOK(t, with("allocate", "servicenodeports")...)
		want := map[int][]string{3: {full}}[i]
		if got := found(runJSON[audit.Report](t, exitFound, with("audit", "--warn-free", "0")...)); !slices.Equal(got, want) {
			t.Errorf("%d allocated, 0%%: %q", i+1, got)
		}
		want = map[int][]string{1: {nearly}, 2: {nearly}, 3: {full}}[i]
		if got := found(runJSON[audit.Report](t, exitFound, with("audit", "--warn-free", "51%")...)); !slices.Equal(got, want) {
			t.Errorf("%d allocated, 51%%: %q", i+1, got)
		}
	}
	_, shown, _ := run(t, with("audit")...)
	if !strings.Contains(shown, "     1  range is full or nearly full\n") || !strings.Contains(shown, "Full or nearly full\n  RangeFull (1)") {
		t.Error(shown)
	}
	upgrade := runJSON[preflight.Report](t, exitOK, with("preflight", "--to", "1.33")...)
	if !slices.Contains(namesOf(upgrade, preflight.Surprise), "RangeFull") || slices.Contains(namesOf(upgrade, preflight.OK), "Findings") {
		t.Errorf("%+v", upgrade.Checks)
	}
	runFails(t, exitInput, []string{`--warn-free is a whole percentage from 0% to 100%, not "101%"`}, with("audit", "--warn-free", "101%")...)

	_, text, _ := run(t, with("audit", "-o", "prometheus")...)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err, text)
	}
	got := map[string]float64{}
	for name, family := range families {
		for _, m := range family.Metric {
			name := name
			for _, label := range m.Label {
				name += " " + label.GetValue()
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	delete(got, "rangekeeper_audit_timestamp_seconds")
	want := map[string]float64{
		"rangekeeper_range_size servicenodeports 30000-30003 bitmap": 4, "rangekeeper_range_used servicenodeports 30000-30003 bitmap": 4,
		"rangekeeper_range_free servicenodeports 30000-30003 bitmap": 0, "rangekeeper_range_in_use servicenodeports 30000-30003 bitmap": 0,
		"rangekeeper_findings RangeFull servicenodeports": 1, "rangekeeper_leaks": 4, "rangekeeper_services": 0, "rangekeeper_unknown": 0,
		"rangekeeper_unreadable_objects": 0, "rangekeeper_faults breaksTraffic": 0, "rangekeeper_faults duplicateRisk": 0,
		"rangekeeper_faults exhausted": 1, "rangekeeper_faults wasted": 4,
		"rangekeeper_audit_info etcd " + etcd[len(etcd)-1] + "  " + version.Number: 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// watchAudit runs `audit --watch -o json` on an etcd until ctx is done, and returns what it prints and its exit code.
func watchAudit(ctx context.Context, etcd ...string) (printed io.Reader, code <-chan int) {
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- program.Run(ctx, append([]string{"audit", "--watch", "--interval", "1s", "-o", "json"}, etcd...), write, io.Discard)
		write.Close()
	}()
	return read, ended
}

// TestWatchOfAuditInText follows a cluster whose faults change: lines about these come after the first report.
func TestWatchOfAuditInText(t *testing.T) {
	t.Parallel() // beside those that wait
	_, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30099")...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- program.Run(ctx, with("audit", "--watch", "--interval", "1s"), write, io.Discard)
		write.Close()
	}()
	lines := bufio.NewScanner(read)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if line := strings.Join(strings.Fields(lines.Text()), " "); strings.Contains(line, want) {
				return
			} else if strings.HasPrefix(line, "RANGE ") {
				t.Errorf("a whole report again, before %q", want)
			}
		}
		t.Fatalf("no line %q, the last is %q", want, lines.Text())
	}
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "etcd ") {
		t.Error(lines.Text())
	}
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "servicenodeports") { // the table of the first report
	}
	runOK(t, with("allocate", "servicenodeports", "30001")...)
	next(": 0 findings, 1 leak, 0 Services")
	next("new Leak 30001 servicenodeports")
	next("range servicenodeports 30000-30099 bitmap, size 100, used 1, free 99")
	runOK(t, with("release", "servicenodeports", "30001")...)
	next(": 0 findings, 0 leaks, 0 Services")
	next("gone Leak 30001 servicenodeports")
	next("range servicenodeports 30000-30099 bitmap, size 100, used 0, free 100")
	cancel()
	go io.Copy(io.Discard, read)
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestWatchOfRestored restores etcd under an audit that finds the same before and after.
func TestWatchOfRestored(t *testing.T) {
	t.Parallel() // beside those that wait
	etcd := etcdtest.StartCluster(t, 1)
	endpoints := []string{"--endpoints", etcd.Endpoints()[0]}
	runOK(t, append([]string{"init", "servicenodeports", "30000-30099"}, endpoints...)...)
	backup := etcdtest.Save(t, etcd.Client())
	etcdtest.Fill(t, etcd.Client(), etcdtest.Revision(t, etcd.Client())+100)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	read, write := io.Pipe()
	said := make(chan string, 100)
	ended := make(chan int, 1)
	go func() {
		args := append([]string{"audit", "--watch", "--interval", "1s"}, endpoints...)
		ended <- program.Run(ctx, args, write, writerFunc(func(b []byte) (int, error) {
			said <- string(b)
			return len(b), nil
		}))
		close(said)
	}()
	bufio.NewReader(read).ReadString('\n') // of the first report
	go io.Copy(io.Discard, read)
	etcd.Restore(backup, etcdtest.Restoration{}, func() {})
	count := 0
	for line := range said {
		if strings.Contains(line, "the store went back from revision ") {
			count++
			cancel()
		}
	}
	if code := <-ended; code != exitOK || count != 1 {
		t.Errorf("exit code %d, said %d times", code, count)
	}
}

// TestWatchOfAudit follows a cluster whose faults change, while an API server writes its lease again and again.
func TestWatchOfAudit(t *testing.T) {
	t.Parallel() // beside those that wait
	running, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	raw, err := (&corev1.Endpoints{Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	lease := string(inEnvelopeOf(t, "v1", "Endpoints", raw))
	granted, err := running.Client().Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	putLease := func() {
		if _, err := running.Client().Put(ctx, "/registry/masterleases/192.0.2.1", lease, clientv3.WithLease(granted.ID)); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
	putLease()
	written := make(chan struct{})
	go func() {
		defer close(written)
		for ctx.Err() == nil {
			putLease()
			time.Sleep(300 * time.Millisecond)
		}
	}()
	printed, code := watchAudit(ctx, etcd...)
	documents := bufio.NewReader(printed)
	for leaks := range 3 {
		var report audit.Report
		line, err := documents.ReadBytes('\n')
		if err := errors.Join(err, json.Unmarshal(line, &report)); err != nil || len(report.Leaks) != leaks {
			t.Fatalf("%v, %+v, want %d leaks", err, report.Leaks, leaks)
		}
		if leaks < 2 {
			time.Sleep(1500 * time.Millisecond) // an audit that finds the same, but for the lease
			runOK(t, with("allocate", "servicenodeports")...)
		}
	}
	cancel()
	<-written
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	runFails(t, exitInput, []string{"--watch is for a running cluster"}, "audit", "--watch", "--etcd-snapshot", "x")
}
