package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typednetworkingv1 "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestServiceCIDRsUnderLoad runs three servers of the newest release under load while ServiceCIDRs are added and
// deleted, and kills and restarts one of the servers. No two Services may ever have the same address, and in the end
// each address must have an IPAddress object that refers to its Service.
func TestServiceCIDRsUnderLoad(t *testing.T) {
	// requestTimeout is the grace period of unused IPAddress objects. The default of a minute would lengthen the test.
	services, requestTimeout := 400, 20*time.Second
	if isLong {
		services = 4000
	}
	etcd, servers := startServers(t, apiservertest.Newest, 3, "--request-timeout="+requestTimeout.String())
	w := newWorkload(services, servers...)
	extra := extraCIDRs{api: w.servers[0].NetworkingV1().ServiceCIDRs(), etcd: etcd}
	loaded, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { extra.addAndDelete(loaded, t) })
	w.runAndKill(t, servers[1])
	stop()
	group.Wait()
	deleted := w.deleteServices(t, etcd, extra.terminating)
	if deleted == 0 {
		t.Error("no Service has an address of an added ServiceCIDR")
	}
	timeout := 5 * requestTimeout
	extra.awaitUnused(t, etcd, timeout)

	changes := checkHistory(t, etcd)
	t.Logf("%d creates, %d updates, %d deletes, %d retries; %d changes of Services in etcd; %d ServiceCIDRs added, %d Services in those that others do not contain",
		w.created.Load(), w.updated.Load(), w.deleted.Load(), w.retried.Load(), changes, extra.added, deleted)
	wrong, unused := readIPAddresses(t, etcd)
	if len(wrong) > 0 {
		t.Errorf("after the workload, these addresses of Services have no IPAddress object that refers to their Service: %v", wrong)
	}
	t.Logf("%d IPAddress objects without a Service after the workload: %v", len(unused), unused)
	for end := time.Now().Add(timeout); len(unused) > 0 && time.Now().Before(end); time.Sleep(time.Second) {
		wrong, unused = readIPAddresses(t, etcd)
	}
	if len(wrong)+len(unused) > 0 {
		t.Errorf("%v after the workload, these addresses of Services have no IPAddress object that refers to their Service: %v, and these objects no Service: %v", timeout, wrong, unused)
	}
	if isLong { // the repair of node ports takes several passes
		awaitRepair(t, etcd)
	} else {
		checkReport(t, auditEtcd(t, etcd))
	}
}

// extraCIDRs adds and deletes ServiceCIDRs, and does the work of their controller in kube-controller-manager: after a
// deletion no address is allocated from a ServiceCIDR, and it is removed when no address needs it.
type extraCIDRs struct {
	api   typednetworkingv1.ServiceCIDRInterface
	etcd  *clientv3.Client
	added int
	// terminating are the deleted ones with addresses that are in no other ServiceCIDR.
	terminating []*networkingv1.ServiceCIDR
}

// addAndDelete adds ServiceCIDRs, in turn one in the servers' own ranges and one beside them, and deletes each after a
// while: the latter not before some addresses of it are allocated, which takes longer on a busy machine.
func (e *extraCIDRs) addAndDelete(ctx context.Context, t *testing.T) {
	lifetime, used := time.Second, 8 // so many that not all of their Services go
	if isLong {
		lifetime = 5 * time.Second
	}
	for ; ctx.Err() == nil; e.added++ {
		cidrs := []string{"10.96.128.0/17", "fd00:10:96::8000/113"}
		isBeside := e.added%2 == 1
		if isBeside {
			second := 100 + e.added%100
			cidrs = []string{fmt.Sprintf("10.%d.0.0/16", second), fmt.Sprintf("fd00:10:%d::/112", second)}
		}
		cidr, err := e.api.Create(t.Context(), &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("extra-%d", e.added), Finalizers: []string{finalizer}},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
		}, metav1.CreateOptions{})
		if err == nil {
			time.Sleep(lifetime)
			for isBeside && ctx.Err() == nil && e.allocated(t, cidr) < used {
				time.Sleep(100 * time.Millisecond)
			}
			err = e.terminate(t.Context(), cidr.Name)
		}
		if err == nil && isBeside {
			e.terminating = append(e.terminating, cidr)
		} else if err == nil {
			err = e.remove(t.Context(), cidr.Name)
		}
		if err != nil {
			t.Errorf("ServiceCIDR extra-%d: %v", e.added, err)
			return
		}
	}
}

// allocated counts the IPAddress objects in a ServiceCIDR.
func (e *extraCIDRs) allocated(t *testing.T, cidr *networkingv1.ServiceCIDR) (count int) {
	const key = clusterstate.DefaultPrefix + "/ipaddresses/"
	for _, kv := range must(e.etcd.Get(t.Context(), key, clientv3.WithPrefix(), clientv3.WithKeysOnly())).Kvs {
		if contains(cidr, strings.TrimPrefix(string(kv.Key), key)) {
			count++
		}
	}
	return count
}

func (e *extraCIDRs) terminate(ctx context.Context, name string) error {
	if err := e.api.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	cidr, err := e.api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	cidr.Status.Conditions = []metav1.Condition{{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating, LastTransitionTime: metav1.Now(),
	}}
	_, err = e.api.UpdateStatus(ctx, cidr, metav1.UpdateOptions{})
	return err
}

func (e *extraCIDRs) remove(ctx context.Context, name string) error {
	_, err := e.api.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return err
}

// awaitUnused removes the terminating ServiceCIDRs as soon as no IPAddress object is in them.
func (e *extraCIDRs) awaitUnused(t *testing.T, etcd *clientv3.Client, timeout time.Duration) {
	t.Helper()
	for end := time.Now().Add(timeout); len(e.terminating) > 0; time.Sleep(time.Second) {
		state := must(clusterstate.ReadEtcd(t.Context(), etcd, clusterstate.Options{}))
		e.terminating = slices.DeleteFunc(e.terminating, func(cidr *networkingv1.ServiceCIDR) bool {
			isUsed := slices.ContainsFunc(slices.Collect(state.IPAddresses.All()), func(ip rangekeeper.IPAddress) bool { return contains(cidr, ip.Name) })
			if isUsed {
				return false
			}
			if err := e.remove(t.Context(), cidr.Name); err != nil {
				t.Fatal(err)
			}
			return true
		})
		if time.Now().After(end) {
			t.Fatalf("%d ServiceCIDRs have IPAddress objects %v after their Services were deleted", len(e.terminating), timeout)
		}
	}
}

func contains(cidr *networkingv1.ServiceCIDR, address string) bool {
	parsed, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(cidr.Spec.CIDRs, func(text string) bool { return netip.MustParsePrefix(text).Contains(parsed) })
}

// deleteServices deletes the Services with an address of the ServiceCIDRs, and returns their number.
func (w *workload) deleteServices(t *testing.T, etcd *clientv3.Client, cidrs []*networkingv1.ServiceCIDR) (deleted int) {
	t.Helper()
	for _, service := range storedServices(t.Context(), etcd) {
		if slices.ContainsFunc(cidrs, func(cidr *networkingv1.ServiceCIDR) bool {
			return slices.ContainsFunc(valuesOf(&service), func(value string) bool { return contains(cidr, value) })
		}) {
			if err := w.remove(t.Context(), service.Name); err != nil {
				t.Fatal(err)
			}
			deleted++
		}
	}
	return deleted
}

// storedServices returns the Services that etcd has, as far as an audit reads them.
func storedServices(ctx context.Context, etcd *clientv3.Client) []corev1.Service {
	return etcdtest.Objects(&must(clusterstate.ReadEtcd(ctx, etcd, clusterstate.Options{})).Services)
}

// readIPAddresses returns the addresses of Services that have no IPAddress object that refers to their Service, and the
// names of the objects that are not of an address of a Service.
func readIPAddresses(t *testing.T, etcd *clientv3.Client) (wrong, unused []string) {
	t.Helper()
	state := must(clusterstate.ReadEtcd(t.Context(), etcd, clusterstate.Options{}))
	parents := make(map[string]networkingv1.ParentReference)
	for ip := range state.IPAddresses.All() {
		parents[ip.Name] = networkingv1.ParentReference{Group: ip.ParentGroup, Resource: ip.ParentResource, Namespace: ip.ParentNamespace, Name: ip.ParentName}
	}
	for _, service := range etcdtest.Objects(&state.Services) {
		for _, value := range valuesOf(&service) {
			if _, err := netip.ParseAddr(value); err != nil {
				continue // a port
			}
			want := networkingv1.ParentReference{Resource: "services", Namespace: service.Namespace, Name: service.Name}
			if parents[value] != want {
				wrong = append(wrong, fmt.Sprintf("%s of %s", value, service.Name))
			}
			delete(parents, value)
		}
	}
	return wrong, slices.Sorted(maps.Keys(parents))
}
