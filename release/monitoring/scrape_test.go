// Package monitoring has the tests of the chart's monitoring that need Prometheus' own code, which takes minutes to
// compile: `make alerts`.
package monitoring

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	discovery "github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

// patience is for what takes a moment, on a machine that does much else.
const patience = time.Minute

// podMonitor is the part of a PodMonitor that decides which targets are scraped.
type podMonitor struct {
	Kind     string
	Metadata metav1.ObjectMeta
	Spec     struct {
		Selector            metav1.LabelSelector
		PodMetricsEndpoints []struct{ Port, Path, Interval string }
	}
}

// render returns the DaemonSet and the PodMonitor of the chart.
func render(t *testing.T, set string) (*appsv1.DaemonSet, *podMonitor) {
	t.Helper()
	out, err := exec.Command("go", "tool", "helm", "template", "rangekeeper", "../deploy/chart", "--namespace", "control-plane",
		"--set", "serviceClusterIPRange=10.96.0.0/12,serviceNodePortRange=30000-32767,podMonitor=true", "--set", set).Output()
	if err != nil {
		t.Fatal(err)
	}
	daemons, monitor := new(appsv1.DaemonSet), new(podMonitor)
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		for kind, into := range map[string]any{"DaemonSet": daemons, "PodMonitor": monitor} {
			if !strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
				continue
			}
			if err := yaml.Unmarshal([]byte(document), into); err != nil {
				t.Fatal(err)
			}
		}
	}
	return daemons, monitor
}

// rules are what the Prometheus operator makes of a PodMonitor to choose targets (v0.85.0, pkg/prometheus/promcfg.go,
// generatePodMonitorConfig).
func rules(t *testing.T, monitor *podMonitor) []*relabel.Config {
	t.Helper()
	if len(monitor.Spec.PodMetricsEndpoints) != 1 || len(monitor.Spec.Selector.MatchLabels) == 0 {
		t.Fatalf("%+v", monitor)
	}
	keep := func(regex string, sources ...string) *relabel.Config {
		config := relabel.DefaultRelabelConfig
		config.Action, config.Regex, config.NameValidationScheme = relabel.Keep, relabel.MustNewRegexp(regex), model.UTF8Validation
		for _, source := range sources {
			config.SourceLabels = append(config.SourceLabels, model.LabelName(source))
		}
		return &config
	}
	configs := []*relabel.Config{keep(monitor.Spec.PodMetricsEndpoints[0].Port, "__meta_kubernetes_pod_container_port_name")}
	for key, value := range monitor.Spec.Selector.MatchLabels {
		name := strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(key)
		configs = append(configs, keep("("+value+");true", "__meta_kubernetes_pod_label_"+name, "__meta_kubernetes_pod_labelpresent_"+name))
	}
	return configs
}

// discovered returns the targets that Prometheus finds in a Pod of the DaemonSet and another Pod of the namespace.
func discovered(t *testing.T, set *appsv1.DaemonSet, address string) (targets []labels.Labels) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: set.Spec.Template.Spec}
	pod.Name, pod.Namespace = "ours", set.Namespace
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, HostIP: address}
	other := pod.DeepCopy()
	other.Name, other.Labels = "other", map[string]string{"app.kubernetes.io/name": "other"}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	informer := informers.NewSharedInformerFactory(fake.NewSimpleClientset(pod, other), 0).Core().V1().Pods().Informer()
	groups := make(chan []*targetgroup.Group)
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "events"}, []string{"role", "event"})
	finder := discovery.NewPod(nil, informer, nil, nil, nil, nil, false, false, false, counts)
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("no Pod is listed")
	}
	go finder.Run(ctx, groups)
	for seen := map[string]bool{}; len(seen) < 2; {
		select {
		case <-ctx.Done():
			t.Fatalf("only %v are discovered", seen)
		case some := <-groups:
			for _, group := range some {
				if seen[group.Source] {
					continue
				}
				seen[group.Source] = true
				for _, target := range group.Targets {
					builder := labels.NewBuilder(labels.EmptyLabels())
					for name, value := range group.Labels.Merge(target) {
						builder.Set(string(name), string(value))
					}
					targets = append(targets, builder.Labels())
				}
			}
		}
	}
	return targets
}

// TestPodMonitorScrapes discovers a Pod of the chart with Prometheus' own code: exactly its port is scraped.
func TestPodMonitorScrapes(t *testing.T) {
	for _, c := range []struct{ set, address, want string }{
		{"healthzBindAddress=0.0.0.0:10300", "192.0.2.77", "192.0.2.77:10300"},
		{"healthzBindAddress=[::]:10288", "2001:db8::7", "[2001:db8::7]:10288"},
	} {
		set, monitor := render(t, c.set)
		if monitor.Metadata.Namespace != set.Namespace || monitor.Spec.PodMetricsEndpoints[0].Path != "/metrics" {
			t.Errorf("%+v", monitor)
		}
		configs := rules(t, monitor)
		targets := discovered(t, set, c.address)
		var scraped []string
		for _, target := range targets {
			if builder := labels.NewBuilder(target); relabel.ProcessBuilder(builder, configs...) {
				scraped = append(scraped, builder.Get("__address__")+" of "+builder.Get("__meta_kubernetes_pod_name"))
			}
		}
		if want := []string{c.want + " of ours"}; !slices.Equal(scraped, want) {
			t.Errorf("%s: %q are scraped, want %q, of %v", c.set, scraped, want, targets)
		}
	}
}
