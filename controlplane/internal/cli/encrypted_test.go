package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// provider is what a value begins with that a kube-apiserver has encrypted (k8s.io/apiserver, encryptionconfig).
const provider = "k8s:enc:aescbc:v1:key1:"

// TestEncryptedObjects has one value of a snapshot encrypted at rest. The audit goes on, nothing is written, and nobody
// is told to delete it: API servers read it.
func TestEncryptedObjects(t *testing.T) {
	for _, c := range []struct{ name, cluster, kind, key string }{
		{"Service", etcdtest.DualStack, "Service", "/registry/services/specs/default/kubernetes"},
		{"Service beside objects", "kube-1.37-dual-stack", "Service", "/registry/services/specs/default/kubernetes"},
		{"IPAddress", "kube-1.37-dual-stack", "IPAddress", "/registry/ipaddresses/10.37.0.1"},
		{"ServiceCIDR", "kube-1.37-dual-stack", "ServiceCIDR", "/registry/servicecidrs/kubernetes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := changed(t, c.cluster, "drift.db.gz", map[string][]byte{c.key: []byte(provider + "\x8f\x00")})
			before := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", etcdtest.Fixture(c.cluster, "drift.db.gz"))
			r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
			if len(r.Unreadable) != 1 || r.Summary.Unreadable != 1 || r.Unreadable[0].Kind != c.kind || r.Unreadable[0].Key != c.key ||
				!strings.Contains(r.Unreadable[0].Message, provider) || !r.Unreadable[0].Encrypted {
				t.Errorf("%+v", r.Unreadable)
			}
			if len(r.Leaks) < len(before.Leaks) || slices.ContainsFunc(r.Leaks, func(l audit.Leak) bool { return !l.Stays }) {
				t.Errorf("%d leaks before: %+v", len(before.Leaks), r.Leaks)
			}
			if more := len(r.Findings) - len(before.Findings); more > 1 {
				t.Errorf("%d more findings", more)
			}
			for _, command := range [][]string{
				{"audit"}, {"audit", "-o", "wide"}, {"audit", "-o", "junit"}, {"show", "servicenodeports"}, {"free", "servicenodeports"},
				{"explain", "10.37.0.1"}, {"preflight", "--to", "1.37"},
			} {
				code, stdout, stderr := run(t, append(command, "--etcd-snapshot", file)...)
				text := strings.Join(strings.Fields(stdout+stderr), " ")
				if code != exitFound && command[0] != "explain" || stdout == "" || !strings.Contains(text, "cannot be read") && !strings.Contains(text, "encrypted") {
					t.Errorf("%q: exit code %d, %.2000s%s", command, code, stdout, stderr)
				}
				for _, wrong := range []string{"estore or delete", "rangekeeper repair --to-file", "delete it first"} {
					if strings.Contains(text, wrong) && command[0] != "preflight" { // which has the runbook's texts
						t.Errorf("%q advises: %s\n%.3000s", command, wrong, stdout)
					}
				}
			}
			for kind, commands := range map[string][][]string{
				audit.KindService: {{"explain", "default/kubernetes"}}, audit.KindServiceCIDR: {{"free", "kubernetes"}, {"show", "kubernetes"}},
			} {
				for _, command := range commands {
					code, stdout, stderr := run(t, append(command, "--etcd-snapshot", file)...)
					if kind == c.kind && (code != exitInput || stdout != "" || !strings.Contains(stderr, "key "+c.key+": "+kind+" ") || !strings.Contains(stderr, clusterstate.ReadOverAPI)) {
						t.Errorf("%q: exit code %d, %s%s", command, code, stdout, stderr)
					}
				}
			}
			output := filepath.Join(t.TempDir(), "repaired.db")
			for _, command := range [][]string{{"repair"}, {"repair", "--to-file", output}} {
				code, stdout, stderr := run(t, append(command, "--etcd-snapshot", file)...)
				if code != exitInput || stdout != "" || !strings.Contains(stderr, file+": key "+c.key+": encrypted at rest") || !strings.Contains(stderr, clusterstate.ReadOverAPI) {
					t.Errorf("%q: exit code %d, %s%s", command, code, stdout, stderr)
				}
			}
			p := runJSON[preflight.Report](t, exitFound, "preflight", "--to", "1.37", "--etcd-snapshot", file)
			isThere := func(c preflight.Check) bool {
				return c.Name == "Encrypted" && c.Level == preflight.Unknown && strings.Contains(c.Remedy, "over the Kubernetes API")
			}
			if !slices.ContainsFunc(p.Checks, isThere) || slices.ContainsFunc(p.Checks, func(c preflight.Check) bool { return c.Name == "Unreadable" }) {
				t.Errorf("%+v", p.Checks)
			}
		})
	}
}

// TestEncryptedAddresses has IPAddress objects encrypted at rest: one of each Service's, and one of an address that was
// free. Their keys name the addresses: these are recorded, and none is found to lack an object or is offered as free.
func TestEncryptedAddresses(t *testing.T) {
	t.Parallel()
	const cluster, used = "kube-1.37-dual-stack", "10.37.0.1"
	clean := etcdtest.Fixture(cluster, "clean.db.gz")
	before := runJSON[audit.FreeList](t, exitOK, "free", "kubernetes", "--etcd-snapshot", clean).Bands[0]
	free := before.Next[0]
	values := map[string][]byte{}
	for _, address := range []string{used, free} {
		values["/registry/ipaddresses/"+address] = []byte(provider + "\x8f\x00")
	}
	// A damaged key is no address, and ends no command.
	values["/registry/ipaddresses/\xff"+before.Next[1]] = []byte(provider)
	file := changed(t, cluster, "clean.db.gz", values)

	r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
	if len(r.Unreadable) != len(values) || len(r.Findings)+len(r.Leaks) > 0 {
		t.Errorf("%d objects cannot be read; %+v %+v", len(r.Unreadable), r.Findings, r.Leaks)
	}
	stored := runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", clean).Ranges
	if i := slices.IndexFunc(r.Ranges, func(of audit.Range) bool { return of.Range == before.Range }); r.Ranges[i].Used.N != stored[i].Used.N+1 {
		t.Errorf("%+v, was %+v", r.Ranges[i], stored[i])
	}
	now := runJSON[audit.FreeList](t, exitFound, "free", "kubernetes", "--etcd-snapshot", file).Bands[0]
	if now.Free.N != before.Free.N-1 || now.Next[0] != before.Next[1] {
		t.Errorf("%+v, was %+v", now, before)
	}
	for _, address := range []string{used, free} {
		code, stdout, stderr := run(t, "explain", address, "--etcd-snapshot", file)
		if code != exitFound || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "Allocated: yes") {
			t.Errorf("exit code %d, %s%s", code, stdout, stderr)
		}
	}
}

// encryptedAll returns a snapshot in which all values of these kinds are encrypted, but for as many as are kept.
func encryptedAll(t *testing.T, cluster string, kept int, prefixes ...string) (file string, encrypted int) {
	t.Helper()
	values := map[string][]byte{}
	e := etcdtest.Start(t, etcdtest.Fixture(cluster, "drift.db.gz"))
	for _, prefix := range prefixes {
		all, err := e.Client().Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil || len(all.Kvs) <= kept {
			t.Fatal(all, err)
		}
		for _, kv := range all.Kvs[kept:] {
			values[string(kv.Key)] = []byte(provider + string(kv.Key))
		}
	}
	return changed(t, cluster, "drift.db.gz", values), len(values)
}

// TestAllEncrypted has all Services of a cluster encrypted at rest, or all but one, or all objects that record values:
// what depends on them is unknown, and none of it is a finding or a leak.
func TestAllEncrypted(t *testing.T) {
	const services, addresses = "/registry/services/specs/", "/registry/ipaddresses/"
	for _, c := range []struct {
		name, cluster string
		kept          int
		prefixes      []string
	}{
		{"bitmaps", etcdtest.DualStack, 0, []string{services}},
		{"bitmaps, but one", etcdtest.DualStack, 1, []string{services}},
		{"both", etcdtest.DualWrite, 0, []string{services}},
		{"objects", "kube-1.37-dual-stack", 0, []string{services}},
		{"objects, but one", "kube-1.37-dual-stack", 1, []string{services}},
		{"everything", "kube-1.37-dual-stack", 0, []string{services, addresses, "/registry/servicecidrs/"}},
		{"IPAddress objects", "kube-1.37-dual-stack", 0, []string{addresses}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, n := encryptedAll(t, c.cluster, c.kept, c.prefixes...)
			before := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", etcdtest.Fixture(c.cluster, "drift.db.gz"))
			r := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", file)
			if len(r.Unreadable) != n || r.Summary.Unreadable != n {
				t.Errorf("%d of %d cannot be read", len(r.Unreadable), n)
			}
			hasServices := c.prefixes[0] != services
			for _, l := range r.Leaks {
				if !hasServices || strings.ContainsAny(l.Value, ".:") {
					t.Errorf("leak %s", l.Value)
				}
			}
			for _, f := range r.Findings { // of objects that can be read
				isSame := func(one audit.Finding) bool {
					return one.Reason == f.Reason && one.Value == f.Value && one.Name == f.Name
				}
				if !slices.ContainsFunc(before.Findings, isSame) || hasServices && f.Reason == "ClusterIPNotAllocated" {
					t.Errorf("finding %s %s", f.Reason, f.Value)
				}
			}
			isUnknown := func(name string) bool {
				return slices.ContainsFunc(r.Unknown, func(u audit.Unknown) bool {
					return u.Range == name && strings.Contains(u.Message, "cannot be read") && len(u.Hides) == 4
				})
			}
			if isUnknown("servicenodeports") == hasServices || !slices.ContainsFunc(r.Ranges, func(one audit.Range) bool { return one.Name != "servicenodeports" && isUnknown(one.Name) }) && len(c.prefixes) < 3 {
				t.Errorf("%+v", r.Unknown)
			}
			code, stdout, stderr := run(t, "audit", "--etcd-snapshot", file)
			text := strings.Join(strings.Fields(stdout), " ")
			if code != exitFound || stderr != "" || !strings.Contains(text, clusterstate.ReadOverAPI) || strings.Contains(text, "estore or delete") ||
				strings.Count(text, provider) > 12 {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
			if code, stdout, stderr := run(t, "repair", "--etcd-snapshot", file); code != exitInput || stdout != "" || !strings.Contains(stderr, clusterstate.ReadOverAPI) {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
		})
	}
}

// TestEncryptedRange has a range that is encrypted, which no kube-apiserver writes or reads.
func TestEncryptedRange(t *testing.T) {
	for _, key := range []string{serviceIPsKey, nodePortsKey} {
		file := changed(t, etcdtest.DualStack, "clean.db.gz", map[string][]byte{key: []byte(provider + "x")})
		checkLost(t, file, key, "aescbc")
	}
}
