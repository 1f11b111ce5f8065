package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestExplainFile explains manifests: a new Service with values that are free, of another Service, and of another one
// of the file, and one that is in the cluster.
func TestExplainFile(t *testing.T) {
	snapshot := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	services := etcdtest.Objects(&readFile(t, snapshot).Services)
	at := slices.IndexFunc(services, func(s corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeNodePort })
	used := services[at]
	user, address, port := used.Namespace+"/"+used.Name, used.Spec.ClusterIP, fmt.Sprint(used.Spec.Ports[0].NodePort)
	free := command.OK(t, "free", "servicenodeports", "--count", "1", "-o", "name", "--etcd-snapshot", snapshot)[0]
	write := func(text string) (file string) {
		file = filepath.Join(t.TempDir(), "manifest.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	service := func(namespace, name, spec string) string {
		return "{apiVersion: v1, kind: Service, metadata: {name: " + name + ", namespace: " + namespace + "}, spec: {" + spec + "}}\n"
	}
	with := func(file string, args ...string) []string {
		return append([]string{"explain", "-f", file, "--etcd-snapshot", snapshot}, args...)
	}
	file := write("# a comment\n---\napiVersion: v1\nkind: ConfigMap\n---\n" + service("a", "new", "clusterIP: "+address+", ports: [{nodePort: "+port+"}, {nodePort: "+free+"}]") +
		"---\napiVersion: v1\nkind: List\nitems:\n- " + service("b", "other", "ports: [{nodePort: "+free+"}]") + "- " + service(used.Namespace, used.Name, ""))
	document := runJSON[audit.Explanations](t, exitFound, with(file)...)
	got := map[string]string{}
	for _, e := range document.Values {
		got[e.Value] = strings.Join(e.NamedBy, ",") + " " + strings.Join(e.Services, ",")
	}
	if got[address] != "a/new "+user || got[port] != "a/new "+user || got[free] != "a/new,b/other " {
		t.Errorf("%v", got)
	}
	_, shown, _ := run(t, with(file)...)
	words := strings.Join(strings.Fields(shown), " ")
	for _, want := range []string{
		"Service a/new is not in the cluster, 3 values", "Service b/other is not in the cluster, 1 value", "Service " + user + " is in the cluster, ",
		"Conflict: a/new cannot use it: " + user + " does", "Conflict: several Services of the file name it: a/new, b/other",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	// What is free, and what a Service has itself.
	runJSON[audit.Explanations](t, exitOK, with(write(service("a", "new", "ports: [{nodePort: "+free+"}]")))...)
	runJSON[audit.Explanations](t, exitOK, with(write(service(used.Namespace, used.Name, "clusterIP: "+address)))...)
	document = runJSON[audit.Explanations](t, exitOK, with(write("{kind: Service, metadata: {name: web}, spec: {ports: [{nodePort: "+free+"}]}}"), "-n", "team")...)
	if len(document.Values) != 1 || !slices.Equal(document.Values[0].NamedBy, []string{"team/web"}) {
		t.Errorf("%+v", document.Values)
	}
	wrong := write(service("a", "new", "clusterIP: abc"))
	if code, _, stderr := run(t, with(wrong)...); code != exitFound || !strings.Contains(stderr, "Service a/new of "+wrong+` has "abc" where an address belongs`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	// What a server refuses whatever the cluster has, and what the API serves.
	for text, want := range map[string]string{
		service("a", "new", "clusterIPs: ["+address+"]"):                                          "has clusterIPs and no clusterIP",
		service("a", "new", "ports: [{nodePort: 99999}]"):                                         "has the node port 99999, which is no port",
		service("a", "new", "ports: [{nodePort: -1}]"):                                            "has the node port -1, which is no port",
		service("a", "new", "ports: [{nodePort: "+free+"}, {protocol: TCP, nodePort: "+free+"}]"): "has the node port " + free + " twice for TCP",
		service("a", "new", "healthCheckNodePort: "+free+", ports: [{nodePort: "+free+"}]"):       "has the node port " + free + " for its health check, too",
	} {
		file := write(text)
		if code, _, stderr := run(t, with(file)...); code != exitFound || stderr != "rangekeeper: Service a/new of "+file+" "+want+"\n" {
			t.Errorf("%s: exit code %d, %q", text, code, stderr)
		}
	}
	runJSON[audit.Explanations](t, exitOK, with(write(service("a", "new", "ports: [{nodePort: "+free+"}, {protocol: UDP, nodePort: "+free+"}]")))...)
	list := runJSON[audit.Explanations](t, exitFound, with(write("{apiVersion: v1, kind: ServiceList, items: [{metadata: {name: a}, spec: {clusterIP: "+address+"}}]}"))...)
	if len(list.Values) != 1 || list.Values[0].Conflict() != "default/a cannot use it: "+user+" does" {
		t.Errorf("%+v", list.Values)
	}
	for text, want := range map[string]string{
		"a: b\n": "document 1: is no object of Kubernetes: it has no kind", "kind: Pod\n---\nkind: Pod\n": "has no Service (2 objects of other kinds)",
		"---\nkind: List\nitems: [{kind: Service, spec: 1}]\n": "item 1: ", "{": "document 1: ", "": "has no Service (0 objects",
	} {
		file := write(text)
		runFails(t, exitInput, []string{"--filename " + file, want}, with(file)...)
	}
	runFails(t, exitInput, []string{"none.yaml"}, with("none.yaml")...)
}

// TestExplainFileOfTakenValues has values that a server refuses though no Service uses them: of another controller's
// IPAddress object, leaked, and outside of all ranges.
func TestExplainFileOfTakenValues(t *testing.T) {
	snapshot := changed(t, "kube-1.37-dual-stack", "clean.db.gz", map[string][]byte{
		"/registry/ipaddresses/10.37.0.77": []byte(`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"10.37.0.77"},` +
			`"spec":{"parentRef":{"group":"gateway.networking.k8s.io","resource":"gateways","namespace":"edge","name":"public"}}}`),
		"/registry/ipaddresses/10.37.0.78": ipAddressObject(t, "10.37.0.78", `"parentRef":{"resource":"services","namespace":"default","name":"gone"}`),
	})
	for value, want := range map[string]string{
		"10.37.0.77": "its IPAddress object is of gateways.gateway.networking.k8s.io edge/public",
		"10.37.0.78": "its IPAddress object is of default/gone",
		"10.99.0.1":  "no range hands it out",
		"10.37.0.0":  "no range hands it out", // the network address
	} {
		file := etcdtest.Write(t, []byte("{apiVersion: v1, kind: Service, metadata: {name: new}, spec: {clusterIP: "+value+"}}"))
		document := runJSON[audit.Explanations](t, exitFound, "explain", "-f", file, "--etcd-snapshot", snapshot)
		if len(document.Values) != 1 || document.Values[0].Conflict() != "default/new cannot use it: "+want {
			t.Errorf("%s: %+v", value, document.Values)
		}
		if _, shown, _ := run(t, "explain", "-f", file, "--etcd-snapshot", snapshot); !strings.Contains(strings.Join(strings.Fields(shown), " "), "Conflict: default/new cannot use it: "+want) {
			t.Error(shown)
		}
	}
}
