package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/releases"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestBitmapDisagreesOnAServer has a stock 1.33, which records a ClusterIP in a bitmap and in an object, refuse an
// address for a bit that nothing needs (kubernetes#136475), and cures it. After an upgrade to 1.34 the bitmap is left
// over.
func TestBitmapDisagreesOnAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	start := func(release string) (*apiservertest.Server, *kubernetes.Clientset) {
		server := apiservertest.Start(t, apiservertest.Config{
			Version: apiservertest.Version(releases.Of(release)), Etcd: etcd.Endpoints(), OwnLoops: true,
		})
		client := clientOf(t, server)
		return server, client
	}
	source := []string{"--endpoints", etcd.Endpoints()[0]}
	audited := func(want int) audit.Report {
		t.Helper()
		return runJSON[audit.Report](t, want, append([]string{"audit"}, source...)...)
	}
	mode := func(report audit.Report) audit.RangeMode {
		for _, r := range report.Ranges {
			if r.Name == clusterstate.ServiceIPs {
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
	// faultless waits until an audit finds nothing. A server that has started needs a moment for its first ServiceCIDR,
	// its own Service, its lease and its endpoints.
	faultless := func() (report audit.Report) {
		t.Helper()
		eventually(t, func() error {
			code, stdout, stderr := run(t, append([]string{"audit", "-o", "json"}, source...)...)
			if code != exitOK {
				return errors.New(stdout + stderr)
			}
			return json.Unmarshal([]byte(stdout), &report)
		})
		return report
	}
	eventually(t, func() error { return create(client, "other", other) })
	report := faultless()
	if mode(report) != audit.ModeBitmap {
		t.Errorf("%+v", report.Ranges)
	}

	setBit(t, etcd.Endpoints()[0], stale)
	refused := create(client, "web", stale)
	if refused == nil || !strings.Contains(refused.Error(), "already allocated") {
		t.Fatal("not refused:", refused)
	}
	report = audited(exitFound)
	if len(report.Leaks) != 0 || len(report.Findings) != 1 || report.Findings[0].Reason != rangekeeper.ReasonBitmapDisagrees.String() ||
		report.Findings[0].Value != stale || report.Findings[0].Kind != audit.KindServiceCIDR || report.Findings[0].Name != "kubernetes" {
		t.Errorf("%+v, %+v", report.Findings, report.Leaks)
	}
	_, explained, _ := run(t, append([]string{"explain", stale}, source...)...)
	if !strings.Contains(strings.Join(strings.Fields(explained), " "), "refuses it as already allocated; repair clears it") {
		t.Error(explained)
	}
	began := time.Now()
	plan := runJSON[audit.Plan](t, exitOK, append([]string{"repair", "--apply"}, source...)...)
	if len(plan.Findings) != 1 || len(plan.AloneLeft()) != 0 || !cleared(&plan, stale) {
		t.Errorf("%+v", plan)
	}
	if took := time.Since(began); took < time.Minute {
		t.Errorf("cleared after %s, while a request may have been creating the object", took)
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
	if report := faultless(); mode(report) != audit.ModeStale {
		t.Errorf("%+v", report.Ranges)
	}
}

// cleared reports whether just these values were cleared.
func cleared(plan *audit.Plan, values ...string) bool {
	var all []string
	for _, r := range plan.Ranges {
		all = append(all, r.Clear...)
	}
	return slices.Equal(all, values)
}

// TestAloneInBitmap has addresses that only a bitmap records, and a leaked port, which a repair without --clean-leaks
// leaves.
func TestAloneInBitmap(t *testing.T) {
	const alone, used, port = "10.96.255.7", "10.96.255.8", "32000"
	start := func(t *testing.T, addresses ...string) (*embedded.Etcd, func(words ...string) []string) {
		etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualWrite, "clean.db.gz"))
		for _, address := range addresses {
			setBit(t, etcd.Endpoints()[0], address)
		}
		runOK(t, "allocate", "servicenodeports", port, "--endpoints", etcd.Endpoints()[0])
		return etcd, func(words ...string) []string { return append(words, "--endpoints", etcd.Endpoints()[0]) }
	}
	check := func(t *testing.T, with func(...string) []string, want ...string) {
		t.Helper()
		var left []string
		report := runJSON[audit.Report](t, exitFound, with("audit")...)
		for _, f := range report.Findings {
			left = append(left, f.Value)
		}
		for _, l := range report.Leaks {
			left = append(left, l.Value)
		}
		if !slices.Equal(left, want) {
			t.Errorf("left are %q, want %q", left, want)
		}
	}
	unhindered := func(context.Context, *pb.TxnRequest) error { return nil }

	t.Run("shown", func(t *testing.T) {
		_, with := start(t, alone)
		plan := runJSON[audit.Plan](t, exitFound, with("repair")...)
		if plan.Applied || !cleared(&plan, alone) || plan.LeaksLeft() != 1 {
			t.Errorf("%+v", plan)
		}
		if _, _, stderr := run(t, with("repair")...); strings.Contains(stderr, "waiting") {
			t.Error(stderr)
		}
		check(t, with, alone, port)
	})

	t.Run("reviewed", func(t *testing.T) {
		shortenLeakAge(t)
		_, with := start(t, alone)
		file := filepath.Join(t.TempDir(), "plan.json")
		if plan := runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file)...); !cleared(&plan, alone) {
			t.Errorf("%+v", plan)
		}
		apply := with("repair", "--apply", "--plan", file)
		setBit(t, with()[1], used)
		plan := runJSON[audit.Plan](t, exitFound, apply...)
		if !cleared(&plan, alone) || !slices.Equal(plan.AloneLeft(), []string{used}) || plan.LeaksLeft() != 1 {
			t.Errorf("%+v", plan)
		}
		check(t, with, used, port)
		run(t, with("undo", file+edit.JournalSuffix)...)
		check(t, with, alone, used, port)
	})

	t.Run("applied", func(t *testing.T) {
		etcd, with := start(t, alone, used)
		var log bytes.Buffer
		r := &repair{apply: true, passes: 2, log: writerFunc(func(b []byte) (int, error) {
			if bytes.Contains(b, []byte("waiting 0 s to look again: only a bitmap records 2 addresses, and")) {
				service := `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"late"},"spec":{"clusterIP":"` + used + `"}}`
				if _, err := etcd.Client().Put(t.Context(), "/registry/services/specs/default/late", service); err != nil {
					t.Error(err)
				}
			}
			return log.Write(b)
		})}
		plan, err := r.runWith(t, etcd, unhindered)
		if err != nil || !cleared(plan, alone) || len(plan.AloneLeft()) != 0 || plan.LeaksLeft() != 1 || !plan.Leaves() {
			t.Errorf("%+v, %v", plan, err)
		}
		if !strings.Contains(log.String(), "1 leak left: --clean-leaks") {
			t.Error(log.String())
		}
		check(t, with, used, port) // the Service has no object
	})

	t.Run("a Service after the list", func(t *testing.T) {
		etcd, with := start(t, alone)
		var log bytes.Buffer
		r := &repair{apply: true, passes: 2, log: &log}
		plan, err := r.runWith(t, etcd, func(ctx context.Context, swap *pb.TxnRequest) error {
			putService(t, etcd, "late", 32001)
			return nil
		})
		if err != nil || !cleared(plan) || !slices.Equal(plan.AloneLeft(), []string{alone}) || !r.leaves(plan) {
			t.Errorf("%+v, %v", plan, err)
		}
		if !strings.Contains(log.String(), alone+" left, which only a bitmap records: not known to have stayed so over all passes; run the command again\n") {
			t.Error(log.String())
		}
		check(t, with, alone, "32001", port)
	})

	t.Run("no Services", func(t *testing.T) {
		etcd, with := start(t, alone)
		r := &repair{apply: true, passes: 2, log: writerFunc(func(b []byte) (int, error) {
			_, err := etcd.Client().Delete(t.Context(), "/registry/services/specs/", clientv3.WithPrefix())
			return len(b), err
		})}
		if plan, err := r.runWith(t, etcd, unhindered); !errors.Is(err, rangekeeper.ErrNoServices) || !cleared(plan) {
			t.Errorf("%+v, %v", plan, err)
		}
		if report := runJSON[audit.Report](t, exitFound, with("audit")...); !slices.ContainsFunc(report.Findings, func(f audit.Finding) bool { return f.Value == alone }) {
			t.Errorf("%+v", report.Findings)
		}
	})

	t.Run("interrupted", func(t *testing.T) {
		_, with := start(t, alone)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out, log bytes.Buffer
		code := program.Run(ctx, with("repair", "--apply", "-o", "json"), &out, writerFunc(func(b []byte) (int, error) {
			if bytes.Contains(b, []byte("waiting 60 s to look again: only a bitmap records "+alone+", and a request that creates a Service may be under way\n")) {
				cancel()
			}
			return log.Write(b)
		}))
		if code != exitInterrupted || !strings.Contains(log.String(), "interrupted after pass 1 of 2, before anything is cleared") {
			t.Errorf("exit code %d: %s", code, log.String())
		}
		var plan audit.Plan
		if err := json.Unmarshal(out.Bytes(), &plan); err != nil || !cleared(&plan) || len(plan.AloneLeft()) != 1 {
			t.Errorf("%v: %s", err, out.String())
		}
		check(t, with, alone, port)
	})
}

// setBit records an address in the bitmap alone.
func setBit(t *testing.T, endpoint, address string) {
	t.Helper()
	code, _, stderr := run(t, "allocate", "serviceips", address, "--force", "--endpoints", endpoint)
	if code != exitOK {
		t.Fatal(errors.New(stderr))
	}
}

// TestAllocateBesideObjects refuses a bit that no server would repair.
func TestAllocateBesideObjects(t *testing.T) {
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "serviceips", "10.96.0.0/28")...)
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	runOK(t, with("allocate", "serviceips", "10.96.0.3")...)
	if _, err := e.Client().Put(t.Context(), "/registry/servicecidrs/kubernetes",
		`{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.96.0.0/28"]}}`); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"allocate", "serviceips"}, {"allocate", "serviceips", "10.96.0.4"}} {
		runFails(t, exitInput, []string{"/registry/ranges/serviceips", "IPAddress objects", "never free a value"}, with(args...)...)
	}
	runOK(t, with("allocate", "servicenodeports")...)
	runOK(t, with("allocate", "serviceips", "10.96.0.4", "--force")...)
	runOK(t, with("release", "serviceips", "10.96.0.3")...)
}
