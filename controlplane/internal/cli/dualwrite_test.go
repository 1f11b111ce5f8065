package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	releases "github.com/rangekeeper/rangekeeper/controlplane/kubernetes"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestBitmapDisagreesOnAServer has a stock 1.33, which records a ClusterIP in a bitmap and in an object, refuse an address
// for a bit that nothing needs (kubernetes#136475), and cures it. After an upgrade to 1.34 the bitmap is left over.
func TestBitmapDisagreesOnAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	start := func(release string) (*apiservertest.Server, *kubernetes.Clientset) {
		server := apiservertest.Start(t, apiservertest.Config{
			Version: apiservertest.Version(releases.Release(release)), Etcd: etcd.Endpoints(), OwnLoops: true,
		})
		client, err := kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin))
		if err != nil {
			t.Fatal(err)
		}
		return server, client
	}
	source := []string{"--endpoints", etcd.Endpoints()[0]}
	audited := func(want int) audit.Report {
		t.Helper()
		return runJSON[audit.Report](t, want, append([]string{"audit"}, source...)...)
	}
	mode := func(report audit.Report) audit.RangeMode {
		for _, r := range report.Ranges {
			if r.Name == audit.ServiceIPs {
				return r.Mode
			}
		}
		return ""
	}
	server, client := start("1.33")
	create := func(client *kubernetes.Clientset, name, address string) error {
		_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		return err
	}
	const stale, other = "10.96.0.77", "10.96.0.78"
	wait := func(condition func() error) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			if err := condition(); err == nil {
				return
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	// The server needs a moment for its first ServiceCIDR, and for the object of its own Service.
	wait(func() error { return create(client, "other", other) })
	wait(func() error {
		if code, stdout, stderr := run(t, append([]string{"audit"}, source...)...); code != exitOK {
			return errors.New(stdout + stderr)
		}
		return nil
	})
	if report := audited(exitOK); mode(report) != audit.ModeBitmap {
		t.Errorf("%+v", report.Ranges)
	}

	setBit(t, etcd.Endpoints()[0], stale)
	refused := create(client, "web", stale)
	if refused == nil || !strings.Contains(refused.Error(), "already allocated") {
		t.Fatal("not refused:", refused)
	}
	report := audited(exitFound)
	if len(report.Leaks) != 0 || len(report.Findings) != 1 || report.Findings[0].Reason != rangekeeper.ReasonBitmapDisagrees.String() ||
		report.Findings[0].Value != stale || report.Findings[0].Kind != audit.KindServiceCIDR || report.Findings[0].Name != "kubernetes" {
		t.Errorf("%+v, %+v", report.Findings, report.Leaks)
	}
	_, explained, _ := run(t, append([]string{"explain", stale}, source...)...)
	if !strings.Contains(strings.Join(strings.Fields(explained), " "), "refuses it as already allocated; repair clears it") {
		t.Error(explained)
	}
	// A request may be creating the object.
	plan := runJSON[audit.Plan](t, exitFound, append([]string{"repair", "--apply"}, source...)...)
	if plan.LeaksLeft() != 1 || plan.ChangesAny() {
		t.Errorf("%+v", plan)
	}
	plan = runJSON[audit.Plan](t, exitOK, append([]string{"repair", "--apply", "--clean-leaks", "--interval", "1ms"}, source...)...)
	if plan.LeaksLeft() != 0 || len(plan.Findings) != 1 || !plan.ChangesAny() {
		t.Errorf("%+v", plan)
	}
	audited(exitOK)
	if err := create(client, "web", stale); err != nil {
		t.Error("still refused:", err)
	}
	audited(exitOK)

	// Nobody clears the bit of a Service that goes after the upgrade.
	server.Kill()
	_, client = start("1.34")
	if err := client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if report := audited(exitOK); mode(report) != audit.ModeStale {
		t.Errorf("%+v", report.Ranges)
	}
}

// setBit records an address in the bitmap alone.
func setBit(t *testing.T, endpoint, address string) {
	t.Helper()
	code, _, stderr := run(t, "allocate", "serviceips", address, "--endpoints", endpoint)
	if code != exitOK {
		t.Fatal(errors.New(stderr))
	}
}
