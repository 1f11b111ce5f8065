package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/releases"
)

const (
	// upgradeCIDRs and churnPorts have static bands of 64 addresses each and 16 ports.
	upgradeCIDRs = "10.96.0.0/22,fd00:10:96::/118"
	// owners is the number of clients with values of their own in the static bands, the lowest values.
	owners, firstOwnIP, firstOwnPort = 8, 10, 30000
	// ownerPrefix begins the names of the Services of these clients, and downgradedPrefix those of the Services that
	// others create after the downgrade.
	ownerPrefix, downgradedPrefix = "static-", "downgraded-"
	// upgradeLoad is the number of Services that others create before and after the downgrade.
	upgradeLoad = 100
	// dualWriteFlag has 1.34 write the bitmaps of ClusterIPs.
	dualWriteFlag = "--feature-gates=DisableAllocatorDualWrite=false"
)

// TestUpgrade runs a stock kube-apiserver of 1.33 beside one of 1.33 and one of 1.34 with Rangekeeper inside, as during
// an upgrade. Under load the server of 1.34 ends. Then a stock one of 1.33 takes its place: a downgrade. 1.33 records
// ClusterIPs in bitmaps and IPAddress objects. 1.34 does as well if it is told to, else it leaves the bitmaps as they
// are. All record node ports in a bitmap.
//
// A stock kube-apiserver releases a value before it writes the Service that gives it up, and its repair works on
// caches. So it serves only clients that have values of their own in the static bands, each one after the other. No
// other client gets a value from these. Where 1.34 writes no bitmaps, their addresses are like those of others. Its
// repair is kept from objects of others by updatePause.
func TestUpgrade(t *testing.T) {
	for _, c := range []struct {
		name string
		// newerFlags are those of 1.34.
		newerFlags []string
	}{
		{"1.34 writes bitmaps", []string{dualWriteFlag}},
		{"1.34 writes no bitmaps", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it waits half of the time
			testUpgrade(t, c.newerFlags)
		})
	}
}

func testUpgrade(t *testing.T, newerFlags []string) {
	rounds := 1
	if isLong {
		rounds = 10
	}
	etcd := must(embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), KeepHistory: true}))
	t.Cleanup(etcd.Close)
	older, newer := apiservertest.Version(releases.Of("1.33")), apiservertest.Version(releases.Of("1.34"))
	start := func(version apiservertest.Version, rangekeeper bool, i int, flags ...string) *apiservertest.Server {
		config := serverConfig(etcd.Endpoints(), version, rangekeeper, i)
		config.ServiceClusterIPRange, config.ServiceNodePortRange = upgradeCIDRs, churnPorts
		config.Flags = append(config.Flags, flags...)
		return startServer(t, config)
	}
	u := &upgrade{etcd: etcd.Client(), isDual: len(newerFlags) > 0}
	stock, inside := start(older, false, 0), start(older, true, 1)
	upgraded := start(newer, true, 2, newerFlags...)
	var downgraded *apiservertest.Server
	for round := range rounds {
		if round > 0 {
			downgraded.Stop()
			upgraded.Restart()
		}
		u.load(t, fmt.Sprintf("mixed-%d-", round), upgraded.Stop, stock, inside, upgraded)
		if downgraded == nil {
			downgraded = start(older, false, 2)
		} else {
			downgraded.Restart()
		}
		u.load(t, fmt.Sprintf("%s%d-", downgradedPrefix, round), func() {}, stock, inside, downgraded)
	}
}

// upgrade is the cluster of TestUpgrade.
type upgrade struct {
	etcd *clientv3.Client
	// isDual says that all servers write the bitmaps of ClusterIPs.
	isDual bool
}

// load deletes half of the Services, and has clients create, update and delete others. Services of clients that have no
// values of their own have the prefix, and go to servers with Rangekeeper inside. When half of them are created, it
// calls atHalf. Then it checks the values.
func (u *upgrade) load(t *testing.T, prefix string, atHalf func(), servers ...*apiservertest.Server) {
	t.Helper()
	own := newWorkload(0, servers...)
	own.ours = nil // updates go to all servers, too
	u.deleteHalf(t, own)

	others := newWorkload(upgradeLoad, slices.DeleteFunc(slices.Clone(servers), func(s *apiservertest.Server) bool { return !s.Rangekeeper() })...)
	others.prefix, others.pause = prefix, updatePause
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for i := range owners {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := u.live(t.Context(), own, i); err != nil {
					t.Errorf("client %d with values of its own: %v", i, err)
					return
				}
			}
		})
	}
	group.Go(func() {
		others.run(t)
		cancel()
	})
	<-others.half
	atHalf()
	group.Wait()
	t.Logf("%s: %d creates, %d updates, %d deletes, %d retries by servers with Rangekeeper inside; %d, %d, %d and %d by all",
		prefix, others.created.Load(), others.updated.Load(), others.deleted.Load(), others.retried.Load(),
		own.created.Load(), own.updated.Load(), own.deleted.Load(), own.retried.Load())
	u.check(t)
}

// deleteHalf deletes every other Service, whichever server has created it, through any server: a stock one, too, as no
// client gets a value meanwhile.
func (u *upgrade) deleteHalf(t *testing.T, w *workload) {
	t.Helper()
	services := must(w.servers[0].CoreV1().Services(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{}))
	var names []string
	for _, service := range services.Items {
		if service.Name != "kubernetes" && !strings.HasPrefix(service.Name, ownerPrefix) {
			names = append(names, service.Name)
		}
	}
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for n := 2 * i; n < len(names); n += 2 * clients {
				if err := w.remove(t.Context(), names[n]); err != nil {
					t.Errorf("delete %s: %v", names[n], err)
				}
			}
		})
	}
	group.Wait()
}

// live deletes the Service of a client with values of its own, if there is one, creates it again and updates it.
func (u *upgrade) live(ctx context.Context, w *workload, i int) error {
	name := fmt.Sprintf("%s%d", ownerPrefix, i)
	withPort := func(s *corev1.ServiceSpec) {
		s.Type, s.Ports = corev1.ServiceTypeNodePort, ports("TCP")
		s.Ports[0].NodePort = int32(firstOwnPort + i)
	}
	var spec corev1.ServiceSpec
	withPort(&spec)
	if u.isDual {
		// Else 1.34 leaves the bit of an address that 1.33 has allocated, and 1.33 refuses the address from then on.
		spec.ClusterIP = fmt.Sprintf("10.96.0.%d", firstOwnIP+i)
	}
	if err := w.remove(ctx, name); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete: %w", err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(retryPause) {
		err := w.create(ctx, name, spec)
		if err == nil {
			break
		}
		// The repair of a stock server that has not seen the deletion can create the object again, and remove it after
		// a minute. If an attempt without an answer has created the Service, its values are allocated.
		if _, missing := w.servers[0].CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{}); missing == nil {
			break
		}
		if !apierrors.IsInvalid(err) || time.Now().After(end) {
			return fmt.Errorf("create: %w", err)
		}
	}
	time.Sleep(updatePause)
	for n, change := range []func(*corev1.ServiceSpec){toType(corev1.ServiceTypeClusterIP), affinity, withPort} {
		if err := w.update(ctx, name, change); err != nil {
			return fmt.Errorf("change %d: %w", n, err)
		}
	}
	return nil
}

// check fails the test if two Services ever had the same value, or one that only servers with Rangekeeper inside have
// written had a value that was not recorded; or if one has such a value now, or a node port is leaked. Not if an
// address is: the repair of a stock server that has not yet seen the deletion of a Service creates an object for it.
// Until that is removed after a minute, a server of 1.33 that chooses the address leaves its bit set.
func (u *upgrade) check(t *testing.T) {
	t.Helper()
	h := readHistory(t, u.etcd, 1)
	isOwn := func(found string) bool { return strings.Contains(found, "/"+ownerPrefix) }
	h.noBit, h.noObject = slices.DeleteFunc(h.noBit, isOwn), slices.DeleteFunc(h.noObject, isOwn)
	h.mustHold(t)

	objects, bitmaps := auditBoth(t, u.etcd)
	t.Logf("%d changes; %+v %+v", h.changes, objects.Ranges, bitmaps.Ranges)
	if objects.Has(audit.BreaksTraffic) || objects.Has(audit.DuplicateRisk) {
		t.Errorf("findings about objects and node ports: %v", objects.Findings)
	}
	if leaked, others := leaks(t, u.etcd); len(leaked) > 0 {
		t.Errorf("leaked node ports %v, beside addresses %v", leaked, others)
	}
	// Where 1.34 writes no bitmaps, they have the addresses of Services that only servers of 1.33 have written.
	for _, finding := range bitmaps.Findings {
		if u.isDual || strings.HasPrefix(finding.Name, downgradedPrefix) {
			t.Errorf("finding about bitmaps: %+v", finding)
		}
	}
}
