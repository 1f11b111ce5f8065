package cli

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// TestEndpointsAfterARestore takes the backup of a cluster whose servers are gone for ever, with the faults that people
// report: leases of which the restored etcd knows nothing (kubernetes#86812), or without a time to live, endpoints
// edited by hand, a slice of the other IP family (kubernetes#101070), a namespace that is missing. A stock server with
// another address that is started on the repaired backup has right endpoints soon; on the backup itself it never has.
func TestEndpointsAfterARestore(t *testing.T) {
	for _, version := range apiservertest.Versions() {
		t.Run(string(version), func(t *testing.T) {
			apiservertest.Program(t, apiservertest.Config{Version: version})
			t.Parallel()
			damaged := damagedBackup(t, version)
			report := runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", damaged)
			want := []string{
				"EndpointSliceDiffers kubernetes", "EndpointSliceLeftOver kubernetes-ipv6",
				"LeaseNeverExpires 192.0.2.11", "LeaseNeverExpires 192.0.2.12", "NamespaceMissing kube-node-lease",
			}
			if all := reasonsOf(report.Findings); !slices.Equal(all, want) {
				t.Errorf("the damaged backup: %q", all)
			}
			explained := runJSON[audit.Explanations](t, exitFound, "explain", "default/kubernetes", "--etcd-snapshot", damaged)
			if addresses := addressesOf(explained.Servers); !slices.Equal(addresses, []string{"192.0.2.11 missing", "192.0.2.12 missing", "192.0.2.99", "2001:db8::99"}) ||
				len(explained.Findings) != len(want) {
				t.Errorf("%+v", explained)
			}
			if _, text, _ := run(t, "explain", "kubernetes", "--etcd-snapshot", damaged); !strings.Contains(text, "2 of these 3 may be of") {
				t.Error(text)
			}
			if code, text, _ := run(t, "audit", "--etcd-snapshot", damaged); code != exitFound || !strings.Contains(text, "repair 2 of 5 into a new snapshot") ||
				!strings.Contains(text, "rangekeeper explain default/kubernetes") {
				t.Errorf("exit code %d: %s", code, text)
			}
			repaired := filepath.Join(t.TempDir(), "repaired.db")
			plan := runJSON[audit.Plan](t, exitFound, "repair", "--etcd-snapshot", damaged, "--to-file", repaired)
			if n := len(plan.ServerObjects); n != 2 || !plan.Applied {
				t.Errorf("the plan: %+v", plan)
			}
			// The rest is for the servers. Without their leases the slice of the other family may be kept on purpose.
			want = []string{"EndpointSliceDiffers kubernetes", "NamespaceMissing kube-node-lease"}
			if all := reasonsOf(runJSON[audit.Report](t, exitFound, "audit", "--etcd-snapshot", repaired).Findings); !slices.Equal(all, want) {
				t.Errorf("the repaired backup: %q", all)
			}

			const own = "192.0.2.21"
			etcd := etcdtest.Start(t, repaired)
			before := ownKeys(t, etcd)
			began := time.Now()
			server := apiservertest.Start(t, apiservertest.Config{Version: version, Etcd: etcd.Endpoints(), OwnLoops: true, AdvertiseAddress: own})
			ready := time.Since(began)
			client := clientOf(t, server)
			awaitAddresses(t, client, "the repaired backup", own)
			t.Logf("ready after %.1f s, right endpoints %.1f s later", ready.Seconds(), (time.Since(began) - ready).Seconds())
			// A turn of the server, each ten seconds, writes its lease and then the endpoints.
			if turns := leaseOf(t, etcd, own).Version; turns > 2 {
				t.Errorf("the endpoints are right only after %d turns", turns)
			}
			if after := ownKeys(t, etcd); !slices.Equal(after, before) {
				t.Errorf("the server has changed ranges, Services or addresses:\n%q\n%q", before, after)
			}
			onlySlice := func() {
				t.Helper()
				awaitNamespaces(t, client)
				want := []string{"EndpointSliceLeftOver kubernetes-ipv6"}
				if all := reasonsOf(runJSON[audit.Report](t, exitFound, "audit", "--endpoints", etcd.Endpoints()[0]).Findings); !slices.Equal(all, want) {
					t.Errorf("the repaired cluster: %q", all)
				}
			}
			onlySlice()

			// The control: without a repair the dead servers stay.
			etcd = etcdtest.Start(t, damaged)
			server = apiservertest.Start(t, apiservertest.Config{Version: version, Etcd: etcd.Endpoints(), OwnLoops: true, AdvertiseAddress: own})
			client = clientOf(t, server)
			awaitAddresses(t, client, "the backup itself", "192.0.2.11", "192.0.2.12", own)
			time.Sleep(20 * time.Second) // more than a lease's time to live
			awaitAddresses(t, client, "the backup itself", "192.0.2.11", "192.0.2.12", own)
			awaitNamespaces(t, client)
			report = runJSON[audit.Report](t, exitFound, "audit", "--endpoints", etcd.Endpoints()[0])
			want = []string{"EndpointSliceLeftOver kubernetes-ipv6", "LeaseNeverExpires 192.0.2.11", "LeaseNeverExpires 192.0.2.12"}
			if all := reasonsOf(report.Findings); !slices.Equal(all, want) {
				t.Errorf("the running cluster: %q", all)
			}
			plan = runJSON[audit.Plan](t, exitFound, "repair", "--apply", "--endpoints", etcd.Endpoints()[0])
			if n := len(plan.ServerObjects); n != 2 || !plan.Applied {
				t.Errorf("the plan: %+v", plan)
			}
			awaitAddresses(t, client, "the running cluster", own)
			onlySlice()
		})
	}
}

// damagedBackup returns the snapshot of a cluster of two servers that were killed, with all faults.
func damagedBackup(t *testing.T, version apiservertest.Version) (file string) {
	const a, b = "192.0.2.11", "192.0.2.12"
	etcd := etcdtest.Start(t, "")
	start := func(address string) *apiservertest.Server {
		return apiservertest.Start(t, apiservertest.Config{Version: version, Etcd: etcd.Endpoints(), OwnLoops: true, AdvertiseAddress: address})
	}
	servers := []*apiservertest.Server{start(a), start(b)}
	client := clientOf(t, servers[0])
	awaitAddresses(t, client, "two servers", a, b)
	leases := map[string]string{}
	for _, address := range []string{a, b} {
		leases[address] = string(leaseOf(t, etcd, address).Value)
	}
	_, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "kubernetes-ipv6",
			Labels: map[string]string{discoveryv1.LabelServiceName: clusterstate.KubernetesService}, // nobody says to keep it
		},
		AddressType: discoveryv1.AddressTypeIPv6, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"2001:db8::99"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	endpoints, err := client.CoreV1().Endpoints(metav1.NamespaceDefault).Get(t.Context(), clusterstate.KubernetesService, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range servers {
		server.Kill()
	}
	// The rest by hand in etcd, as servers that run repair it within ten seconds.
	endpoints.ResourceVersion = "" // not stored
	endpoints.Subsets[0].Addresses = append(endpoints.Subsets[0].Addresses, corev1.EndpointAddress{IP: "192.0.2.99"})
	raw, err := endpoints.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	// One lease may not end before the snapshot, whose etcd does not know it; the other one has none of etcd's.
	granted, err := etcd.Client().Grant(t.Context(), 3600)
	if err == nil {
		_, err = etcd.Client().Txn(t.Context()).Then(
			clientv3.OpPut("/registry/services/endpoints/default/"+clusterstate.KubernetesService, string(inEnvelopeOf(t, "v1", "Endpoints", raw))),
			clientv3.OpPut(leaseKey+a, leases[a], clientv3.WithLease(granted.ID)),
			clientv3.OpPut(leaseKey+b, leases[b]),
			clientv3.OpDelete("/registry/namespaces/kube-node-lease"),
		).Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	return withoutEtcdLeases(t, etcdtest.Save(t, etcd.Client()))
}

// withoutEtcdLeases returns a snapshot that has the keys and none of etcd's leases.
func withoutEtcdLeases(t *testing.T, snapshot string) (file string) {
	about, err := os.Stat(snapshot)
	if err == nil {
		err = os.Truncate(snapshot, about.Size()-sha256.Size) // a wrong hash would stand for damage
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(snapshot, 0o600, nil)
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error {
			leases := tx.Bucket([]byte("lease"))
			if leases.Stats().KeyN == 0 {
				return fmt.Errorf("the snapshot has no lease")
			}
			return leases.ForEach(func(id, _ []byte) error { return leases.Delete(id) })
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "backup.db")
	o := snapshotfile.WriteOptions{Options: snapshotfile.Options{SkipHashCheck: true}}
	state, err := clusterstate.ReadSnapshotFile(t.Context(), snapshot, clusterstate.Options{SkipHashCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	o.Revision = state.Revision
	if _, err := snapshotfile.WriteRepaired(t.Context(), snapshot, file, nil, o); err != nil {
		t.Fatal(err)
	}
	return file
}

func clientOf(t *testing.T, server *apiservertest.Server) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(server.RESTConfig(apiservertest.Admin))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// addressesOf returns the addresses of servers, each with whether etcd has its lease if it has one.
func addressesOf(servers []audit.Server) (all []string) {
	for _, s := range servers {
		text := s.Address
		if s.Lease != nil {
			text += " " + string(s.Lease.EtcdLease)
		}
		all = append(all, text)
	}
	return all
}

// reasonsOf returns reasons and values, sorted.
func reasonsOf(findings []audit.Finding) (all []string) {
	for _, f := range findings {
		all = append(all, f.Reason+" "+f.Value)
	}
	slices.Sort(all)
	return all
}

// awaitAddresses waits until the Endpoints and the slice of the Service kubernetes have just these addresses.
func awaitAddresses(t *testing.T, client *kubernetes.Clientset, what string, want ...string) {
	t.Helper()
	eventually(t, func() error {
		if err := apiservertest.CheckEndpoints(t.Context(), client, want...); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// awaitLoops waits until a server has made what an audit misses else: its endpoints and the namespaces.
func awaitLoops(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	awaitAddresses(t, client, "the server", apiservertest.DefaultAdvertiseAddress)
	awaitNamespaces(t, client)
}

func awaitNamespaces(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		eventually(t, func() error {
			_, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
			return err
		})
	}
}

// eventually waits until the check succeeds, also on a machine that does much else.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

const leaseKey = "/registry/masterleases/"

// leaseOf returns the lease of a server.
func leaseOf(t *testing.T, etcd *embedded.Etcd, address string) *mvccpb.KeyValue {
	t.Helper()
	got, err := etcd.Client().Get(t.Context(), leaseKey+address)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	return got.Kvs[0]
}

// ownKeys returns the keys of ranges, Services and addresses with the revisions of their last writes.
func ownKeys(t *testing.T, etcd *embedded.Etcd) (all []string) {
	for _, prefix := range []string{"ranges/", "services/specs/", "ipaddresses/", "servicecidrs/"} {
		got, err := etcd.Client().Get(t.Context(), "/registry/"+prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range got.Kvs {
			all = append(all, fmt.Sprintf("%s at %d", strings.TrimPrefix(string(kv.Key), "/registry/"), kv.ModRevision))
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no keys")
	}
	return all
}
