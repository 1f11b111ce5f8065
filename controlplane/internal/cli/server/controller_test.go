package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/controller"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/tcpproxy"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// controllerRun is a controller under way.
type controllerRun struct {
	cancel context.CancelFunc
	ended  chan int
	mu     sync.Mutex
	log    []string
}

func startController(t *testing.T, args ...string) *controllerRun {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &controllerRun{cancel: cancel, ended: make(chan int, 1)}
	r, w := io.Pipe()
	go func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			c.mu.Lock()
			c.log = append(c.log, s.Text())
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(c.said(), "\n"))
		}
	})
	go func() { c.ended <- Program.Run(ctx, append([]string{"controller"}, args...), io.Discard, w) }()
	return c
}

func (c *controllerRun) said(words ...string) (lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
next:
	for _, line := range c.log {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// stop stops it as a signal does.
func (c *controllerRun) stop(t *testing.T) {
	t.Helper()
	c.cancel()
	select {
	case code := <-c.ended:
		if code != exitOK {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

// patience is for what takes some seconds on a machine that has nothing else to do.
const patience = 2 * time.Minute

func eventually(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// notified returns what this program tells systemd from now on.
func notified(t *testing.T) <-chan string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	states := make(chan string, 8)
	go func() {
		for buffer := make([]byte, 256); ; {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			states <- string(buffer[:n])
		}
	}()
	return states
}

// TestController runs beside a server on a damaged cluster.
func TestController(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	s := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.V1_32, Etcd: etcd.Endpoints(), ServiceClusterIPRange: "10.96.0.0/12,fd00:10:96::/108",
	})
	args := []string{
		"--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", strings.Join(etcd.Endpoints(), ","),
		"--service-cluster-ip-range", "10.96.0.0/12,fd00:10:96::/108", "--service-node-port-range", "30000-32767", "--advertise-address", "192.0.2.10",
		"--secure-port", "7443", "--healthz-bind-address", "127.0.0.1:0",
	}
	keys := func() map[string]int64 {
		got, err := etcd.Client().Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]int64{}
		for _, kv := range got.Kvs {
			isRange := strings.HasPrefix(string(kv.Key), "/registry/ranges/") && !strings.HasSuffix(string(kv.Key), etcdstore.WitnessKey(""))
			if isRange || strings.HasPrefix(string(kv.Key), "/registry/masterleases/") || strings.HasSuffix(string(kv.Key), "/default/kubernetes") {
				all[string(kv.Key)] = kv.ModRevision
			}
		}
		return all
	}
	// The lease of the fixture's server would run out some time.
	if _, err := etcd.Client().Delete(t.Context(), "/registry/masterleases/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	before := keys()
	dry := startController(t, append(args, "--dry-run")...)
	eventually(t, func() error {
		if len(dry.said("dry run of a repair pass", "ipallocator")) == 0 || len(dry.said("would", "put lease /registry/masterleases/192.0.2.10")) == 0 {
			return errors.New("no dry run")
		}
		return nil
	})
	dry.stop(t)
	if after := keys(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("a dry run wrote: %v, %v", before, after)
	}

	systemd := notified(t)
	c := startController(t, args...)
	address := served(t, c)
	get := func(path string) (int, string) { return get(t, address+path) }
	eventually(t, func() error {
		if code, _ := get("/readyz"); code != http.StatusOK {
			return fmt.Errorf("/readyz: %d", code)
		}
		return nil
	})
	for _, path := range []string{"/healthz", "/livez"} {
		eventually(t, func() error {
			if code, text := get(path); code != http.StatusOK {
				return fmt.Errorf("%s: %d %s", path, code, text)
			}
			return nil
		})
	}
	if state := <-systemd; state != "READY=1" {
		t.Errorf("systemd is told %q", state)
	}
	if code, text := get("/version"); code != http.StatusOK || !strings.HasPrefix(text, "rangekeeper version ") {
		t.Error("/version", code, text)
	}
	if code, text := get("/debug/pprof/"); code != http.StatusOK || !strings.Contains(text, "goroutine") {
		t.Error("/debug/pprof/", code, text)
	}
	// As after the reference's first pass, metrics and all.
	state, err := clusterstate.ReadEtcd(t.Context(), etcd.Client(), clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"serviceips", "secondaryserviceips", "servicenodeports"} {
		if want := etcdtest.Gunzip(t, etcdtest.Fixture(etcdtest.DualStack, "repaired1-"+name+".bin.gz")); !bytes.Equal(state.Ranges[name].Value, want) {
			t.Errorf("%s is not what the reference stored", name)
		}
	}
	_, metrics := get("/metrics")
	for _, name := range []string{"apiserver_clusterip_repair_ip_errors_total{type=\"repair\"}", "apiserver_nodeport_repair_port_errors_total{type=\"duplicate\"}", "rangekeeper_repair_pass_duration_seconds", "rangekeeper_store_operations_total", "rangekeeper_range_free{range=\"servicenodeports\",values=\"30000-32767\"}", "rangekeeper_range_used{range=\"serviceips\",values=\"10.96.0.0/12\"}"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
	eventually(t, func() error {
		if _, metrics := get("/metrics"); !strings.Contains(metrics, "rangekeeper_apiserver_addresses{object=\"MasterLease\"} ") ||
			!strings.Contains(metrics, "rangekeeper_apiserver_addresses_agree 1") {
			return errors.New("no turn has found the endpoints right")
		}
		return nil
	})
	config := rest.CopyConfig(s.RESTConfig(apiservertest.Admin))
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		e, err := client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err == nil && !strings.Contains(e.String(), "192.0.2.10") {
			err = fmt.Errorf("%v", e.Subsets)
		}
		return err
	})
	events := func() error {
		list, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		counts := map[string]int{}
		for _, e := range list.Items {
			counts[e.ReportingController]++
		}
		if counts["ipallocator-repair-controller"] == 0 || counts["portallocator-repair-controller"] == 0 {
			return fmt.Errorf("events: %v", counts)
		}
		return nil
	}
	eventually(t, events)
	c.stop(t)
	if state := <-systemd; state != "STOPPING=1" {
		t.Errorf("systemd is told %q", state)
	}
	if n := len(keys()); n != len(before) { // the own lease is gone
		t.Errorf("%d keys, %d before", n, len(before))
	}
}

// TestControllerKeepsRanges runs beside a server that has other ranges, which Services use.
func TestControllerKeepsRanges(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	s := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.V1_32, Etcd: etcd.Endpoints(), OwnLoops: true,
		ServiceClusterIPRange: "10.43.0.0/16", ServiceNodePortRange: "30000-30004",
	})
	client := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	create := func(name string, port int32) error {
		_, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
		}, metav1.CreateOptions{})
		return err
	}
	eventually(t, func() error { return create("web", 30000) })
	if err := create("shop", 30002); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		return err
	})
	stored := func(name string) string {
		got, err := etcd.Client().Get(t.Context(), clusterstate.RangeKey(clusterstate.DefaultPrefix, name))
		if err != nil || len(got.Kvs) != 1 {
			t.Fatal(got, err)
		}
		object := new(corev1.RangeAllocation)
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(got.Kvs[0].Value, nil, object); err != nil {
			t.Fatal(err)
		}
		return object.Range
	}
	args := []string{
		"--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", strings.Join(etcd.Endpoints(), ","),
		"--service-cluster-ip-range", "10.96.0.0/12", "--service-node-port-range", "30001-30003", "--advertise-address", "192.0.2.10",
		"--healthz-bind-address", "127.0.0.1:0",
	}
	kept := func(c *controllerRun, words ...string) {
		t.Helper()
		for _, of := range [][]string{
			// The Services kubernetes, web and shop.
			{"serviceips", "10.43.0.0/16 (values recorded: 3)", "10.96.0.0/12 (Services outside of it: 3)"},
			{"servicenodeports", "30000-30004 (values recorded: 2)", "30001-30003 (Services outside of it: 1)"},
		} {
			words := slices.Concat(of, words)
			eventually(t, func() error {
				if len(c.said(words...)) == 0 {
					return fmt.Errorf("does not say %q", words)
				}
				return nil
			})
		}
	}
	dry := startController(t, append(args, "--dry-run")...)
	kept(dry, "would be kept")
	dry.stop(t)

	c := startController(t, args...)
	kept(c, "is kept", "--replace-range")
	address := served(t, c)
	eventually(t, func() error {
		if code, _ := get(t, address+"/readyz"); code != http.StatusOK {
			return fmt.Errorf("/readyz: %d: the other work does not go on", code)
		}
		return nil
	})
	if code, body := get(t, address+"/healthz"); code != http.StatusInternalServerError || !strings.Contains(body, "10.43.0.0/16") {
		t.Errorf("/healthz: %d %s", code, body)
	}
	c.stop(t)
	if one, two := stored("serviceips"), stored("servicenodeports"); one != "10.43.0.0/16" || two != "30000-30004" {
		t.Errorf("stored are %s and %s", one, two)
	}
	if err := create("another", 0); err != nil {
		t.Error(err)
	}
	events, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events.Items {
		if strings.Contains(event.Reason, "OutOfRange") || strings.Contains(event.Reason, "NotAllocated") {
			t.Errorf("an Event by a range that is not in force: %s", event.Note)
		}
	}

	args = append(args, "--replace-range", "servicenodeports")
	replaces := func(c *controllerRun, word string) {
		t.Helper()
		eventually(t, func() error {
			if len(c.said("servicenodeports", word, "30000-30004 (values recorded: 3)", "30001-30003 (Services outside of it:")) != 1 {
				return fmt.Errorf("does not say once what %s", word)
			}
			return nil
		})
	}
	dry = startController(t, append(args, "--dry-run")...)
	replaces(dry, "would be replaced")
	dry.stop(t)
	if now := stored("servicenodeports"); now != "30000-30004" {
		t.Errorf("stored is %s", now)
	}
	replacing := startController(t, args...)
	replaces(replacing, "was replaced")
	replacing.stop(t)
	if now := stored("servicenodeports"); now != "30001-30003" {
		t.Errorf("stored is %s", now)
	}
	if now := stored("serviceips"); now != "10.43.0.0/16" {
		t.Errorf("stored is %s", now)
	}
}

// TestControllerWithOtherServiceCIDR runs beside a server whose ranges are in a ServiceCIDR, with a range that is
// another one.
func TestControllerWithOtherServiceCIDR(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	s := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceClusterIPRange: "10.43.0.0/16",
	})
	client := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	eventually(t, func() error { // a server that has just started has none
		_, err := client.NetworkingV1().ServiceCIDRs().Get(t.Context(), clusterstate.DefaultServiceCIDR, metav1.GetOptions{})
		return err
	})
	started := func(ranges string) *controllerRun {
		t.Helper()
		c := startController(t, "--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", strings.Join(etcd.Endpoints(), ","),
			"--service-cluster-ip-range", ranges, "--service-node-port-range", "30000-32767", "--advertise-address", "192.0.2.10",
			"--healthz-bind-address", "127.0.0.1:0")
		address := served(t, c)
		eventually(t, func() error {
			if code, _ := get(t, address+"/readyz"); code != http.StatusOK {
				return fmt.Errorf("/readyz: %d", code)
			}
			return nil
		})
		code, body := get(t, address+"/healthz")
		words := []string{"another range of ClusterIPs is configured", "10.43.0.0/16", "10.0.0.0/24"}
		is := code == http.StatusInternalServerError && strings.Contains(body, "10.43.0.0/16") && len(c.said(words...)) == 1
		if other := ranges != "10.43.0.0/16"; is != other {
			t.Errorf("with %s /healthz is %d, %s", ranges, code, body)
		}
		return c
	}
	started("10.0.0.0/24").stop(t)
	started("10.43.0.0/16").stop(t)
}

// TestControllerOfTwoClusters names the API server of one cluster and the etcd of another.
func TestControllerOfTwoClusters(t *testing.T) {
	own, other := etcdtest.Start(t, ""), etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	s := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.V1_32, Etcd: own.Endpoints(), OwnLoops: true, ServiceClusterIPRange: "10.96.0.0/12"})
	revision := func() int64 {
		got, err := other.Client().Get(t.Context(), "/registry", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return got.Header.Revision
	}
	before := revision()
	client := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	eventually(t, func() error {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	})
	args := []string{
		"controller", "--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", strings.Join(other.Endpoints(), ","),
		"--service-cluster-ip-range", "10.96.0.0/12", "--service-node-port-range", "30000-32767", "--advertise-address", "192.0.2.10",
		"--healthz-bind-address", "",
	}
	for _, more := range []string{"--dry-run", "--dry-run=false", "--prefix=/elsewhere"} {
		command.Fails(t, exitInput, []string{"different clusters", "kube-system"}, append(args, more)...)
	}
	if after := revision(); after != before {
		t.Errorf("revision %d, %d before", after, before)
	}
}

// TestControllerRestored restores etcd with a new --initial-cluster-token under two controllers, with the server
// stopped meanwhile. The command keeps its lease and endpoint again; the one of this process, with short periods,
// repairs.
func TestControllerRestored(t *testing.T) {
	etcd := etcdtest.StartCluster(t, 1)
	direct := etcd.Client()
	s := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: etcd.Endpoints(), ServiceClusterIPRange: "10.96.0.0/24", ServiceNodePortRange: "30000-30063",
	})
	c := startController(t, "--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", etcd.Endpoints()[0], "--advertise-address", "192.0.2.11",
		"--service-cluster-ip-range", "10.96.0.0/24", "--service-node-port-range", "30000-30063", "--healthz-bind-address", "127.0.0.1:0")
	client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: etcd.Endpoints(), Restored: func(context.Context, error) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	addresses, _ := rangekeeper.ParseCIDR("10.96.0.0/24")
	ports, _ := rangekeeper.ParsePortRange("30000-30063")
	repairs, err := controller.New(controller.Config{
		API: s.RESTConfig(apiservertest.Admin), Etcd: client, ClusterIPRanges: []rangekeeper.Range{addresses}, NodePortRange: ports,
		Bootstrap: bootstrap.Config{SecurePort: 6443, AdvertiseAddress: "192.0.2.12", Mode: bootstrap.None, Periods: bootstrap.Periods{
			Endpoints: 5 * time.Second, LeaseTTL: 30 * time.Second, Namespaces: 5 * time.Second, Repairs: 3 * time.Second,
		}},
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- repairs.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	api := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	healthz := func(want int) func() error {
		return func() error {
			if code, text := get(t, served(t, c)+"/healthz"); code != want {
				return fmt.Errorf("/healthz: %d %s", code, text)
			}
			return nil
		}
	}
	lease := func() (id int64) {
		got, err := direct.Get(t.Context(), "/registry/masterleases/192.0.2.11")
		if err == nil && len(got.Kvs) > 0 {
			id = got.Kvs[0].Lease
		}
		return id
	}
	works := func(before int64) {
		t.Helper()
		eventually(t, func() error {
			if id := lease(); id == 0 || id == before {
				return errors.New("no lease is put")
			}
			return apiservertest.CheckEndpoints(t.Context(), api, "192.0.2.11")
		})
		eventually(t, healthz(http.StatusOK))
		store, err := etcdstore.Open(etcdstore.Config{Client: direct, Key: clusterstate.RangeKey("", clusterstate.ServiceNodePorts), Range: ports})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close(t.Context())
		if _, err = store.AllocateNext(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			view, err := store.Read(t.Context())
			if err == nil && len(bytes.Trim(view.Snapshot, "\x00")) > 0 {
				err = errors.New("values stay leaked")
			}
			return err
		})
	}
	works(0)
	// The log has what a reader of kube-apiserver's looks for: mode, address, and each write.
	for _, texts := range [][]string{
		{"keeping the endpoints", "--endpoint-reconciler-type=none", "mode=lease", "address=192.0.2.11"},
		{`write="create Endpoints default/kubernetes: 192.0.2.11"`},
		{`write="create EndpointSlice default/kubernetes: 192.0.2.11"`},
		{`write="put lease /registry/masterleases/192.0.2.11"`},
	} {
		if n := len(c.said(texts...)); n != 1 {
			t.Errorf("the log has %q %d times", texts, n)
		}
	}
	backup, before := etcdtest.Save(t, direct), lease()
	s.Kill()
	etcd.Restore(backup, etcdtest.Restoration{Token: "another"}, func() { eventually(t, healthz(http.StatusInternalServerError)) })
	s.Restart()
	works(before)
	if n := len(c.said("level=ERROR", "etcd was restored or replaced", "another etcd answers at "+etcd.Endpoints()[0])); n != 1 {
		t.Errorf("a restore is logged %d times", n)
	}
	c.stop(t)
}

// TestControllerOfReplacedEtcd puts the etcd of another cluster in the place of the controller's. It ends, and writes
// nothing there.
func TestControllerOfReplacedEtcd(t *testing.T) {
	own, other := etcdtest.Start(t, ""), etcdtest.Start(t, "")
	s := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: own.Endpoints(), OwnLoops: true, ServiceClusterIPRange: "10.96.0.0/24", ServiceNodePortRange: "30000-30063",
	})
	first, second := tcpproxy.Start(t, strings.TrimPrefix(own.Endpoints()[0], "http://")), strings.TrimPrefix(other.Endpoints()[0], "http://")
	c := startController(t, "--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", "http://"+first.Address(), "--advertise-address", "192.0.2.11",
		"--service-cluster-ip-range", "10.96.0.0/24", "--service-node-port-range", "30000-30063", "--healthz-bind-address", "")
	eventually(t, func() error {
		if got, err := own.Client().Get(t.Context(), "/registry/masterleases/192.0.2.11"); err != nil || len(got.Kvs) == 0 {
			return fmt.Errorf("no lease is put (%v)", err)
		}
		return nil
	})
	first.Redirect(second)
	select {
	case code := <-c.ended:
		if code != exitInput || len(c.said("another etcd answers", "different clusters")) == 0 {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(patience):
		t.Error("it does not end")
	}
	if got, err := other.Client().Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly()); err != nil || got.Header.Revision != 1 {
		t.Errorf("it has written: %v, %v", got, err)
	}
}

// TestControllerOfClone runs a controller with an etcd that was restored from a snapshot of the server's. The server's
// endpoints stay as they are, also when it stops.
func TestControllerOfClone(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	s := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceClusterIPRange: "10.96.0.0/24"})
	api := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	isServed := func() error {
		return apiservertest.CheckEndpoints(t.Context(), api, apiservertest.DefaultAdvertiseAddress)
	}
	eventually(t, isServed)
	clone := etcdtest.Start(t, etcdtest.Save(t, etcd.Client()))
	etcdtest.Fill(t, etcd.Client(), etcdtest.Revision(t, etcd.Client())+1000) // the clone never catches up
	c := startController(t, "--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", clone.Endpoints()[0], "--advertise-address", "192.0.2.11",
		"--service-cluster-ip-range", "10.96.0.0/24", "--service-node-port-range", "30000-32767", "--healthz-bind-address", "")
	eventually(t, func() error {
		if len(c.said("level=WARN", "kubernetesService", clusterstate.ErrOtherHistory.Error())) == 0 {
			return errors.New("the endpoints are not refused")
		}
		return isServed()
	})
	c.cancel()
	<-c.ended
	if err := isServed(); err != nil {
		t.Error(err)
	}
	if n := len(c.said("write=", "default/kubernetes")); n > 0 {
		t.Errorf("%d writes", n)
	}
}

// TestControllerOverKine keeps a lease, the endpoints and the Service kubernetes, which need no transaction that kine
// refuses, and says what it cannot repair.
func TestControllerOverKine(t *testing.T) {
	endpoint := etcdtest.StartKine(t).Endpoint
	client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: []string{endpoint}, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: []string{endpoint}, ServiceClusterIPRange: "10.96.0.0/24", OwnLoops: true,
		Flags: []string{"--endpoint-reconciler-type=none"},
	})
	api := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	c := startController(t, "--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", endpoint, "--advertise-address", "192.0.2.11",
		"--service-cluster-ip-range", "10.96.0.0/24", "--service-node-port-range", "30000-32767", "--healthz-bind-address", "127.0.0.1:0")
	var first, now int64
	eventually(t, func() error {
		lease, err := client.Get(t.Context(), "/registry/masterleases/192.0.2.11")
		if err != nil || len(lease.Kvs) == 0 {
			return fmt.Errorf("no lease is put (%v)", err)
		}
		if now = lease.Kvs[0].ModRevision; first == 0 {
			first = now
		}
		if now == first {
			return errors.New("the lease is not put again")
		}
		return apiservertest.CheckEndpoints(t.Context(), api, "192.0.2.11")
	})
	refusals := c.said("level=WARN", "no repair is possible over kine", "portallocator", "unsupported operations in txn request", "the store is kine")
	if len(refusals) != 1 {
		t.Errorf("refusals in the log: %q", refusals)
	}
	if code, body := get(t, served(t, c)+"/healthz"); code != http.StatusInternalServerError || !strings.Contains(body, "the store is kine") {
		t.Errorf("%d, %s", code, body)
	}
	c.cancel()
	if code := <-c.ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestControllerOverRestoredKine restores the database of kine under an API server and a controller, from before the
// first run of the controller.
func TestControllerOverRestoredKine(t *testing.T) {
	kine := etcdtest.StartKine(t)
	client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: []string{kine.Endpoint}, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := apiservertest.Start(t, apiservertest.Config{
		Version: apiservertest.Newest, Etcd: []string{kine.Endpoint}, ServiceClusterIPRange: "10.96.0.0/24", OwnLoops: true,
		Flags: []string{"--endpoint-reconciler-type=none"},
	})
	api := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	eventually(t, func() error {
		_, err := api.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		return err
	})
	backup := kine.Save()
	c := startController(t, "--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", kine.Endpoint, "--advertise-address", "192.0.2.11",
		"--service-cluster-ip-range", "10.96.0.0/24", "--service-node-port-range", "30000-32767", "--healthz-bind-address", "127.0.0.1:0")
	restores := func(want string) error {
		line := `rangekeeper_store_restores_total{key="/registry/masterleases/"} ` + want
		if _, metrics := get(t, served(t, c)+"/metrics"); !strings.Contains(metrics, line+"\n") {
			return fmt.Errorf("/metrics lacks %s", line)
		}
		return nil
	}
	isThere := func() error { return apiservertest.CheckEndpoints(t.Context(), api, "192.0.2.11") }
	eventually(t, isThere)
	if err := restores("0"); err != nil {
		t.Error(err)
	}
	var reached int64 // which the restored database does not reach at once
	for i := range 100 {
		written, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("fill-", i)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if reached, err = strconv.ParseInt(written.ResourceVersion, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		lease, err := client.Get(t.Context(), "/registry/masterleases/192.0.2.11")
		if err == nil && (len(lease.Kvs) == 0 || lease.Kvs[0].ModRevision < reached) {
			err = errors.New("the lease is not put again")
		}
		return err
	})
	kine.Restore(backup)
	eventually(t, func() error {
		if n := len(c.said("level=ERROR", "etcd has gone back to an older revision")); n != 1 {
			return fmt.Errorf("the restore is logged %d times", n)
		}
		return errors.Join(restores("1"), isThere())
	})
	c.cancel()
	<-c.ended
}

// served returns where a controller serves.
func served(t *testing.T, c *controllerRun) (address string) {
	t.Helper()
	eventually(t, func() error {
		serving := c.said("serving /healthz")
		if len(serving) == 0 {
			return errors.New("nothing is served")
		}
		_, address, _ = strings.Cut(serving[0], "address=")
		return nil
	})
	return "http://" + address
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestHealthServer asks once: a connection that stays open is a file of the process, and anybody can open many.
func TestHealthServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newHealthServer(http.NotFoundHandler())
	go server.Serve(listener)
	defer server.Close()
	answer, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if !answer.Close {
		t.Error("the connection stays open")
	}
}

// TestControllerWaitsForEtcd starts it before its etcd, and without an API server.
func TestControllerWaitsForEtcd(t *testing.T) {
	port := etcdtest.FreePort(t)
	c := startController(t, "--kubeconfig", kubeconfigOfNobody(t), "--endpoints", fmt.Sprintf("http://127.0.0.1:%d", port), "--dial-timeout", "1s",
		"--service-cluster-ip-range", "10.96.0.0/12", "--service-node-port-range", "30000-32767", "--healthz-bind-address", "127.0.0.1:0")
	said := func(words string) func() error {
		return func() error {
			if len(c.said(words)) != 1 {
				return fmt.Errorf("it says %q %d times", words, len(c.said(words)))
			}
			return nil
		}
	}
	eventually(t, said("waiting for etcd"))
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(t.TempDir(), "etcd"), ClientPort: uint16(port)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	eventually(t, said("waiting for the API server and etcd"))
	if err := said("waiting for etcd")(); err != nil {
		t.Error(err)
	}
	c.stop(t)
}

func TestHostAddress(t *testing.T) {
	of := func(text string) net.IP {
		values, err := rangekeeper.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		address, err := hostAddress(values)
		if err != nil {
			t.Skipf("this host has no address for %s: %v", text, err)
		}
		return address
	}
	// A host may have addresses of one family only.
	four, six := of("10.96.0.0/12"), of("fd00::/108")
	if !four.Equal(six) && (four.To4() == nil || six.To4() != nil) {
		t.Errorf("%s is for IPv4, and %s for IPv6", four, six)
	}
}

// kubeconfigOfNobody is that of an API server that does not answer.
func kubeconfigOfNobody(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestControllerUsage(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	endpoints := []string{"--endpoints", strings.Join(etcd.Endpoints(), ",")}
	kubeconfig := kubeconfigOfNobody(t)
	ranged := []string{"--service-cluster-ip-range", "10.96.0.0/12", "--service-node-port-range", "30000-32767"}
	known := append(endpoints, "--kubeconfig", kubeconfig, "--advertise-address", "192.0.2.10", "--healthz-bind-address", "")
	for _, c := range []struct {
		code  int
		words []string
		args  []string
	}{
		{exitInput, []string{"endpoints"}, nil},
		{exitInput, []string{"--kubeconfig"}, slices.Concat(endpoints, ranged)},
		{exitInput, []string{"--kubeconfig", "/nonexistent"}, slices.Concat(endpoints, ranged, []string{"--kubeconfig", "/nonexistent"})},
		{exitInput, []string{"--service-cluster-ip-range", "10.0.0.0/40"}, slices.Concat(endpoints, ranged, []string{"--service-cluster-ip-range", "10.0.0.0/40"})},
		{exitInput, []string{"--service-node-port-range", "70000"}, slices.Concat(endpoints, ranged, []string{"--service-node-port-range", "1-70000"})},
		{exitInput, []string{"10.0.0.0/24", "10.1.0.0/24", "one IP family"}, slices.Concat(known, ranged, []string{"--service-cluster-ip-range", "10.0.0.0/24,10.1.0.0/24"})},
		{exitInput, []string{"3 ranges", "see rangekeeper controller --help"}, slices.Concat(known, ranged, []string{"--service-cluster-ip-range", "10.0.0.0/24,fd00::/112,10.1.0.0/24"})},
		{exitInput, []string{"443", "30000-32767"}, slices.Concat(known, ranged, []string{"--kubernetes-service-node-port", "443"})},
		{exitInput, []string{"--service-cluster-ip-range is missing"}, known},
		{exitInput, []string{"--service-node-port-range is missing"}, append(known, ranged[:2]...)},
		{exitInput, []string{"--replace-range", "serviceips, secondaryserviceips, servicenodeports", `"all"`}, slices.Concat(known, ranged, []string{"--replace-range", "all"})},
		{exitInput, []string{"--endpoint-reconciler-type", "nonsense"}, slices.Concat(endpoints, ranged, []string{"--endpoint-reconciler-type", "nonsense"})},
		{exitInput, []string{"--logging-format", "nonsense"}, slices.Concat(endpoints, ranged, []string{"--logging-format", "nonsense"})},
	} {
		command.Fails(t, c.code, c.words, append([]string{"controller"}, c.args...)...)
	}
}

// TestControllerNeverSucceeds has one that cannot read the range of node ports say so from its start.
func TestControllerNeverSucceeds(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	s := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceClusterIPRange: "10.96.0.0/24"})
	client := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	eventually(t, func() error {
		_, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		return err
	})
	if _, err := etcd.Client().Put(t.Context(), clusterstate.RangeKey("", clusterstate.ServiceNodePorts), "k8s\x00junk"); err != nil {
		t.Fatal(err)
	}
	c := startController(t, "--kubeconfig", s.Kubeconfig(apiservertest.Admin), "--endpoints", strings.Join(etcd.Endpoints(), ","),
		"--service-cluster-ip-range", "10.96.0.0/24", "--service-node-port-range", "30000-32767", "--advertise-address", "192.0.2.10",
		"--healthz-bind-address", "127.0.0.1:0")
	address := served(t, c)
	// From its first answer on.
	if code, body := get(t, address+"/healthz"); code != http.StatusInternalServerError || !strings.Contains(body, "the first repairs have not succeeded") {
		t.Errorf("/healthz: %d %s", code, body)
	}
	eventually(t, func() error {
		code, body := get(t, address+"/healthz")
		if code != http.StatusInternalServerError || !strings.Contains(body, "repairNodePorts fails") || !strings.Contains(body, "servicenodeports") {
			return fmt.Errorf("/healthz: %d %s", code, body)
		}
		_, metrics := get(t, address+"/metrics")
		if !strings.Contains(metrics, `rangekeeper_repair_last_success_timestamp_seconds{controller="portallocator-repair-controller"} 0`+"\n") ||
			!strings.Contains(metrics, `rangekeeper_range_free{range="kubernetes",values="10.96.0.0/24"} 253`+"\n") {
			return fmt.Errorf("%s", metrics)
		}
		return nil
	})
	c.cancel()
	<-c.ended
}

// gauges returns what a controller measures, by metric and the values of its labels in their order.
func gauges(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			if name := family.GetName(); metric.Gauge != nil {
				for _, label := range metric.Label {
					name += " " + label.GetValue()
				}
				all[name] = metric.Gauge.GetValue()
			}
		}
	}
	return all
}

// measuring runs a controller with short periods until the test ends, and returns its metrics.
func measuring(t *testing.T, s *apiservertest.Server, etcd *clientv3.Client, clusterIPs ...string) *prometheus.Registry {
	t.Helper()
	var ranges []rangekeeper.Range
	for _, text := range clusterIPs {
		values, err := rangekeeper.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, values)
	}
	ports, err := rangekeeper.ParsePortRange("30000-32767")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	c, err := controller.New(controller.Config{
		API: s.RESTConfig(apiservertest.Admin), Etcd: etcd, ClusterIPRanges: ranges, NodePortRange: ports,
		Bootstrap: bootstrap.Config{SecurePort: 6443, AdvertiseAddress: "192.0.2.12", Mode: bootstrap.None, Periods: bootstrap.Periods{
			Endpoints: 5 * time.Second, LeaseTTL: 30 * time.Second, Namespaces: 5 * time.Second, Repairs: time.Second,
		}},
		Metrics: registry, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return registry
}

// TestControllerMeasuresServiceCIDRs fills a ServiceCIDR and adds another one: a full range is one as long as servers
// have no other to allocate from.
func TestControllerMeasuresServiceCIDRs(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	s := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true, ServiceClusterIPRange: "10.96.0.0/29"})
	client := kubernetes.NewForConfigOrDie(s.RESTConfig(apiservertest.Admin))
	eventually(t, func() error { // of six addresses the Service kubernetes has one
		_, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		return err
	})
	for i := range 5 {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		if _, err := client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	registry := measuring(t, s, etcd.Client(), "10.96.0.0/29")
	const full = "rangekeeper_findings ipallocator-repair-controller kubernetes RangeFull"
	eventually(t, func() error {
		got := gauges(t, registry)
		if _, measured := got["rangekeeper_range_free kubernetes 10.96.0.0/29"]; !measured || got["rangekeeper_range_free kubernetes 10.96.0.0/29"] != 0 ||
			got["rangekeeper_range_size kubernetes 10.96.0.0/29"] != 6 || got["rangekeeper_range_in_use kubernetes 10.96.0.0/29"] != 6 ||
			got[full] != 1 || got["rangekeeper_repair_last_success_timestamp_seconds ipallocator-repair-controller"] == 0 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	from := "--endpoints=" + strings.Join(etcd.Endpoints(), ",")
	if code, stdout, stderr := command.Output(t, "free", "kubernetes", from); code != exitFound || strings.Contains(stderr, "too") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}

	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/24"}}}
	if _, err := client.NetworkingV1().ServiceCIDRs().Create(t.Context(), more, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		got := gauges(t, registry)
		if _, isFull := got[full]; isFull || got["rangekeeper_range_free more 10.97.0.0/24"] != 254 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	if code, stdout, stderr := command.Output(t, "free", "kubernetes", from); code != exitFound || !strings.Contains(stderr, "more (10.97.0.0/24), too, of which 254 are free") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if err := client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if got := gauges(t, registry); got[full] != 1 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

// TestControllerMeasuresDamage has the gauges of a damaged cluster be what an audit finds about its ClusterIPs. Its
// range is another one than the configured one.
func TestControllerMeasuresDamage(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture("kube-1.37-dual-stack", "drift.db.gz"))
	s := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), ServiceClusterIPRange: "10.37.0.0/16,fd00:10:37::/112"})
	state, err := clusterstate.ReadEtcd(t.Context(), etcd.Client(), clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := audit.New(state, audit.Options{Now: time.Now(), FindsFullRanges: true, WarnFree: 5})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"rangekeeper_range_kept kubernetes": 1}
	for _, f := range a.Report().Findings {
		if !strings.HasPrefix(f.Reason, "Port") {
			want[strings.Join(strings.Fields("rangekeeper_findings ipallocator-repair-controller "+f.Range+" "+f.Reason), " ")]++
		}
	}
	kinds := len(want)
	for _, r := range a.Report().Ranges {
		if r.Mode == audit.ModeIPAddress {
			of := " " + r.Name + " " + r.Range
			want["rangekeeper_range_size"+of], want["rangekeeper_range_used"+of] = float64(r.Size.N), float64(r.Used.N)
			want["rangekeeper_range_free"+of], want["rangekeeper_range_in_use"+of] = float64(r.Free.N), float64(r.InUse)
		}
	}
	leaks := 0.0
	for _, l := range a.Report().Leaks {
		if l.Mode == audit.ModeIPAddress {
			leaks++
		}
	}
	if kinds < 4 || leaks == 0 {
		t.Fatalf("little damage: %v, %v leaks", want, leaks)
	}
	registry := measuring(t, s, etcd.Client(), "10.0.0.0/16", "fd00:10:37::/112")
	eventually(t, func() error {
		got, gotLeaks := gauges(t, registry), 0.0
		for name, value := range got {
			if strings.HasPrefix(name, "rangekeeper_leaks kubernetes ") {
				gotLeaks += value
			}
		}
		for name, value := range want {
			if got[name] != value {
				return fmt.Errorf("%s is %v, want %v, of %v", name, got[name], value, got)
			}
		}
		if gotLeaks != leaks {
			return fmt.Errorf("%v leaks, want %v, of %v", gotLeaks, leaks, got)
		}
		return nil
	})
}
