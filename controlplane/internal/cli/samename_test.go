package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// TestServiceCIDRNamedAsBitmap adds a ServiceCIDR object with the name of each bitmap.
func TestServiceCIDRNamedAsBitmap(t *testing.T) {
	const address = "10.99.0.77"
	for _, cluster := range []string{etcdtest.DualWrite, "kube-1.37-dual-stack"} {
		for _, name := range []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs, clusterstate.ServiceNodePorts} {
			t.Run(cluster+" "+name, func(t *testing.T) {
				file := changed(t, cluster, "clean.db.gz", map[string][]byte{
					"/registry/servicecidrs/" + name: []byte(`{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"` + name + `"},"spec":{"cidrs":["10.99.0.0/24"]}}`),
					// The leak of an address in it.
					"/registry/ipaddresses/" + address: []byte(`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"` + address +
						`","labels":{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io"}},"spec":{"parentRef":{"resource":"services","namespace":"default","name":"gone"}}}`),
				})
				from := "--etcd-snapshot=" + file
				before := runJSON[audit.Report](t, exitOK, "audit", "--etcd-snapshot", etcdtest.Fixture(cluster, "clean.db.gz"))
				r := runJSON[audit.Report](t, exitFound, "audit", from)
				if len(r.Ranges) != len(before.Ranges)+1 || len(r.Findings)+len(r.Leaks) != 1 {
					t.Errorf("%+v", r)
				}
				for _, one := range before.Ranges {
					if !slices.Contains(r.Ranges, one) {
						t.Errorf("%+v is not among %+v", one, r.Ranges)
					}
				}
				e := runJSON[audit.Explanations](t, exitFound, "explain", address, from)
				if places := e.Values[0].Places; len(places) != 1 || places[0].Name != name || places[0].Mode != audit.ModeIPAddress {
					t.Errorf("%+v", places)
				}
				bands := runJSON[audit.FreeList](t, exitOK, "free", name, from).Bands
				at := slices.IndexFunc(before.Ranges, func(r audit.Range) bool { return r.Name == name })
				want := "10.99.0.0/24"
				if at >= 0 && before.Ranges[at].Mode == audit.ModeBitmap {
					want = before.Ranges[at].Range
				}
				if len(bands) != 2 || bands[0].Range != want || bands[1].Range != want {
					t.Errorf("%+v, want bands of %s", bands, want)
				}
				runOK(t, "show", name, from)
				p := runJSON[preflight.Report](t, exitOK, "preflight", "--to", "1.37", from)
				leaks := slices.IndexFunc(p.Checks, func(c preflight.Check) bool { return slices.Contains(c.Values, address) })
				if want := (preflight.Writes{Removed: 1}); p.FirstRepair != want || leaks < 0 || !strings.Contains(p.Checks[leaks].Message, "IPAddress objects") {
					t.Errorf("%+v", p)
				}
				repaired := filepath.Join(t.TempDir(), "repaired.db")
				runOK(t, "repair", from, "--to-file", repaired)
				runOK(t, "audit", "--etcd-snapshot", repaired)
			})
		}
	}
}
