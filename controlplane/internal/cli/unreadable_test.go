package cli

import (
	"encoding/json"
	"html"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// TestUnreadableObjects damages one object of a snapshot. The audit goes on, all leaks stay, and nothing is repaired.
func TestUnreadableObjects(t *testing.T) {
	t.Parallel() // beside those that wait
	const (
		service = "/registry/services/specs/default/kubernetes"
		address = "/registry/ipaddresses/10.96.0.1"
		cidr    = "/registry/servicecidrs/kubernetes"
		fourGiB = "\xff\xff\xff\xff\x0f"
		head    = "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07Service\x12"
	)
	for _, c := range []struct{ name, cluster, kind, key, value, problem string }{
		{"damaged Service", etcdtest.DualStack, "Service", service, "k8s\x00\x0a", "damaged protobuf value"},
		{"Service that is not UTF-8", etcdtest.DualStack, "Service", service,
			head + "\x1c\x0a\x15\x0a\x0akubernetes\x1a\x07default\x12\x03\x1a\x01\xff", `"\xff" is not UTF-8`},
		{"Service of 4 GiB", etcdtest.DualStack, "Service", service, head + fourGiB, "damaged protobuf value"},
		{"name of 4 GiB", etcdtest.DualStack, "Service", service, head + "\x08\x0a\x06\x0a" + fourGiB, "damaged Service"},
		{"Service beside objects", "kube-1.37-dual-stack", "Service", service, "", "neither Kubernetes protobuf nor JSON nor YAML"},
		{"IPAddress", "kube-1.37-dual-stack", "IPAddress", address, "garbage", "neither Kubernetes protobuf nor JSON nor YAML"},
		{"IPAddress with a slash", "kube-1.37-dual-stack", "IPAddress", "/registry/ipaddresses/a/b",
			`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"a/b"}}`, "may not contain '/'"},
		{"ServiceCIDR", "kube-1.37-dual-stack", "ServiceCIDR", cidr, `{"kind":"ServiceCIDR"`, "damaged JSON value"},
		{"ServiceCIDR without a CIDR", "kube-1.37-dual-stack", "ServiceCIDR", "/registry/servicecidrs/c",
			`{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"c"},"spec":{"cidrs":["10.1.0.0"]}}`, `CIDR "10.1.0.0" has no prefix length`},
		// An API server serves them by their keys, under the names of others.
		{"IPAddress of another key", "kube-1.37-dual-stack", "IPAddress", "/registry/ipaddresses/0.0.0.0",
			`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"10.96.0.1"},"spec":{}}`, `its name "10.96.0.1" is not that of its key`},
		{"Service of another key", "kube-1.37-dual-stack", "Service", "/registry/services/specs/team-a/kubernetes",
			`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"kubernetes"}}`, `its name "default/kubernetes" is not that of its key`},
		{"ServiceCIDR of another key", "kube-1.37-dual-stack", "ServiceCIDR", "/registry/servicecidrs/other",
			`{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.37.9.0/24"]}}`,
			`its name "kubernetes" is not that of its key`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := changed(t, c.cluster, "drift.db.gz", map[string][]byte{c.key: []byte(c.value)})
			before := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", etcdtest.Fixture(c.cluster, "drift.db.gz"))
			r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
			if len(r.Unreadable) != 1 || r.Summary.Unreadable != 1 || r.Unreadable[0].Kind != c.kind || r.Unreadable[0].Key != c.key ||
				!strings.Contains(r.Unreadable[0].Message, c.problem) || r.Unreadable[0].Uncertain == "" {
				t.Errorf("%+v", r.Unreadable)
			}
			if len(r.Leaks) < len(before.Leaks) || len(r.Leaks) == 0 {
				t.Errorf("%d leaks, %d without the damage", len(r.Leaks), len(before.Leaks))
			}
			for _, l := range r.Leaks {
				if !l.Stays {
					t.Errorf("%+v does not stay", l)
				}
			}
			if more := len(r.Findings) - len(before.Findings); more > 1 {
				t.Errorf("%d more findings", more)
			}
			for _, command := range [][]string{{"audit"}, {"audit", "-o", "wide"}, {"audit", "-o", "html"}} {
				code, stdout, stderr := run(t, append(command, "--etcd-snapshot", file)...)
				if code != exitFound || stderr != "" || !strings.Contains(stdout, "1 object that cannot be read") || !strings.Contains(stdout, c.key) ||
					command[len(command)-1] != screen.FormatHTML && strings.Contains(stdout, "rangekeeper repair --") { // the page has the runbook's texts
					t.Errorf("%q: exit code %d, %.2000s%s", command, code, stdout, stderr)
				}
			}
			output := filepath.Join(t.TempDir(), "repaired.db")
			for _, command := range [][]string{{"repair"}, {"repair", "--to-file", output}} {
				code, stdout, stderr := run(t, append(command, "--etcd-snapshot", file)...)
				if code != exitInput || stdout != "" || !strings.Contains(stderr, file+": key "+c.key+": ") || !strings.Contains(stderr, c.problem) || !strings.Contains(stderr, "nothing more is written") {
					t.Errorf("%q: exit code %d, %s%s", command, code, stdout, stderr)
				}
			}
			if _, err := os.Stat(output); err == nil {
				t.Error("a snapshot was written")
			}
			for _, command := range [][]string{{"show", "servicenodeports"}, {"explain", "30001"}, {"free", "servicenodeports"}} {
				code, _, stderr := run(t, append(command, "--etcd-snapshot", file)...)
				if code > exitFound || code == exitOK && command[0] != "explain" || !strings.Contains(stderr, "1 object cannot be read") {
					t.Errorf("%q: exit code %d, %s", command, code, stderr)
				}
			}
			use := runJSON[audit.RangeUse](t, exitFound, "show", "servicenodeports", "--etcd-snapshot", file)
			free := runJSON[audit.FreeList](t, exitFound, "free", "servicenodeports", "--etcd-snapshot", file)
			if !slices.Equal(use.Unreadable, r.Unreadable) || !slices.Equal(free.Unreadable, r.Unreadable) {
				t.Errorf("show: %+v, free: %+v", use.Unreadable, free.Unreadable)
			}
			p := runJSON[preflight.Report](t, exitFound, "preflight", "--to", "1.37", "--etcd-snapshot", file)
			found := false
			for _, check := range p.Checks {
				found = found || check.Name == "Unreadable" && check.Level == preflight.Must && strings.Contains(check.Message, c.key)
			}
			if !found {
				t.Errorf("preflight: %+v", p.Checks)
			}
			if _, shown, _ := run(t, "preflight", "--to", "1.37", "--etcd-snapshot", file); strings.Contains(shown, `\"`) || !strings.Contains(shown, "  Unreadable: These objects") {
				t.Errorf("a check in quotes:\n%s", shown)
			}
		})
	}
}

// TestUnreadableAlone finds nothing but a Service that cannot be decoded.
func TestUnreadableAlone(t *testing.T) {
	file := changed(t, etcdtest.DualStack, "clean.db.gz", map[string][]byte{"/registry/services/specs/default/broken": []byte("broken")})
	if r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file); len(r.Findings)+len(r.Leaks) != 0 || r.Summary.Unreadable != 1 {
		t.Errorf("%+v", r)
	}
	// Elsewhere it may use the values of a namespace, which is unknown there.
	r := runJSON[audit.Report](t, exitUnseen, "audit", "--etcd-snapshot", file, "-n", "kube-system", "--strict")
	if r.Namespace != "kube-system" || r.Summary.Unreadable != 0 || len(r.Unknown) != 1 || !r.Summary.Findings.IsAtLeast || r.Summary.Leaks.IsAtLeast {
		t.Errorf("%+v", r)
	}
}

// ipAddressObject is a stored object of the allocator; spec has its fields.
func ipAddressObject(t *testing.T, name, spec string) []byte {
	t.Helper()
	text, err := json.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":` + string(text) +
		`,"labels":{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io"}},"spec":{` + spec + `}}`)
}

// TestHostileNames looks for commands with the names of objects that a shell or kubectl takes for something else.
func TestHostileNames(t *testing.T) {
	names := []string{"--all", "-oyaml", "$(touch x)", "a\x1b[31mb", "a'b", "FOO"}
	file := etcdtest.Fixture("kube-1.37-dual-stack", "clean.db.gz")
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			e := etcdtest.Start(t, file)
			const parent = `"parentRef":{"resource":"services","namespace":"default","name":"gone"}`
			key := "/registry/ipaddresses/" + name
			if _, err := e.Client().Put(t.Context(), key, string(ipAddressObject(t, name, parent))); err != nil {
				t.Fatal(err)
			}
			endpoints := "--endpoints=" + strings.Join(e.Endpoints(), ",")
			for _, command := range [][]string{{"audit"}, {"audit", "-o", "wide"}, {"audit", "-o", "json"}, {"repair"}} {
				code, stdout, stderr := run(t, append(command, endpoints)...)
				if code != exitFound || strings.ContainsAny(stdout+stderr, "\x1b") || strings.Contains(stdout, "delete ipaddress") || strings.Contains(stdout, "etcdctl del") {
					t.Errorf("%q: exit code %d, %s%s", command, code, stdout, stderr)
				}
				if n := strings.Count(stdout, "rangekeeper explain "); n != 1 && command[len(command)-1] != screen.FormatJSON {
					t.Errorf("%q: %d next steps explain:\n%s", command, n, stdout)
				}
			}
			if _, page, _ := run(t, "audit", "-o", "html", endpoints); strings.Contains(page, "delete ipaddress "+html.EscapeString(name)) || strings.Contains(page, "delete ipaddress &#39;") {
				t.Error("the page has a command with the name")
			}
			if _, err := e.Client().Put(t.Context(), key, "broken"); err != nil {
				t.Fatal(err)
			}
			if code, _, stderr := run(t, "repair", endpoints); code != exitInput || strings.ContainsAny(stderr, "\x1b") {
				t.Errorf("exit code %d, %q", code, stderr)
			}
		})
	}
}

// TestRepairFaultyObjects removes IPAddress objects that no API server accepts from a snapshot.
func TestRepairFaultyObjects(t *testing.T) {
	file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{
		"/registry/ipaddresses/010.37.0.250": ipAddressObject(t, "010.37.0.250", `"parentRef":{"resource":"services","namespace":"default","name":"gone"}`),
		"/registry/ipaddresses/10.37.0.251":  ipAddressObject(t, "10.37.0.251", ""),
	})
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	if len(r.Findings) != 2 || r.Findings[0].Reason != "IPAddressWithoutParent" || r.Findings[0].Severity != audit.BreaksTraffic || r.Findings[1].Reason != "IPAddressNotCanonical" {
		t.Errorf("%+v", r.Findings)
	}
	output := filepath.Join(t.TempDir(), "repaired.db")
	if code, stdout, stderr := run(t, "repair", "--etcd-snapshot", file, "--to-file", output); code != exitOK {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := run(t, "audit", "--etcd-snapshot", output); code != exitOK {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	e := etcdtest.Start(t, file)
	endpoints := strings.Join(e.Endpoints(), ",")
	_, shown, _ := run(t, "audit", "--endpoints", endpoints)
	words := strings.Join(strings.Fields(strings.ReplaceAll(shown, "\\\n", "")), " ")
	if !strings.Contains(words, " etcdctl --endpoints "+endpoints+" del /registry/ipaddresses/10.37.0.251 ") {
		t.Errorf("no next step:\n%s", shown)
	}
}

// TestUnreadableBetweenPasses puts an object that cannot be decoded after the first pass of a repair, which has
// written.
func TestUnreadableBetweenPasses(t *testing.T) {
	before := edit.LeakAge
	edit.LeakAge = time.Millisecond
	t.Cleanup(func() { edit.LeakAge = before })
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	written := e.Client().Watch(t.Context(), "/registry/ranges/", clientv3.WithPrefix())
	put := make(chan error, 1)
	go func() {
		<-written
		_, err := e.Client().Put(t.Context(), "/registry/services/specs/default/broken", "broken")
		put <- err
	}()
	code, stdout, stderr := run(t, "repair", "--apply", "--clean-leaks", "--interval", "2s", "--endpoints", strings.Join(e.Endpoints(), ","))
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	if code != exitInput || !strings.Contains(strings.ReplaceAll(stdout, "\n", " "), " set, 0 cleared (applied, and ended before the rest)") || !strings.Contains(stderr, "nothing more is written") || strings.Contains(stderr, "so nothing is written") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// TestExplainWithoutParent explains an address whose object has no reference: no server recreates it.
func TestExplainWithoutParent(t *testing.T) {
	file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{"/registry/ipaddresses/10.37.0.1": ipAddressObject(t, "10.37.0.1", "")})
	code, stdout, stderr := run(t, "explain", "10.37.0.1", "--etcd-snapshot", file)
	if code != exitFound || strings.Contains(stdout, "kube-apiserver recreates") || !strings.Contains(stdout, "Repair:     its IPAddress object has no spec.parentRef") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// TestParentRef has objects whose spec.parentRef leads to no Service that uses the address, which a kube-apiserver
// removes (pkg/registry/core/service/ipallocator/controller/repairip.go).
func TestParentRef(t *testing.T) {
	parents := map[string][3]string{ // JSON, reason, text
		"10.37.0.251": {`{}`, "IPAddressNotAllocated", ""},
		"10.37.0.252": {`{"group":"apps","resource":"deployments","namespace":"shop","name":"web"}`, "IPAddressNotAllocated", "deployments.apps shop/web"},
		"10.37.0.253": {`{"group":"","resource":"nodes","name":"one"}`, "IPAddressNotAllocated", "nodes one"},
		"10.37.0.254": {`{"resource":"services","namespace":"default","name":"kubernetes"}`, "IPAddressWrongReference", "default/kubernetes"},
	}
	objects := map[string][]byte{}
	for name, one := range parents {
		objects["/registry/ipaddresses/"+name] = ipAddressObject(t, name, `"parentRef":`+one[0])
	}
	file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", objects)
	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	got := map[string][3]string{}
	for _, f := range r.Findings {
		got[f.Value] = [3]string{parents[f.Value][0], f.Reason, f.ParentRef}
	}
	if !maps.Equal(got, parents) {
		t.Errorf("got %v, want %v", got, parents)
	}
	if _, shown, _ := run(t, "audit", "--etcd-snapshot", file); !strings.Contains(shown, "10.37.0.254  IPAddress of default/kubernetes  ") {
		t.Error(shown)
	}
	if _, shown, _ := run(t, "explain", "10.37.0.252", "--etcd-snapshot", file); !strings.Contains(shown, "\nObject:     its IPAddress object is of deployments.apps shop/web\n") {
		t.Error(shown)
	}
}

// TestNothingIsWrittenBesideUnreadableObjects has each command that writes to etcd meet a Service that cannot be
// decoded.
func TestNothingIsWrittenBesideUnreadableObjects(t *testing.T) {
	const key = "/registry/services/specs/default/broken"
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	plan := filepath.Join(t.TempDir(), "plan.json")
	before := edit.LeakAge
	edit.LeakAge = time.Millisecond
	t.Cleanup(func() { edit.LeakAge = before })
	endpoints := "--endpoints=" + strings.Join(e.Endpoints(), ",")
	if code, _, stderr := run(t, "repair", endpoints, "--plan-to", plan); code != exitFound {
		t.Fatal(stderr)
	}
	content, err := os.ReadFile(plan)
	if err == nil {
		err = os.WriteFile(plan+"3", content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "repair", "--apply", "--plan", plan, endpoints); code > exitFound {
		t.Fatal(stderr)
	}
	put, err := e.Client().Put(t.Context(), key, "broken")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"repair"}, {"repair", "--apply"}, {"repair", "--apply", "--clean-leaks"}, {"repair", "--plan-to", plan + "2"}, {"repair", "--apply", "--plan", plan + "3"}, {"undo", plan + edit.JournalSuffix},
		{"allocate", "servicenodeports"}, {"release", "servicenodeports", "32000"},
	} {
		code, stdout, stderr := run(t, append(command, endpoints)...)
		if code != exitInput || stdout != "" || !strings.Contains(stderr, "key "+key+": neither Kubernetes protobuf nor JSON nor YAML") {
			t.Errorf("%q: exit code %d, %s%s", command, code, stdout, stderr)
		}
	}
	// But for the looks, which are gone.
	got, err := e.Client().Get(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithMinModRev(put.Header.Revision+1), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) > 0 {
		t.Errorf("something was written: %v", got.Kvs)
	}
}

// TestExplainBesideUnreadableObjects says for which answers an object is needed that cannot be decoded.
func TestExplainBesideUnreadableObjects(t *testing.T) {
	const (
		service = "/registry/services/specs/default/kubernetes"
		address = "/registry/ipaddresses/10.37.0.1"
		cidr    = "/registry/servicecidrs/kubernetes"
	)
	for _, c := range []struct {
		key, argument string
		want          []string
	}{
		{cidr, "10.37.0.1", []string{"Range:      unknown: " + cidr + " cannot be read", "restore or delete"}},
		{address, "10.37.0.1", []string{"Allocated:  yes", "Object:     " + address + " cannot be read", "Services:   default/kubernetes"}},
		{service, "10.37.0.1", []string{"Allocated:  yes", "Services:   unknown: " + service + " cannot be read", "perhaps a leak"}},
		{service, "30001", []string{"Services:   unknown: " + service + " cannot be read"}},
		{address, "default/kubernetes", []string{"Allocated:  yes", "Object:     " + address + " cannot be read"}},
		{address, "10.37.0.2", []string{"Allocated:  unknown: " + address + " cannot be read"}},
	} {
		file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{c.key: []byte("broken")})
		code, stdout, stderr := run(t, "explain", c.argument, "--etcd-snapshot", file)
		if code != exitFound || !strings.Contains(stderr, "1 object cannot be read") {
			t.Errorf("%s without %s: exit code %d, %s", c.argument, c.key, code, stderr)
		}
		text := strings.Join(strings.Fields(stdout), " ")
		for _, want := range c.want {
			if !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s without %s: no %q in\n%s", c.argument, c.key, want, stdout)
			}
		}
		for _, advice := range []string{"must recreate it", "removes its", "makes its", "none hands it out", "rangekeeper repair"} {
			if strings.Contains(text, advice) {
				t.Errorf("%s without %s: %q in\n%s", c.argument, c.key, advice, stdout)
			}
		}
		e := runJSON[audit.Explanations](t, exitFound, "explain", c.argument, "--etcd-snapshot", file)
		for _, value := range e.Values {
			if len(value.Unreadable) != 1 || value.Unreadable[0].Key != c.key {
				t.Errorf("%+v", value)
			}
		}
	}
	file := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{service: []byte("broken")})
	for name, want := range map[string]string{"default/kubernetes": "key " + service + ": Service default/kubernetes cannot be read", "default/kube": "there is no Service default/kube"} {
		if code, stdout, stderr := run(t, "explain", name, "--etcd-snapshot", file); (code != exitNone) == strings.Contains(want, "there is no") || code == exitOK || stdout != "" || !strings.Contains(stderr, want+"\n") && !strings.Contains(stderr, want+": ") {
			t.Errorf("%s: exit code %d, %s%s", name, code, stdout, stderr)
		}
	}
}
