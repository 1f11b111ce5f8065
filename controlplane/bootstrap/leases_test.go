package bootstrap_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

const leaseDirectory = "/registry/masterleases/"

// versions returns what stood in both objects, as addresses, at each write after a
// revision; the history must not be compacted meanwhile.
func versions(t *testing.T, etcd *clientv3.Client, after int64) (all [][]string) {
	t.Helper()
	for _, key := range []string{endpointsKey, sliceKey} {
		for revision := int64(0); ; {
			kvs := must(etcd.Get(t.Context(), key, clientv3.WithRev(revision))).Kvs
			if len(kvs) == 0 {
				all = append(all, nil)
				break
			}
			if kvs[0].ModRevision <= after {
				break
			}
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(kvs[0].Value, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			addresses := []string{}
			switch o := object.(type) {
			case *corev1.Endpoints:
				for _, subset := range o.Subsets {
					for _, address := range subset.Addresses {
						addresses = append(addresses, address.IP)
					}
				}
			case *discoveryv1.EndpointSlice:
				for _, endpoint := range o.Endpoints {
					addresses = append(addresses, endpoint.Addresses...)
				}
			}
			all = append(all, addresses)
			revision = kvs[0].ModRevision - 1
		}
	}
	return all
}

// neverDropped checks that no write after a revision was without these addresses.
func neverDropped(t *testing.T, etcd *clientv3.Client, after int64, addresses ...string) {
	t.Helper()
	for _, version := range versions(t, etcd, after) {
		for _, address := range addresses {
			if !slices.Contains(version, address) {
				t.Errorf("%s was dropped: %v was written", address, version)
			}
		}
	}
}

// turns waits until the lease of each of these servers has been written so many times more: once in each turn.
func turns(t *testing.T, etcd *embedded.Etcd, count int64, addresses ...string) {
	t.Helper()
	version := func(address string) (version int64) {
		for _, kv := range must(etcd.Client().Get(t.Context(), leaseDirectory+address)).Kvs {
			version = kv.Version
		}
		return version
	}
	before := map[string]int64{}
	for _, address := range addresses {
		before[address] = version(address)
	}
	for _, address := range addresses {
		eventually(t, func() error {
			if now := version(address); now < before[address]+count {
				return fmt.Errorf("%s was written %d times, and then %d", address, before[address], now)
			}
			return nil
		})
	}
}

// TestWrongLeases damages leases in all ways beside three servers: none of them is
// dropped, and each reports each fault once.
func TestWrongLeases(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		t.Parallel()
		ctx := t.Context()
		const a, b, c = "192.0.2.11", "192.0.2.12", "192.0.2.13"
		live := []string{a, b, c}
		start := func(address string) *host {
			return startHost(t, etcd, s.RESTConfig(apiservertest.Admin), bootstrap.Config{AdvertiseAddress: address, Periods: quickPeriods})
		}
		hosts := map[string]*host{}
		for i, address := range live {
			hosts[address] = start(address)
			eventually(t, kubernetesObjects(t, client, live[:i+1]...))
		}
		began := must(etcd.Client().Get(ctx, leaseDirectory+a)).Header.Revision
		value := func(address string) []byte {
			t.Helper()
			kvs := must(etcd.Client().Get(ctx, leaseDirectory+a)).Kvs
			if len(kvs) != 1 {
				t.Fatal("there is no lease")
			}
			return bytes.ReplaceAll(kvs[0].Value, []byte(a), []byte(address)) // of the same length
		}
		put := func(key string, value []byte, options ...clientv3.OpOption) int64 {
			t.Helper()
			return must(etcd.Client().Put(ctx, leaseDirectory+key, string(value), options...)).Header.Revision
		}
		// reported waits until all of these hosts have reported a fault.
		reported := func(key, fault string, hosts ...*host) {
			t.Helper()
			eventually(t, func() error {
				for _, h := range hosts {
					if h.said("a lease is wrong", "fault="+fault, leaseDirectory+key) == 0 {
						return fmt.Errorf("not reported: the lease of %s is %s", key, fault)
					}
				}
				return nil
			})
		}
		all := []*host{hosts[a], hosts[b], hosts[c]}

		// The own lease: its server rewrites it.
		for _, damage := range []struct {
			fault string
			value []byte
		}{{"unreadable", []byte("garbage")}, {"mismatch", value(c)}, {"unusable", bytes.ReplaceAll(value(a), []byte(a), []byte("192.0.2.xx"))}} {
			revision := put(b, damage.value)
			reported(b, damage.fault, hosts[b])
			eventually(t, func() error {
				kvs := must(etcd.Client().Get(ctx, leaseDirectory+b)).Kvs
				if len(kvs) != 1 || kvs[0].ModRevision <= revision || kvs[0].Lease == 0 || !bytes.Contains(kvs[0].Value, []byte(b)) {
					return fmt.Errorf("the own lease is not rewritten: %v", kvs)
				}
				return nil
			})
		}
		eventually(t, kubernetesObjects(t, client, live...))

		// Those of others. One that is listed stays when its value is damaged; one that is not is not added.
		const listed, hidden, forever, key, other = "192.0.2.21", "192.0.2.22", "192.0.2.23", "192.0.2.24", "192.0.2.25"
		ttl := clientv3.WithLease(must(etcd.Client().Grant(ctx, 300)).ID)
		put(listed, value(listed), ttl)
		eventually(t, kubernetesObjects(t, client, append(live, listed)...))
		added := must(etcd.Client().Get(ctx, leaseDirectory)).Header.Revision
		put(listed, []byte("garbage"), ttl)
		put(hidden, []byte("k8s\x00garbage"), ttl)
		put(forever, value(forever))
		put(key, value(other), ttl)
		reported(listed, "unreadable", all...)
		reported(hidden, "unreadable", all...)
		reported(forever, "neverExpires", all...)
		reported(key, "mismatch", all...)
		eventually(t, kubernetesObjects(t, client, append(live, listed, forever, other)...))
		turns(t, etcd, 4, live...) // nothing more is said, and nothing changes
		if err := kubernetesObjects(t, client, append(live, listed, forever, other)...)(); err != nil {
			t.Error(err)
		}
		neverDropped(t, etcd.Client(), added, listed)
		neverDropped(t, etcd.Client(), began, live...)
		for _, version := range versions(t, etcd.Client(), began) {
			if slices.Contains(version, hidden) || slices.Contains(version, key) {
				t.Errorf("%v was written", version)
			}
		}
		for _, address := range []string{listed, hidden, forever, key} {
			must(etcd.Client().Delete(ctx, leaseDirectory+address))
		}
		eventually(t, kubernetesObjects(t, client, live...))

		// A lease that has expired: its server puts it again.
		kvs := must(etcd.Client().Get(ctx, leaseDirectory+b)).Kvs
		must(etcd.Client().Revoke(ctx, clientv3.LeaseID(kvs[0].Lease)))
		eventually(t, leases(t, etcd, live...))
		eventually(t, kubernetesObjects(t, client, live...))
		neverDropped(t, etcd.Client(), began, a, c)

		// Another server with the same address: both go on, and it stays when one of them stops.
		// (As it starts it takes the address for its own of before, and away for a round.)
		twin := start(c)
		reported(c, "shared", hosts[c], twin)
		eventually(t, kubernetesObjects(t, client, live...))
		twins := must(etcd.Client().Get(ctx, leaseDirectory)).Header.Revision
		turns(t, etcd, 8, c) // 4 of each
		if err := twin.stop(); err != nil {
			t.Error(err)
		}
		if twin.said("stopped", `"endpoint removed"=false`) != 1 {
			t.Error("it has removed the lease of another one")
		}
		turns(t, etcd, 2, live...) // by then nothing depends on what the twin has granted
		if err := errors.Join(leases(t, etcd, live...)(), kubernetesObjects(t, client, live...)()); err != nil {
			t.Error(err)
		}
		neverDropped(t, etcd.Client(), twins, live...)

		for _, h := range append(all, twin) {
			seen := map[string]int{}
			for line := range strings.Lines(h.String()) {
				_, about, ok := strings.Cut(line, `msg="a lease is wrong"`)
				if seen[about]++; ok && seen[about] > 1 {
					t.Errorf("reported more than once: %s", about)
				}
			}
		}
		for _, h := range all {
			if n := h.complaints() - h.said("a lease is wrong"); n > 0 {
				t.Errorf("%d complaints of other things", n)
			}
		}
	})
}
