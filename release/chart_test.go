package release

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	chart = "deploy/chart"
	base  = "deploy/base"
)

// render runs one of the tools of go.mod and returns the objects that it prints, by kind, namespace and name.
func render(t *testing.T, tool string, args ...string) map[string]any {
	t.Helper()
	text, err := run(tool, args...)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]any{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		var all any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%s %s: %v", tool, args, err)
		}
		if err := yaml.Unmarshal([]byte(document), &all); err != nil {
			t.Fatalf("%s %s: %v", tool, args, err)
		}
		objects[object.Kind+" "+object.Metadata.Namespace+"/"+object.Metadata.Name] = all
	}
	return objects
}

// programs are paths of tools of go.mod: `go tool` would look for what it has to build each time.
var programs = map[string]func() (string, error){
	"helm":      sync.OnceValues(func() (string, error) { return build("helm") }),
	"kustomize": sync.OnceValues(func() (string, error) { return build("kustomize") }),
}

func build(tool string) (path string, err error) {
	command := exec.Command("go", "tool", "-n", tool)
	var log bytes.Buffer
	command.Stderr = &log
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: %s", tool, err, &log)
	}
	return strings.TrimSpace(string(out)), nil
}

func run(tool string, args ...string) (stdout string, err error) {
	program, err := programs[tool]()
	if err != nil {
		return "", err
	}
	command := exec.Command(program, args...)
	var out, log bytes.Buffer
	command.Stdout, command.Stderr = &out, &log
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err, &log)
	}
	return out.String(), nil
}

// ranges are the values that have no default.
var ranges = []string{"--set", "serviceClusterIPRange=10.96.0.0/12,serviceNodePortRange=30000-32767"}

// overlay writes one of the base, with the lines of docs/install.md that set the ranges.
func overlay(t *testing.T) string {
	text, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, patches, found := strings.Cut(string(text), "    patches:\n")
	patches, _, ends := strings.Cut(patches, "\n\n")
	if !found || !ends {
		t.Fatal("docs/install.md has no patches")
	}
	dir := t.TempDir()
	to, err := filepath.Abs(base)
	if err != nil {
		t.Fatal(err)
	}
	from, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(from, to)
	if err != nil {
		t.Fatal(err)
	}
	text = fmt.Appendf(nil, "resources: [%s]\npatches:\n%s\n", relative, strings.ReplaceAll("\n"+patches, "\n    ", "\n"))
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestChartEqualsBase renders the Helm chart and an overlay of the kustomize base: they are the same objects.
func TestChartEqualsBase(t *testing.T) {
	if out, err := run("helm", append([]string{"lint", "--strict", chart}, ranges...)...); err != nil {
		t.Errorf("%v%s", err, out)
	}
	ofChart := render(t, "helm", append([]string{"template", "rangekeeper", chart, "--namespace", "kube-system"}, ranges...)...)
	ofBase := render(t, "kustomize", "build", overlay(t))
	if len(ofBase) != 6 {
		t.Errorf("the base has %d objects: %s", len(ofBase), slices.Sorted(maps.Keys(ofBase)))
	}
	for name, object := range ofBase {
		want, _ := yaml.Marshal(object)
		got, _ := yaml.Marshal(ofChart[name])
		if !bytes.Equal(want, got) {
			t.Errorf("%s is in the base\n%s\nand in the chart\n%s", name, want, got)
		}
		delete(ofChart, name)
	}
	for name := range ofChart {
		t.Errorf("only the chart has %s", name)
	}
}

// TestChartValues renders the chart with values of its user, and with some that it refuses.
func TestChartValues(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	objects := render(t, "helm", "template", "rangekeeper", chart, "--namespace", "control-plane",
		"--set", "image.repository=example.test/rangekeeper,image.digest="+digest,
		"--set-json", `etcd.endpoints=["https://192.0.2.1:2379","https://192.0.2.2:2379"]`,
		"--set-json", `serviceClusterIPRange="10.0.0.0/16,fd00::/112"`, "--set", "serviceNodePortRange=30000-30009",
		"--set-json", "nodeSelector=null", "--set-json", "tolerations=[]", "--set-json", "resources=null", "--set", "securePort=8443",
		"--set", "healthzBindAddress=0.0.0.0:10300,podMonitor=true,prometheusRule=true")
	object, _ := yaml.Marshal(objects["DaemonSet control-plane/rangekeeper-controller"])
	for _, want := range []string{
		"image: example.test/rangekeeper@" + digest + "\n", "--endpoints=https://192.0.2.1:2379,https://192.0.2.2:2379\n",
		"--service-cluster-ip-range=10.0.0.0/16,fd00::/112\n", "--service-node-port-range=30000-30009\n", "--secure-port=8443\n", `value: "8443"`,
		"--healthz-bind-address=0.0.0.0:10300\n", "port: 10300\n",
	} {
		if !strings.Contains(string(object), want) {
			t.Errorf("no %q in\n%s", want, object)
		}
	}
	for _, unwanted := range []string{"nodeSelector", "tolerations", "resources", "kube-system"} {
		if strings.Contains(string(object), unwanted) {
			t.Errorf("%q in\n%s", unwanted, object)
		}
	}

	monitor, _ := yaml.Marshal(objects["PodMonitor control-plane/rangekeeper-controller"])
	if !strings.Contains(string(monitor), "targetPort: 10300\n") || strings.Contains(string(object), "10288") {
		t.Errorf("%s", monitor)
	}

	rules, err := os.ReadFile(filepath.Join(chart, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var groups any
	if err := yaml.Unmarshal(rules, &groups); err != nil {
		t.Fatal(err)
	}
	if rule, ok := objects["PrometheusRule control-plane/rangekeeper"].(map[string]any); !ok || !reflect.DeepEqual(rule["spec"], groups) {
		t.Errorf("%v, not the alerts", rule)
	}

	refused := 0
	for _, set := range []string{
		"image.digest=0123", "securePort=0", "serviceNodePortRange=30000", "etcd.endpoints=null", "pkiDir=pki", "serviceClusterIpRange=10.0.0.0/16",
		"image.repository=a b", `image.repository="x`, "serviceClusterIPRange=nonsense", "serviceClusterIPRange=10.0.0.0/16\n        - --dry-run",
		"etcd.caFile=ca.crt", "etcd.endpoints[0]=https://x y", "serviceClusterIPRange=null", "serviceNodePortRange=null",
		"healthzBindAddress=10288", "healthzBindAddress=null", "podMonitor=yes", "prometheusRule=yes",
	} {
		_, err := run("helm", append(append([]string{"template", "rangekeeper", chart}, ranges...), "--set", set)...)
		name, _, _ := strings.Cut(set, "=")
		if err == nil || !strings.Contains(err.Error(), name[strings.LastIndex(name, ".")+1:]) {
			t.Errorf("%s: %v", set, err)
			continue
		}
		refused++
	}
	t.Logf("%d values are refused", refused)
}
