package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestTLS reads and repairs an etcd that wants client certificates.
func TestTLS(t *testing.T) {
	shortenLeakAge(t)
	a := etcdtest.NewAuthority(t)
	cert, key := a.Leaf(t, "client")
	endpoint := "https://" + etcdtest.StartTLS(t, a)
	client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: []string{endpoint}, CACert: a.File, Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(t.Context(), nodePortsKey, string(stored(t, "30000-32767", []byte{1}))); err != nil {
		t.Fatal(err)
	}
	service := `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"headless"},"spec":{"clusterIP":"None"}}`
	if _, err := client.Put(t.Context(), "/registry/services/specs/default/headless", service); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--endpoints", endpoint, "--cacert", a.File, "--cert", cert, "--key", key}
	want := audit.Leak{Severity: audit.Wasted, Range: "servicenodeports", Value: "30000"}
	if r := runJSON[audit.Report](t, exitFound, append([]string{"audit"}, flags...)...); len(r.Leaks) != 1 || r.Leaks[0] != want {
		t.Errorf("%+v", r)
	}
	plan := runJSON[audit.Plan](t, exitOK, append([]string{"repair", "--apply", "--clean-leaks", "--interval", "1ms"}, flags...)...)
	if !plan.Applied || len(plan.Ranges) != 1 || len(plan.Ranges[0].Clear) != 1 {
		t.Errorf("%+v", plan)
	}
	runJSON[audit.Report](t, exitOK, append([]string{"audit"}, flags...)...)

	code, stdout, stderr := run(t, "audit", "--endpoints", endpoint, "--cacert", a.File)
	if code != exitUnreachable || stdout != "" || !strings.Contains(stderr, "certificate required") {
		t.Errorf("without a certificate: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestAuth reads and repairs an etcd that asks for users.
func TestAuth(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"))
	c := e.Client()
	etcdtest.AddUser(t, c, "auditor", "look", clientv3.PermissionType(clientv3.PermRead), "/registry/")
	etcdtest.EnableAuth(t, c, "se:cret")

	endpoints := []string{"--endpoints", strings.Join(e.Endpoints(), ",")}
	with := func(args ...string) []string { return append(args, endpoints...) }
	for _, args := range [][]string{
		with("audit", "--user", "root:se:cret"),
		with("audit", "--user", "root", "--password", "se:cret"),
		with("audit", "--user", "auditor:look"),
		with("audit", "--user", "root", "--password-file", etcdtest.Write(t, []byte("se:cret\n"))),
	} {
		if r := runJSON[audit.Report](t, exitFound, args...); r.Summary.Services == 0 {
			t.Errorf("%v: %+v", args, r.Summary)
		}
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"asks for a user", with("audit")},
		{"refuses the user or password", with("audit", "--user", "root:wrong")},
		{"needed together", with("audit", "--user", "root")},
		{"needed together", with("audit", "--password", "se:cret")},
	} {
		code, stdout, stderr := run(t, c.args...)
		if code != exitInput || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
	runFails(t, exitNone, []string{"permission denied"}, with("repair", "--apply", "--user", "auditor:look")...)
	if plan := runJSON[audit.Plan](t, exitFound, with("repair", "--apply", "--user", "root:se:cret")...); !plan.Applied {
		t.Errorf("%+v", plan)
	}
	if plan := runJSON[audit.Plan](t, exitFound, with("repair", "--user", "auditor:look")...); len(plan.Ranges) != 1 || len(plan.Ranges[0].Set) > 0 {
		t.Errorf("%+v", plan.Ranges)
	}
}

// TestEnvironment reaches etcd by etcdctl's variables; flags come first.
func TestEnvironment(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"))
	c, ctx := e.Client(), t.Context()
	for _, err := range []error{
		second(c.UserAdd(ctx, "root", "secret")), second(c.UserGrantRole(ctx, "root", "root")), second(c.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The first line on stderr says where the etcd comes from.
	refused := func(want int, words string, args ...string) {
		t.Helper()
		code, stdout, stderr := run(t, args...)
		if code != want || stdout != "" || strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "as ETCDCTL_ENDPOINTS says") || !strings.Contains(stderr, words) {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	snapshot := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	t.Setenv("ETCDCTL_ENDPOINTS", strings.Join(e.Endpoints(), ","))
	t.Setenv("ETCDCTL_USER", "root:wrong")
	t.Setenv("ETCDCTL_DIAL_TIMEOUT", "30s")
	refused(exitInput, "refuses the user or password", "repair")
	t.Setenv("ETCDCTL_USER", "root")
	t.Setenv("ETCDCTL_PASSWORD", "secret")
	code, stdout, stderr := run(t, "repair")
	if code != exitFound || !strings.Contains(stdout, e.Endpoints()[0]) || !strings.Contains(stderr, "as ETCDCTL_ENDPOINTS says") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	runJSON[audit.Report](t, exitFound, "audit", "--endpoints", e.Endpoints()[0])
	if code, _, _ := run(t, "allocate", "servicenodeports"); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	refused(exitInput, "refuses the user or password", "repair", "--password", "wrong")
	refused(exitInput, "refuses the user or password", "repair", "--password-file", etcdtest.Write(t, []byte("wrong")))
	// The variable never takes the place of kubectl's cluster.
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	runFails(t, exitInput, []string{"no cluster", "ETCDCTL_ENDPOINTS has no effect on this command"}, "audit")
	runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", snapshot)
	runFails(t, exitUnreachable, []string{"127.0.0.1:1"}, "audit", "--dial-timeout", "1s", "--endpoints", "http://127.0.0.1:1")
	t.Setenv("ETCDCTL_DIAL_TIMEOUT", "soon")
	refused(exitInput, "ETCDCTL_DIAL_TIMEOUT cannot be \"soon\"", "repair")
}

func second[T any](_ T, err error) error { return err }

// TestRefused writes to a store that refuses transactions as kine does.
func TestRefused(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"))
	before := readEtcd(t, e.Client())
	socket := filepath.Join(t.TempDir(), "kine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterLeaseServer(server, kineLease{})
	pb.RegisterKVServer(server, &kineLike{kv: pb.NewKVClient(e.Client().ActiveConnection())})
	go server.Serve(listener)
	defer server.Stop()
	source := []string{"--endpoints", "unix://" + socket}
	report := runJSON[audit.Report](t, exitFound, append([]string{"audit"}, source...)...)
	if report.Summary.Services == 0 {
		t.Errorf("%+v", report.Summary)
	}
	if _, _, stderr := run(t, append([]string{"repair", "--apply"}, source...)...); strings.Contains(stderr, "rpc error") {
		t.Error(stderr)
	}
	for _, args := range [][]string{
		{"repair", "--apply"}, {"allocate", "servicenodeports"}, {"init", "secondaryserviceips", "fd00::/112", "--prefix", "/other"},
	} {
		runFails(t, exitInput, []string{"the store refused the request", "nothing of it was written", "kine", "unsupported operations in txn request", socket}, append(args, source...)...)
	}
	if after := readEtcd(t, e.Client()); !reflect.DeepEqual(after, before) {
		t.Error("something was written")
	}
	runFails(t, exitUnreachable, []string{socket + "x"}, "audit", "--dial-timeout", "1s", "--endpoints", "unix://"+socket+"x")
}

// kineLike reads as etcd, and answers a transaction as kine 0.17.5 does one that is not a kube-apiserver's.
type kineLike struct {
	pb.UnimplementedKVServer
	kv pb.KVClient
}

func (k *kineLike) Range(ctx context.Context, request *pb.RangeRequest) (*pb.RangeResponse, error) {
	return k.kv.Range(ctx, request)
}

func (k *kineLike) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	return nil, status.Error(codes.InvalidArgument, "etcdserver: unsupported operations in txn request")
}

// kineLease grants leases as kine does, by their time.
type kineLease struct{ pb.UnimplementedLeaseServer }

func (kineLease) LeaseGrant(_ context.Context, request *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{}, ID: request.TTL, TTL: request.TTL}, nil
}

// TestTwoClusters names members of two etcd clusters as the endpoints of one.
func TestTwoClusters(t *testing.T) {
	a, b := etcdtest.StartCluster(t, 1), etcdtest.StartCluster(t, 1)
	for _, one := range []*etcdtest.Cluster{a, b} {
		runOK(t, "init", "servicenodeports", "30000-30003", "--endpoints", one.Endpoints()[0])
	}
	both := a.Endpoints()[0] + "," + b.Endpoints()[0]
	for _, args := range [][]string{{"audit"}, {"release", "servicenodeports", "30001"}, {"repair", "--apply"}} {
		runFails(t, exitInput, []string{"different etcd clusters", "http://127.0.0.1:"}, append(args, "--endpoints", both)...)
	}

	// A member that joins the endpoints later is refused as well, also by a program that goes on with a restored etcd.
	client, err := clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{
		Endpoints: a.Endpoints(), Restored: func(_ context.Context, err error) error { t.Error("taken for restored:", err); return err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetEndpoints(append(a.Endpoints(), b.Endpoints()...)...)
	isRefused := func(err error) bool {
		if err != nil && !strings.Contains(err.Error(), "different etcd clusters") {
			t.Fatal(err)
		}
		return err != nil
	}
	for isRead := true; isRead; { // by the member that was there before
		_, err := client.Get(t.Context(), "a")
		isRead = !isRefused(err)
	}
	for isWatched := true; isWatched; {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.Context()))
		watched := <-client.Watch(ctx, "a", clientv3.WithCreatedNotify())
		isWatched = !isRefused(watched.Err())
		cancel()
	}
}

// TestRestoredMeanwhile restores etcd with a new --initial-cluster-token under an audit that goes on and between the
// passes of a repair, which ends.
func TestRestoredMeanwhile(t *testing.T) {
	shortenLeakAge(t)
	etcd := etcdtest.StartCluster(t, 1)
	on := func(args ...string) []string { return append(args, "--endpoints", etcd.Endpoints()[0]) }
	runOK(t, on("init", "servicenodeports", "30000-30003")...)
	runOK(t, on("allocate", "servicenodeports")...)
	service := `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"headless"},"spec":{"clusterIP":"None"}}`
	if _, err := etcd.Client().Put(t.Context(), "/registry/services/specs/default/headless", service); err != nil {
		t.Fatal(err)
	}
	restore := func(token string) {
		backup := etcdtest.Save(t, etcd.Client())
		etcd.Restore(backup, etcdtest.Restoration{Token: token}, func() {})
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	printed, ended := watchAudit(ctx, on()...)
	documents := json.NewDecoder(printed)
	for leaks := 1; leaks <= 2; leaks++ {
		var report audit.Report
		if err := documents.Decode(&report); err != nil || len(report.Leaks) != leaks {
			t.Fatalf("%v, %+v, want %d leaks", err, report.Leaks, leaks)
		}
		if leaks == 1 {
			restore("second")
			runOK(t, on("allocate", "servicenodeports")...)
		}
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}

	var log strings.Builder
	code := program.Run(t.Context(), on("repair", "--apply", "--clean-leaks", "--interval", "1ms"), io.Discard, writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "pass 1 of 3") {
			restore("third")
		}
		return log.Write(b)
	}))
	if want := "another etcd answers at " + etcd.Endpoints()[0] + " than before: it was restored or replaced meanwhile; run the command again"; code < exitInput || !strings.Contains(log.String(), want) {
		t.Errorf("exit code %d: %s", code, log.String())
	}
}
