package cli

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestTLS reads and repairs an etcd that wants client certificates.
func TestTLS(t *testing.T) {
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
	service := `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"kubernetes"},"spec":{"clusterIP":"None"}}`
	if _, err := client.Put(t.Context(), "/registry/services/specs/default/kubernetes", service); err != nil {
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
	c, ctx := e.Client(), t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.UserAdd(ctx, "root", "se:cret"))
	must(c.UserGrantRole(ctx, "root", "root"))
	must(c.UserAdd(ctx, "auditor", "look"))
	must(c.RoleAdd(ctx, "auditor"))
	must(c.RoleGrantPermission(ctx, "auditor", "/registry/", clientv3.GetPrefixRangeEnd("/registry/"), clientv3.PermissionType(clientv3.PermRead)))
	must(c.UserGrantRole(ctx, "auditor", "auditor"))
	must(c.AuthEnable(ctx))

	endpoints := []string{"--endpoints", strings.Join(e.Endpoints(), ",")}
	with := func(args ...string) []string { return append(args, endpoints...) }
	for _, args := range [][]string{
		with("audit", "--user", "root:se:cret"),
		with("audit", "--user", "root", "--password", "se:cret"),
		with("audit", "--user", "auditor:look"),
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
		{"permission denied", with("repair", "--apply", "--user", "auditor:look")},
	} {
		code, stdout, stderr := run(t, c.args...)
		if code != exitInput || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
	if plan := runJSON[audit.Plan](t, exitFound, with("repair", "--apply", "--user", "root:se:cret")...); !plan.Applied {
		t.Errorf("%+v", plan)
	}
	if plan := runJSON[audit.Plan](t, exitFound, with("repair", "--user", "auditor:look")...); len(plan.Ranges) != 1 || len(plan.Ranges[0].Set) > 0 {
		t.Errorf("%+v", plan.Ranges)
	}
}
