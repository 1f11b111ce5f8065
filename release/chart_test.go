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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
		"--set", "etcd.caFile=/pki/ca.crt,etcd.certFile=,etcd.keyFile=,etcd.user=reader,etcd.passwordFile=/pki/password,etcd.prefix=/other,runAsUser=1000",
		"--set", `serviceClusterIPRange=10.0.0.0/16\,fd00::/112`, "--set", "serviceNodePortRange=30000-30009", // as in docs/install.md
		"--set-json", "nodeSelector=null", "--set-json", "tolerations=[]", "--set-json", "resources=null", "--set", "securePort=8443",
		"--set", "kubernetesServiceNodePort=30001,endpointReconcilerType=master-count,apiserverCount=3,reconcilePorts=true,dryRun=true",
		"--set", "replaceRange={serviceips,servicenodeports}",
		"--set", "healthzBindAddress=0.0.0.0:10300,podMonitor=true,prometheusRule=true,scrapeInterval=1m30s,monitoringLabels.release=stack")
	object, _ := yaml.Marshal(objects["DaemonSet control-plane/rangekeeper-controller"])
	for _, want := range []string{
		"image: example.test/rangekeeper@" + digest + "\n", "--endpoints=https://192.0.2.1:2379,https://192.0.2.2:2379\n",
		"--service-cluster-ip-range=10.0.0.0/16,fd00::/112\n", "--service-node-port-range=30000-30009\n", "--secure-port=8443\n", `value: "8443"`,
		"--healthz-bind-address=0.0.0.0:10300\n", "containerPort: 10300\n", "host: 127.0.0.1\n", "--cacert=/pki/ca.crt\n", "--user=reader\n",
		"--password-file=/pki/password\n", "--prefix=/other\n", "runAsUser: 1000\n", "--kubernetes-service-node-port=30001\n",
		"--endpoint-reconciler-type=master-count\n", "--apiserver-count=3\n", "--reconcile-ports\n", "--dry-run\n", "--replace-range=serviceips,servicenodeports\n",
	} {
		if !strings.Contains(string(object), want) {
			t.Errorf("no %q in\n%s", want, object)
		}
	}
	for _, unwanted := range []string{"nodeSelector", "tolerations", "resources", "kube-system", "10288", "--cert", "--key", "/etc/kubernetes"} {
		if strings.Contains(string(object), unwanted) {
			t.Errorf("%q in\n%s", unwanted, object)
		}
	}

	monitor, _ := yaml.Marshal(objects["PodMonitor control-plane/rangekeeper-controller"])
	rule, _ := yaml.Marshal(objects["PrometheusRule control-plane/rangekeeper"])
	if !strings.Contains(string(monitor), "port: metrics\n") || !strings.Contains(string(monitor), "interval: 1m30s\n") ||
		!strings.Contains(string(monitor), "release: stack\n") || !strings.Contains(string(rule), "release: stack\n") {
		t.Errorf("%s%s", monitor, rule)
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
		"image.digest=0123", "securePort=0", "serviceNodePortRange=30000", "etcd.endpoints=null", "pkiDir=/pki", "serviceClusterIpRange=10.0.0.0/16",
		"image.repository=a b", `image.repository="x`, "serviceClusterIPRange=nonsense", "serviceClusterIPRange=10.0.0.0/16\n        - --dry-run",
		"etcd.caFile=ca.crt", "etcd.endpoints[0]=https://x y", "serviceClusterIPRange=null", "serviceNodePortRange=null",
		"healthzBindAddress=10288", "healthzBindAddress=null", "healthzBindAddress=[::]", "podMonitor=yes", "prometheusRule=yes",
		"podMonitor=true", "podMonitor=true,healthzBindAddress=127.0.0.2:10288", "podMonitor=true,healthzBindAddress=[::1]:10288",
		"scrapeInterval=often", "replaceRange={nonsense}", "endpointReconcilerType=all", "apiserverCount=0", "runAsUser=-1", "monitoringLabels.release=null",
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

// TestAddresses has the kubelet ask where the controller serves.
func TestAddresses(t *testing.T) {
	for address, host := range map[string]string{
		"127.0.0.1:10288": "127.0.0.1", "0.0.0.0:10288": "127.0.0.1", "[::]:10288": "::1", "[::1]:10288": "::1",
		"192.0.2.7:10288": "192.0.2.7", "[2001:db8::7]:10288": "2001:db8::7",
	} {
		set, _ := yaml.Marshal(render(t, "helm", slices.Concat([]string{"template", "rangekeeper", chart, "--namespace", "kube-system"}, ranges,
			[]string{"--set", "healthzBindAddress=" + address})...)["DaemonSet kube-system/rangekeeper-controller"])
		var daemons appsv1.DaemonSet
		if err := yaml.Unmarshal(set, &daemons); err != nil {
			t.Fatal(err)
		}
		container := daemons.Spec.Template.Spec.Containers[0]
		if !slices.Contains(container.Args, "--healthz-bind-address="+address) ||
			container.LivenessProbe.HTTPGet.Host != host || container.ReadinessProbe.HTTPGet.Host != host {
			t.Errorf("%s: %s", address, set)
		}
	}
}

// TestFiles has the Pod see the files of the flags, and nothing else of its node.
func TestFiles(t *testing.T) {
	set, _ := yaml.Marshal(render(t, "helm", slices.Concat([]string{"template", "rangekeeper", chart, "--namespace", "kube-system"}, ranges)...)["DaemonSet kube-system/rangekeeper-controller"])
	var daemons appsv1.DaemonSet
	if err := yaml.Unmarshal(set, &daemons); err != nil {
		t.Fatal(err)
	}
	want := []string{"/etc/kubernetes/pki/etcd/ca.crt", "/etc/kubernetes/pki/apiserver-etcd-client.crt", "/etc/kubernetes/pki/apiserver-etcd-client.key"}
	container := daemons.Spec.Template.Spec.Containers[0]
	var onNode, mounted []string
	for i, volume := range daemons.Spec.Template.Spec.Volumes {
		if *volume.HostPath.Type != corev1.HostPathFile || container.VolumeMounts[i].Name != volume.Name || !container.VolumeMounts[i].ReadOnly {
			t.Errorf("%+v, %+v", volume, container.VolumeMounts[i])
		}
		onNode, mounted = append(onNode, volume.HostPath.Path), append(mounted, container.VolumeMounts[i].MountPath)
	}
	if !slices.Equal(onNode, want) || !slices.Equal(mounted, want) {
		t.Errorf("%q of the node at %q", onNode, mounted)
	}
	of := container.SecurityContext
	if *of.AllowPrivilegeEscalation || !*of.ReadOnlyRootFilesystem || !slices.Equal(of.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		of.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", of)
	}
}

// TestNotes has `helm install` say what to do about a DaemonSet without a Pod.
func TestNotes(t *testing.T) {
	text, err := run("helm", slices.Concat([]string{"install", "rangekeeper", chart, "--dry-run=client", "--namespace", "control-plane"}, ranges,
		[]string{"--set", "nodeSelector.pool=masters"})...)
	if err != nil {
		t.Fatal(err)
	}
	_, notes, _ := strings.Cut(text, "NOTES:")
	for _, want := range []string{
		"--namespace control-plane rollout status daemonset/rangekeeper-controller", "0 Pods", "node-role.kubernetes.io/control-plane= pool=masters,",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}

// TestUnit has systemd judge what the controller's unit may do: 10 is all, and below 3 is little.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip(err)
	}
	unit, err := os.ReadFile("deploy/systemd/rangekeeper-controller.service")
	if err != nil {
		t.Fatal(err)
	}
	// The program is not installed here.
	file := filepath.Join(t.TempDir(), "rangekeeper-controller.service")
	if err := os.WriteFile(file, bytes.ReplaceAll(unit, []byte("/usr/local/bin/rangekeeper"), []byte("/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"security", "--offline=true", "--no-pager", "--threshold=30", file}, {"verify", "--man=no", file}} {
		if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze %q: %v\n%s", args, err, out)
		}
	}
}

// TestRunbooks has each alert name a place that the documents have.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			page, isOurs := strings.CutPrefix(rule.Annotations["runbook_url"], "https://github.com/rangekeeper/rangekeeper/blob/main/")
			file, anchor, _ := strings.Cut(page, "#")
			document, err := os.ReadFile(filepath.Join("..", file))
			if !isOurs || err != nil {
				t.Errorf("%s: %q: %v", rule.Alert, page, err)
				continue
			}
			var anchors []string
			for line := range strings.Lines(string(document)) {
				if title, isHeading := strings.CutPrefix(line, "## "); isHeading {
					anchors = append(anchors, strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-"))
				}
			}
			// The runbook has each reason, as a test of its package finds.
			if anchor != "" && anchor != "{{ $labels.reason | toLower }}" && !slices.Contains(anchors, anchor) {
				t.Errorf("%s: %s has no section %s", rule.Alert, file, anchor)
			}
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("%d alerts", checked)
	}
}
