package cli

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// alone returns an etcd that has nothing of a recorded cluster but what begins with these prefixes.
func alone(t *testing.T, cluster string, prefixes ...string) []string {
	t.Helper()
	e := etcdtest.Start(t, etcdtest.Fixture(cluster, "clean.db.gz"))
	all, err := e.Client().Get(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(string(kv.Key), prefix) }) {
			if _, err := e.Client().Delete(t.Context(), string(kv.Key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return []string{"--endpoints", e.Endpoints()[0]}
}

// TestServicesAlone reads an etcd that has Services, and perhaps ranges, and nothing else of their cluster: the rest is
// elsewhere, and not missing.
func TestServicesAlone(t *testing.T) {
	const services, ranges, ports = "/registry/services/specs/", "/registry/ranges/", "/registry/ranges/servicenodeports"
	for _, c := range []struct {
		name, cluster string
		prefixes      []string
		unknown       []string
	}{
		{"Services", "kube-1.37-dual-stack", []string{services}, []string{"serviceips", "servicenodeports"}},
		{"node ports", "kube-1.37-dual-stack", []string{services, ports}, []string{"serviceips"}},
		{"Endpoints", "kube-1.37-dual-stack", []string{services, ports, "/registry/services/endpoints/", "/registry/endpointslices/"}, []string{"serviceips"}},
		{"bitmaps", etcdtest.DualStack, []string{services, ranges}, nil},
		{"Services of bitmaps", etcdtest.DualStack, []string{services}, []string{"serviceips", "servicenodeports"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := alone(t, c.cluster, c.prefixes...)
			with := func(args ...string) []string { return append(args, from...) }
			r := runJSON[audit.Report](t, exitOK, with("audit")...)
			if len(r.Findings)+len(r.Leaks) > 0 {
				t.Errorf("findings %+v, leaks %+v", r.Findings, r.Leaks)
			}
			for _, name := range append([]string{""}, c.unknown...) { // what API servers keep has no range
				if !slices.ContainsFunc(r.Unknown, func(u audit.Unknown) bool {
					return u.Range == name && strings.HasSuffix(u.Message, audit.ServicesAlone) && len(u.Hides) > 0
				}) {
					t.Errorf("%q is not unknown: %+v", name, r.Unknown)
				}
			}
			if code, stdout, stderr := run(t, with("audit", "--strict")...); code != exitUnseen || stderr != "" {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
			if code, stdout, stderr := run(t, with("preflight", "--to", "1.37")...); code != exitInput || stdout != "" || !strings.Contains(stderr, audit.ServicesAlone) {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
			if code, stdout, stderr := run(t, with("explain", "default/kubernetes")...); code != exitOK || strings.Contains(stdout, "over the Kubernetes API; name it") || len(c.unknown) > 0 && !strings.Contains(strings.Join(strings.Fields(stdout), " "), audit.ServicesAlone) {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
			// What is stored here can be repaired, and nothing else.
			for _, command := range [][]string{{"repair"}, {"repair", "--apply"}, {"repair", "--plan-to", filepath.Join(t.TempDir(), "plan.json")}} {
				code, stdout, stderr := run(t, with(command...)...)
				if isRefused := code == exitInput && stdout == "" && strings.Contains(stderr, audit.ServicesAlone); isRefused != (len(c.prefixes) == 1) || !isRefused && code != exitOK {
					t.Errorf("%q: exit code %d: %s%s", command, code, stdout, stderr)
				}
			}
		})
	}
}

// TestServicesAloneDamaged has a leak in an etcd with Services and node ports alone: it is found as ever.
func TestServicesAloneDamaged(t *testing.T) {
	from := alone(t, "kube-1.37-dual-stack", "/registry/services/specs/", "/registry/ranges/servicenodeports")
	before := runJSON[audit.Report](t, exitOK, append([]string{"audit"}, from...)...)
	if code, _, stderr := run(t, append([]string{"allocate", "servicenodeports", "31999", "--force"}, from...)...); code != exitOK {
		t.Fatal(stderr)
	}
	r := runJSON[audit.Report](t, exitFound, append([]string{"audit"}, from...)...)
	if len(before.Leaks) > 0 || len(r.Findings) > 0 || len(r.Leaks) != 1 || r.Leaks[0].Value != "31999" {
		t.Errorf("%+v", r)
	}
}

// TestStaleService has a Service left in an etcd whose cluster keeps Services elsewhere, and with them its range of
// node ports: that is unknown here, and not missing.
func TestStaleService(t *testing.T) {
	const cluster = "kube-1.37-dual-stack"
	for port, text := range map[string]string{
		"without": `{"clusterIP":"None","clusterIPs":["None"]}`, "30001": `{"type":"NodePort","clusterIP":"10.37.0.77","clusterIPs":["10.37.0.77"],"ports":[{"port":80,"nodePort":30001}]}`, "20001": `{"type":"NodePort","clusterIP":"10.37.0.77","clusterIPs":["10.37.0.77"],"ports":[{"port":80,"nodePort":20001}]}`,
	} {
		t.Run(port, func(t *testing.T) {
			values := map[string][]byte{nodePortsKey: nil}
			for _, s := range readFile(t, etcdtest.Fixture(cluster, "clean.db.gz")).Services.All() {
				values["/registry/services/specs/"+s.Namespace+"/"+s.Name] = nil
			}
			const stale = "/registry/services/specs/default/stale"
			without := changed(t, cluster, "clean.db.gz", values)
			values[stale] = []byte(`{"kind":"Service","apiVersion":"v1","metadata":{"name":"stale","namespace":"default"},"spec":` + text + `}`)
			with := changed(t, cluster, "clean.db.gz", values)
			want, got := runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", without), runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", with)
			if len(want.Unknown) == 0 || !reflect.DeepEqual(got.Unknown, want.Unknown) || len(got.Ranges) != len(want.Ranges) {
				t.Errorf("%+v, %+v\nwithout it %+v, %+v", got.Unknown, got.Ranges, want.Unknown, want.Ranges)
			}
			for _, file := range []string{without, with} {
				if _, shown, _ := run(t, "explain", "30001", "--etcd-snapshot", file); !strings.Contains(strings.Join(strings.Fields(shown), " "), audit.ServicesElsewhere) || strings.Contains(shown, "none hands it out") {
					t.Error(shown)
				}
				if _, shown, _ := run(t, "preflight", "--to", "1.37", "--etcd-snapshot", file); strings.Contains(shown, "RangeMissing") || strings.Contains(shown, "is missing") {
					t.Error(shown)
				}
			}
		})
	}
}
