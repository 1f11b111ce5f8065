package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/version"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	nodePortsKey  = "/registry/ranges/servicenodeports"
	serviceIPsKey = "/registry/ranges/serviceips"
	secondaryKey  = "/registry/ranges/secondaryserviceips"
)

// stored encodes a RangeAllocation as a kube-apiserver stores it.
func stored(t *testing.T, rangeText string, data []byte) []byte {
	t.Helper()
	object := corev1.RangeAllocation{Range: rangeText, Data: data}
	raw, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return inEnvelope(t, "RangeAllocation", raw)
}

// inEnvelope returns an encoded object as kube-apiserver stores it.
func inEnvelope(t *testing.T, kind string, raw []byte) []byte {
	t.Helper()
	return inEnvelopeOf(t, "v1", kind, raw)
}

func inEnvelopeOf(t *testing.T, version, kind string, raw []byte) []byte {
	t.Helper()
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}
	b, err := envelope.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), b...)
}

// changed returns a fixture's snapshot with other values.
func changed(t *testing.T, cluster, file string, values map[string][]byte) string {
	t.Helper()
	src, dst := etcdtest.Fixture(cluster, file), filepath.Join(t.TempDir(), "changed.db")
	if _, err := snapshotfile.WriteRepaired(t.Context(), src, dst, values, snapshotfile.WriteOptions{Revision: readFile(t, src).Revision}); err != nil {
		t.Fatal(err)
	}
	return dst
}

// TestLastOffset fills the last bit of a range.
func TestLastOffset(t *testing.T) {
	// A /28 has 14 addresses, at offsets 0 to 13.
	file := changed(t, etcdtest.DualStack, "clean.db.gz", map[string][]byte{serviceIPsKey: stored(t, "10.96.0.0/28", []byte{0x20, 0})})
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	if want := (audit.Leak{Severity: audit.Wasted, Range: "serviceips", Value: "10.96.0.14"}); len(r.Leaks) != 1 || r.Leaks[0] != want {
		t.Errorf("leaks %v", r.Leaks)
	}
}

func TestUsage(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	there := etcdtest.Write(t, []byte("precious"))
	from := []string{"--etcd-snapshot", file}
	etcd := []string{"--endpoints", "http://127.0.0.1:1"}
	with := func(source []string, args ...string) []string { return append(args, source...) }
	for _, args := range [][]string{
		with(from, "audit", "--cacert", "ca.pem"),
		with(from, "repair", "--user", "root"),
		{"nonsense"},
		{"audit"},
		with(from, "audit", "extra"),
		with(from, "audit", "--nonsense"),
		with(from, "audit", "-o", "xml"),
		with(from, "audit", "--mode", "ipaddress"),
		append(with(from, "audit"), etcd...),
		with(etcd, "audit", "--skip-hash-check"),
		with(etcd, "audit", "--cert", "only.crt"),
		with(from, "repair", "-o", "html"),
		with(from, "repair", "--apply"),
		with(from, "repair", "--to-file", file),
		with(from, "repair", "--to-file", there),
		with(from, "repair", "--to-file", file, "--force"),
		with(etcd, "repair", "--to-file", "new.db"),
		with(etcd, "repair", "--clean-leaks"),
		with(etcd, "repair", "--apply", "--passes", "2"),
		with(etcd, "repair", "--apply", "--interval", "2s"),
		with(etcd, "repair", "--apply", "--clean-leaks", "--passes", "0"),
		with(etcd, "repair", "--apply", "--clean-leaks", "--passes", "256"),
		with(etcd, "repair", "--apply", "--clean-leaks", "--interval", "-1s"),
		with(from, "show"),
		with(from, "explain"),
		with(from, "explain", "70000"),
		with(from, "explain", "-1"),
		with(from, "explain", "10.0.0"),
	} {
		code, stdout, stderr := run(t, args...)
		if code != exitInput || stdout != "" || !strings.HasPrefix(stderr, "rangekeeper: ") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if b, _ := os.ReadFile(there); string(b) != "precious" {
		t.Error("an existing file was replaced")
	}
	for _, args := range [][]string{{}, {"--help"}, {"audit", "--help"}, {"--version"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}} {
		code, stdout, stderr := run(t, args...)
		if code != exitOK || stdout == "" || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	t.Cleanup(func() { version.Commit = "" })
	for set, want := range map[string]string{"": version.Number, "0123456789ab": version.Number + " (commit 0123456789ab)"} {
		version.Commit = set
		for _, command := range []string{"--version", "version"} {
			if _, stdout, _ := run(t, command); stdout != "rangekeeper version "+want+", "+rangekeeper.BackEnd+"\n" {
				t.Errorf("%s: %q", command, stdout)
			}
		}
	}
}

func TestUnreachable(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", etcdtest.ReservePort(t)) // nobody listens there
	for _, args := range [][]string{{"audit"}, {"repair", "--apply"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel() // it waits for a timeout
			code, stdout, stderr := run(t, append(args, "--endpoints", "http://"+address)...)
			if code != exitUnreachable || stdout != "" || !strings.Contains(stderr, address) {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// TestOverTheNetwork compares the audit of a running etcd with that of the snapshot that it was restored from. That no
// server lives matters in the running one only.
func TestOverTheNetwork(t *testing.T) {
	for cluster := range bitmaps {
		file := etcdtest.Fixture(cluster, "drift.db.gz")
		e := etcdtest.Start(t, file)
		want := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
		got := runJSON[audit.Report](t, exitFound, "audit", "--endpoints", strings.Join(e.Endpoints(), ","))
		if got.Source.Cluster.UID == "" || got.Source.Cluster.UID != want.Source.Cluster.UID || got.Source.Revision != want.Source.Revision {
			t.Errorf("%s: sources %+v and %+v", cluster, got.Source, want.Source)
		}
		got.Unknown = slices.DeleteFunc(got.Unknown, func(u audit.Unknown) bool { return strings.Contains(u.Message, "no server holds a lease") })
		if len(got.Unknown) == 0 {
			got.Unknown = nil
		}
		if got.Source, want.Source = nil, nil; !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", cluster, got, want)
		}
	}
}

// TestNone has an exit code of its own for what is not there.
func TestNone(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz")
	for words, args := range map[string][]string{
		"there is no range \"nonsense\"":   {"show", "nonsense"},
		"there is no range \"none\"":       {"free", "none"},
		"there is no Service default/none": {"explain", "default/none"},
	} {
		runFails(t, exitNone, []string{words}, append(args, "--etcd-snapshot", file)...)
	}
}

func TestFormats(t *testing.T) {
	for cluster := range bitmaps {
		file := etcdtest.Fixture(cluster, "drift.db.gz")
		r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
		if r.APIVersion != "rangekeeper/v1" || r.Kind != "Audit" {
			t.Errorf("%s %s", r.APIVersion, r.Kind)
		}
		_, stdout, _ := run(t, "audit", "--etcd-snapshot", file, "-o", "yaml")
		var fromYAML audit.Report
		if err := yaml.UnmarshalStrict([]byte(stdout), &fromYAML); err != nil || !reflect.DeepEqual(fromYAML, r) {
			t.Errorf("%v, %+v", err, fromYAML)
		}
		code, wide, _ := run(t, "audit", "--etcd-snapshot", file, "-o", "wide")
		if code != exitFound {
			t.Errorf("exit code %d", code)
		}
		for _, f := range r.Findings {
			if !strings.Contains(wide, f.Value) || !strings.Contains(wide, f.Message) {
				t.Errorf("%+v is not shown", f)
			}
		}
		for _, l := range r.Leaks {
			if !strings.Contains(wide, l.Value) {
				t.Errorf("%+v is not shown", l)
			}
		}
		code, page, _ := run(t, "audit", "--etcd-snapshot", file, "-o", "html")
		if code != exitFound {
			t.Errorf("exit code %d", code)
		}
		for _, row := range r.Ranges {
			if !strings.Contains(page, row.Name) || !strings.Contains(wide, row.Range) {
				t.Errorf("%+v is not drawn", row)
			}
		}
	}
}

// TestStaleBitmap puts a bitmap of ClusterIPs beside the objects that replaced it.
func TestStaleBitmap(t *testing.T) {
	file := changed(t, etcdtest.SingleStack, "clean.db.gz", map[string][]byte{
		serviceIPsKey: []byte(`{"kind":"RangeAllocation","apiVersion":"v1","metadata":{"labels":{"a":"b"}},"range":"10.0.0.0/16","data":"AQ=="}`),
	})
	r := runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", file)
	want := audit.Range{Name: "serviceips", Range: "10.0.0.0/16", Size: audit.Amount{N: 65534}, Used: audit.Amount{N: 1}, Free: audit.Amount{N: 65533}, InUse: 1, Mode: audit.ModeStale}
	if len(r.Ranges) != 3 || r.Ranges[1] != want {
		t.Errorf("%+v", r.Ranges)
	}
	_, stdout, _ := run(t, "audit", "--etcd-snapshot", file)
	if !strings.Contains(stdout, "stale: a bitmap of ClusterIPs of an older release") {
		t.Errorf("the mode is not explained:\n%s", stdout)
	}
	_, stdout, _ = run(t, "show", "serviceips", "--etcd-snapshot", file)
	if !strings.Contains(stdout, "10.0.0.2") || !strings.Contains(stdout, "65533") {
		t.Errorf("%s", stdout)
	}

	// By the bitmap only the first address, that of the Service kubernetes, is
	// known. Repaired, the object stays JSON and keeps its labels.
	state := readFile(t, file)
	r = runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file, "--mode", "bitmap")
	if len(r.Findings) != state.IPAddresses.Len()-1 || len(r.Leaks) != 0 || len(r.Ranges) != 2 {
		t.Errorf("%+v, ranges %+v, %d objects", r.Summary, r.Ranges, state.IPAddresses.Len())
	}
	for _, f := range r.Findings {
		if f.Reason != "ClusterIPNotAllocated" || f.Range != "serviceips" {
			t.Errorf("%+v", f)
		}
	}
	repaired := filepath.Join(t.TempDir(), "repaired.db")
	plan := runJSON[audit.Plan](t, exitOK, "repair", "--etcd-snapshot", file, "--mode", "bitmap", "--to-file", repaired)
	if len(plan.Ranges) != 2 || len(plan.Ranges[0].Set) != len(r.Findings) {
		t.Errorf("%+v", plan.Ranges)
	}
	var object corev1.RangeAllocation
	value := readFile(t, repaired).Ranges["serviceips"].Value
	if err := yaml.Unmarshal(value, &object); err != nil || value[0] != '{' {
		t.Fatalf("%v: %s", err, value)
	}
	if want := (metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}); !reflect.DeepEqual(object.ObjectMeta, want) {
		t.Errorf("metadata %+v", object.ObjectMeta)
	}
	runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", repaired, "--mode", "bitmap")
}

// TestModeOfObjects asks for the bitmap of a cluster that has none.
func TestModeOfObjects(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	want := []string{file + ": --mode bitmap: this cluster has no bitmap of ClusterIPs; its API servers record them as IPAddress objects, so leave out --mode"}
	for _, line := range []string{"audit", "repair", "show serviceips", "free serviceips", "explain 10.96.0.1"} {
		runFails(t, exitInput, want, append(strings.Fields(line), "--etcd-snapshot", file, "--mode", "bitmap")...)
	}
	etcd := etcdtest.Start(t, file)
	runFails(t, exitInput, []string{"--mode bitmap: this cluster has no bitmap"}, "repair", "--apply", "--mode", "bitmap", "--endpoints", etcd.Endpoints()[0])
}

func TestUninitialized(t *testing.T) {
	// A cluster without Services in which no kube-apiserver has started yet.
	empty := map[string][]byte{nodePortsKey: stored(t, "", nil)}
	for _, s := range etcdtest.Objects(&readFile(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")).Services) {
		s.Spec = corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}
		raw, err := s.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		empty["/registry/services/specs/"+s.Namespace+"/"+s.Name] = inEnvelope(t, "Service", raw)
	}
	file := changed(t, etcdtest.SingleStack, "clean.db.gz", empty)
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	if want := (audit.Range{Name: "servicenodeports", Mode: audit.ModeUninitialized}); len(r.Ranges) != 2 || r.Ranges[1] != want {
		t.Errorf("%+v", r.Ranges)
	}
}

// TestShow puts the runs together again.
func TestShow(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	code, stdout, stderr := run(t, "show", "servicenodeports", "--etcd-snapshot", file)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	var envelope runtime.Unknown
	var object corev1.RangeAllocation
	if err := envelope.Unmarshal(readFile(t, file).Ranges["servicenodeports"].Value[4:]); err != nil {
		t.Fatal(err)
	}
	if err := object.Unmarshal(envelope.Raw); err != nil {
		t.Fatal(err)
	}
	bits, seen, used := new(big.Int).SetBytes(object.Data), 0, uint(0)
	// What is before the runs names the snapshot, whose path may be of any
	// length and words.
	_, runs, found := strings.Cut(stdout, "\nFree runs\n")
	if !found {
		t.Fatal(stdout)
	}
	for line := range strings.Lines(runs) {
		switch strings.TrimSpace(line) {
		case "Used runs":
			used = 1
		}
		columns := strings.Fields(line)
		if len(columns) != 3 || columns[0] == "FIRST" {
			continue
		}
		var n [3]int
		for i, column := range columns {
			n[i], _ = strconv.Atoi(column)
		}
		if n[1]-n[0]+1 != n[2] {
			t.Errorf("%s", line)
		}
		for port := n[0]; port <= n[1]; port++ {
			if seen++; bits.Bit(port-30000) != used {
				t.Errorf("port %d in %s", port, line)
			}
		}
	}
	if seen != 2768 {
		t.Errorf("%d ports in the runs", seen)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel() // beside those that wait
	file := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	explain := func(value string, wants ...string) {
		t.Helper()
		code, stdout, stderr := run(t, "explain", value, "--etcd-snapshot", file)
		want := exitOK
		if strings.Contains(stdout, "Finding:") {
			want = exitFound
		}
		if code != want || stderr != "" {
			t.Errorf("%s: exit code %d, %s", value, code, stderr)
		}
		stdout = strings.Join(strings.Fields(stdout), " ")
		for _, want := range wants {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %s, want %s", value, stdout, want)
			}
		}
	}
	for _, l := range r.Leaks {
		explain(l.Value, "Range: "+l.Range, "Allocated: yes", "Repair: clears it", "Services: none")
	}
	for _, f := range r.Findings {
		switch f.Reason {
		case "ClusterIPNotAllocated", "PortNotAllocated":
			explain(f.Value, "Range: "+f.Range, "Allocated: no", "Repair: records it", f.Namespace+"/"+f.Name)
		case "ClusterIPAlreadyAllocated", "PortAlreadyAllocated":
			explain(f.Value, "Range: "+f.Range, "recreated by their owners", f.Namespace+"/"+f.Name, f.Reason)
		default:
			explain(f.Value, "Range: none", f.Namespace+"/"+f.Name, f.Reason)
		}
	}
	// The Service kubernetes has the first address, written in other ways too.
	for _, value := range []string{"10.96.0.1", "010.096.000.001", "::ffff:10.96.0.1"} {
		explain(value, "Value: 10.96.0.1", "10.96.0.0/12", "Band: static", "Allocated: yes", "changes nothing", "default/kubernetes")
	}
	if code, _, _ := run(t, "explain", r.Findings[0].Value, "--etcd-snapshot", file); code != exitFound {
		t.Errorf("%+v: exit code %d", r.Findings[0], code)
	}
	if code, _, _ := run(t, "explain", "10.96.0.1", "--etcd-snapshot", file); code != exitOK {
		t.Errorf("10.96.0.1: exit code %d", code)
	}
	explain("10.111.255.254", "Band: dynamic")
	explain("10.111.255.255", "Range: none")
	explain("30085", "Band: static") // (32767-30000+1) / 32 = 86 ports
	explain("30086", "Band: dynamic")
	explain("0", "Range: none", "Services: none")

	// An IPAddress object without a Service goes at the server's start.
	file = etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz")
	r = runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	wrong := 0
	for _, l := range r.Leaks {
		if l.Range == "kubernetes" {
			explain(l.Value, "Allocated: yes", "kube-apiserver removes", "Services: none")
		}
	}
	// So does one whose Service has another address.
	for _, f := range r.Findings {
		if f.Reason == "IPAddressWrongReference" {
			wrong++
			explain(f.Value, "Allocated: yes", "kube-apiserver removes", "Services: none", f.Reason)
		}
	}
	if wrong == 0 {
		t.Error("no wrong reference in the fixture")
	}

	// One that refers to another Service than that which uses it is recreated.
	b := ipAddressObject(t, "10.0.0.1", `"parentRef":{"resource":"services","namespace":"default","name":"gone"}`)
	file = changed(t, etcdtest.SingleStack, "clean.db.gz", map[string][]byte{"/registry/ipaddresses/10.0.0.1": b})
	explain("10.0.0.1", "Allocated: yes", "recreates its IPAddress object", "Services: default/kubernetes", "ClusterIPNotAllocated")
	if r = runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file); len(r.Leaks) > 0 || len(r.Findings) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestExplainNamesTheAddress has the address in a command of the remedy, to be pasted.
func TestExplainNamesTheAddress(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz")
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	at := slices.IndexFunc(r.Findings, func(f audit.Finding) bool { return f.Reason == "IPAddressWrongReference" })
	if at < 0 {
		t.Fatal("no finding")
	}
	value := r.Findings[at].Value
	_, shown, _ := run(t, "explain", value, "--etcd-snapshot", file)
	if words := strings.Join(strings.Fields(shown), " "); !strings.Contains(words, "`kubectl delete ipaddress "+value+"`") {
		t.Error(shown)
	}
}

// TestExplainService explains each value of a Service, and the reasons without a cluster.
func TestExplainService(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")
	for i, s := range etcdtest.Objects(&readFile(t, file).Services) {
		if i%97 != 0 {
			continue
		}
		code, stdout, stderr := run(t, "explain", s.Namespace+"/"+s.Name, "--etcd-snapshot", file)
		if code > exitFound || stderr != "" {
			t.Errorf("%s/%s: exit code %d, %s", s.Namespace, s.Name, code, stderr)
		}
		values := slices.Clone(s.Spec.ClusterIPs)
		for _, p := range s.Spec.Ports {
			if p.NodePort != 0 {
				values = append(values, strconv.Itoa(int(p.NodePort)))
			}
		}
		for _, value := range values {
			if n := strings.Count(stdout, "Value:      "+value+"\n"); n != 1 && value != "None" {
				t.Errorf("%s/%s: %s is there %d times in\n%s", s.Namespace, s.Name, value, n, stdout)
			}
		}
	}
	// One that shares an address is named with its damage.
	_, stdout, _ := run(t, "explain", "default/svc-560", "--etcd-snapshot", file)
	for _, want := range []string{"10.96.140.128", "31634", "32094", "ClusterIPAlreadyAllocated", "PortAlreadyAllocated", "Remedy:"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %s in\n%s", want, stdout)
		}
	}
	for _, args := range [][]string{{"svc-560", "-n", "default"}, {"default/svc-560", "-n", "default"}} {
		if _, same, stderr := run(t, append([]string{"explain", "--etcd-snapshot", file}, args...)...); same != stdout {
			t.Errorf("%v: %s%s", args, same, stderr)
		}
	}
	if code, stdout, stderr := run(t, "explain", "default/none", "--etcd-snapshot", file); code != exitNone || stdout != "" || !strings.Contains(stderr, "there is no Service default/none") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	for _, name := range runbook.Names() {
		entry, _ := runbook.Named(name)
		code, stdout, stderr := run(t, "explain", strings.ToLower(name))
		text := strings.Join(strings.Fields(stdout), " ")
		if code != exitOK || stderr != "" || !strings.Contains(text, entry.Title) || !strings.Contains(text, entry.Meaning) ||
			!strings.Contains(text, entry.Risk) || !strings.Contains(text, entry.Remedy) || !strings.HasSuffix(text, entry.Page()) {
			t.Errorf("%s: exit code %d, %s%s", name, code, stdout, stderr)
		}
	}
}

// TestMapOfSmallRange draws a map in which one cell is one address.
func TestMapOfSmallRange(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz")
	state := readFile(t, file)
	cidr := state.ServiceCIDRs[0]
	cidr.TypeMeta = metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"}
	cidr.Spec.CIDRs = []string{"10.0.0.0/25", "10.0.111.128/25", "10.0.5.0/26"}
	b, err := json.Marshal(cidr)
	if err != nil {
		t.Fatal(err)
	}
	file = changed(t, etcdtest.SingleStack, "drift.db.gz", map[string][]byte{"/registry/servicecidrs/kubernetes": b})
	for _, format := range []string{"wide", "html"} {
		if code, stdout, stderr := run(t, "audit", "--etcd-snapshot", file, "-o", format); code != exitFound || stdout == "" || stderr != "" {
			t.Errorf("exit code %d, stderr %q", code, stderr)
		}
	}
}

// TestPlanScreen looks for every finding and leak of the audit in the screen of the repair, below what becomes of it.
func TestPlanScreen(t *testing.T) {
	for cluster := range bitmaps {
		file := etcdtest.Fixture(cluster, "drift.db.gz")
		r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
		_, stdout, _ := run(t, "repair", "--etcd-snapshot", file, "-o", "wide")
		stdout, _, _ = strings.Cut(stdout, "\nNext\n")
		lines, group, reason := map[string]int{}, "", ""
		for line := range strings.Lines(stdout) {
			switch title, _, isTitle := strings.Cut(line, ": "); {
			case strings.HasPrefix(line, "      "): // a claimant
			case strings.HasPrefix(line, "    A stock kube-apiserver frees "): // the last line of its list, wrapped or not
				reason = ""
			case strings.HasPrefix(line, "    ") && reason == "":
			case strings.HasPrefix(line, "    ") && group != "":
				lines[strings.Join(strings.Fields(group+" | "+reason+" | "+line), " ")]++
			case strings.HasPrefix(line, "  "):
				reason, _, _ = strings.Cut(line, "(")
			case isTitle:
				group = title
			}
		}
		objects := map[string]bool{}
		for _, row := range r.Ranges {
			objects[row.Name] = row.Mode == audit.ModeIPAddress
		}
		check := func(parts ...string) {
			t.Helper()
			if line := strings.Join(strings.Fields(strings.Join(parts, " ")), " "); lines[line] != 1 {
				t.Errorf("%s: %q is shown %d times", cluster, line, lines[line])
			}
		}
		for _, f := range r.Findings {
			name := f.Namespace + "/" + f.Name
			if f.Namespace == "" {
				name = "IPAddress" // its name is the value
			}
			if f.ParentRef != "" {
				name += " of " + f.ParentRef
			}
			switch f.Reason {
			case "ClusterIPNotAllocated", "PortNotAllocated", "BitmapDisagrees", "IPAddressWrongReference", "IPAddressNotAllocated":
				repair := "Set in the bitmap"
				if objects[f.Range] {
					repair = "Repaired in the snapshot"
				}
				check(repair, "|", f.Reason, "|", f.Value, name, f.Range)
			default:
				check("Only the owner of the Service can repair |", f.Reason, "|", f.Value, name, f.Range, f.Message)
			}
		}
		for _, l := range r.Leaks {
			repair := "Cleared in the bitmap"
			if objects[l.Range] {
				repair = "Repaired in the snapshot"
			}
			check(repair, "| Leak |", l.Value, l.Range)
		}
		total := 0
		for _, n := range lines {
			total += n
		}
		if total != len(r.Findings)+len(r.Leaks) {
			t.Errorf("%s: %d rows for %+v", cluster, total, r.Summary)
		}
	}
}

// TestSorted compares the lists of all documents with what sorting makes of them.
func TestSorted(t *testing.T) {
	for cluster := range bitmaps {
		file := etcdtest.Fixture(cluster, "drift.db.gz")
		// Of each row: the range, the value, and the rest as text.
		sorted := func(list [][]string) {
			t.Helper()
			if len(list) < 2 || !slices.IsSortedFunc(list, func(a, b []string) int {
				return cmp.Or(cmp.Compare(a[0], b[0]), audit.CompareValues(a[1], b[1]), slices.Compare(a[2:], b[2:]))
			}) {
				t.Errorf("%s: %q", cluster, list)
			}
		}
		r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
		var findings, leaks [][]string
		for _, f := range r.Findings {
			findings = append(findings, []string{f.Range, f.Value, f.Namespace, f.Name})
		}
		for _, l := range r.Leaks {
			leaks = append(leaks, []string{l.Range, l.Value})
		}
		sorted(findings)
		sorted(leaks)
		for _, row := range runJSON[audit.Plan](t, exitFound, "repair", "--etcd-snapshot", file).Ranges {
			if !slices.IsSortedFunc(row.Set, audit.CompareValues) || !slices.IsSortedFunc(row.Clear, audit.CompareValues) {
				t.Errorf("%s: %q", cluster, row)
			}
		}
	}
}

// TestSeverities recounts the summaries of both documents.
func TestSeverities(t *testing.T) {
	of := map[string]audit.Severity{
		"ClusterIPNotValid": audit.BreaksTraffic, "ClusterIPAlreadyAllocated": audit.BreaksTraffic, "ClusterIPOutOfRange": audit.BreaksTraffic,
		"PortAlreadyAllocated": audit.BreaksTraffic, "PortOutOfRange": audit.BreaksTraffic,
		"ClusterIPNotAllocated": audit.DuplicateRisk, "PortNotAllocated": audit.DuplicateRisk,
		"IPAddressNotAllocated": audit.Wasted, "IPAddressWrongReference": audit.Wasted, "BitmapDisagrees": audit.Wasted,
	}
	for cluster := range bitmaps {
		file := etcdtest.Fixture(cluster, "drift.db.gz")
		r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
		counts := map[audit.Severity]int{audit.Wasted: len(r.Leaks)}
		for _, f := range r.Findings {
			if f.Severity != of[f.Reason] {
				t.Errorf("%s: %q is %s", cluster, f.Reason, f.Severity)
			}
			counts[f.Severity]++
		}
		for _, l := range r.Leaks {
			if l.Severity != audit.Wasted {
				t.Errorf("%s: %+v", cluster, l)
			}
		}
		p := runJSON[audit.Plan](t, exitFound, "repair", "--etcd-snapshot", file)
		for _, s := range audit.Severities {
			n := audit.Count{Found: counts[s]}
			inPlan := audit.Count{Found: n.Found, IsAtLeast: s == audit.Exhausted} // which no repair looks for
			if got, planned := *r.Summary.BySeverity.Of(s), *p.Summary.BySeverity.Of(s); n.Found == 0 != (s == audit.Exhausted) || got != n || planned != inPlan {
				t.Errorf("%s: %s %v, %v and %v", cluster, s, n, got, planned)
			}
		}
	}
}

// TestNamespace shows the findings of each namespace alone: together they are all.
func TestNamespace(t *testing.T) {
	source := []string{"audit", "--etcd-snapshot", etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz")}
	all := runJSON[audit.Report](t, exitFound, append(source, "-A")...)
	namespaces := map[string]bool{}
	for _, f := range all.Findings {
		namespaces[f.Namespace] = true
	}
	n := 0
	for namespace := range namespaces {
		some := runJSON[audit.Report](t, exitFound, append(source, "-n", namespace)...)
		for _, f := range some.Findings {
			if f.Namespace != namespace {
				t.Errorf("-n %s: %+v", namespace, f)
			}
		}
		if n += len(some.Findings); len(some.Leaks) != 0 || some.Summary.Findings.Found != len(some.Findings) || some.Summary.Services != all.Summary.Services {
			t.Errorf("-n %s: %+v", namespace, some.Summary)
		}
	}
	// The leaks of a cluster are no fault of a namespace.
	if none := runJSON[audit.Report](t, exitOK, append(source, "-n", "kube-public")...); none.Has(audit.Wasted) {
		t.Errorf("%+v", none)
	}
	if n != len(all.Findings) || len(namespaces) < 2 {
		t.Errorf("%d findings in %d namespaces, %d in all", n, len(namespaces), len(all.Findings))
	}
}
