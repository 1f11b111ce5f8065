package cli

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestExplainServers tells which API server is announced until when: of a snapshot that a server has left behind, of
// the same in a running etcd, and without the Service.
func TestExplainServers(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz")
	text := strings.Join(runOK(t, "explain", "default/kubernetes", "--etcd-snapshot", file), "\n")
	for _, part := range []string{"API servers: 1", "10.0.9.9  yes        kubernetes  written at revision 1125, expires 15 s after the start of etcd"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	etcd := etcdtest.Start(t, file)
	ctx, client := t.Context(), etcd.Client()
	const key = "/registry/masterleases/10.0.9.9"
	got, err := client.Get(ctx, key)
	if err != nil || got.Count != 1 {
		t.Fatal(got, err)
	}
	granted, err := client.Grant(ctx, 3600)
	if err == nil {
		_, err = client.Put(ctx, key, string(got.Kvs[0].Value), clientv3.WithLease(granted.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	running := []string{"explain", "default/kubernetes", "--endpoints", etcd.Endpoints()[0]}
	if text := strings.Join(runOK(t, running...), "\n"); !strings.Contains(text, "s unless the server writes it again") {
		t.Error(text)
	}
	if _, err := client.Delete(ctx, "/registry/services/specs/default/kubernetes"); err != nil {
		t.Fatal(err)
	}
	code, text, stderr := run(t, running...)
	if code != exitFound || !strings.Contains(text, "KubernetesServiceMissing: ") || !strings.Contains(text, "Remedy: ") {
		t.Errorf("exit code %d: %s%s", code, text, stderr)
	}
	e := runJSON[audit.Explanations](t, exitFound, running...)
	if len(e.Servers) != 1 || e.Servers[0].Lease.LeftSeconds < 3000 || len(e.Findings) != 1 || len(e.Values) != 0 {
		t.Errorf("%+v", e)
	}
}
