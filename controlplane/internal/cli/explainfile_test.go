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
	for text, want := range map[string]string{
		"a: b\n": "document 1: is no object of Kubernetes: it has no kind", "kind: Pod\n---\nkind: Pod\n": "has no Service (2 objects of other kinds)",
		"---\nkind: List\nitems: [{kind: Service, spec: 1}]\n": "item 1: ", "{": "document 1: ", "": "has no Service (0 objects",
	} {
		file := write(text)
		runFails(t, exitInput, []string{"--filename " + file, want}, with(file)...)
	}
	runFails(t, exitInput, []string{"none.yaml"}, with("none.yaml")...)
}
