package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

const (
	finalizer = "example.com/go-operator"
	// workers is how many Networks are worked on at once; a ledger makes one write of what they want meanwhile.
	workers = 16
	// passes is how many audits in a row must find an owner gone before it is released.
	passes = 3
	// A Network for which there is nothing free is tried again for as long as it exists.
	firstRetry, lastRetry = 100 * time.Millisecond, 30 * time.Second
)

var networks = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "networks"}

// errChanged: another replica or a user has changed the Network since it was read, which is no fault.
var errChanged = errors.New("the Network has changed")

// pool is a ledger and what its audits have found.
type pool struct {
	name   string
	ledger *ledgerstore.Ledger
	leaks  rangekeeper.OwnerLeaks
}

// key names one Network and none that has its name later. Its UID is the owner in the ledgers.
type key struct {
	name types.NamespacedName
	uid  types.UID
}

type operator struct {
	client        dynamic.NamespaceableResourceInterface
	vnis, subnets *pool
	informer      cache.SharedIndexInformer
	queue         workqueue.TypedRateLimitingInterface[key]
}

func newOperator(client dynamic.Interface, vnis, subnets *pool) *operator {
	return &operator{
		client: client.Resource(networks), vnis: vnis, subnets: subnets,
		informer: dynamicinformer.NewFilteredDynamicInformer(client, networks, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](firstRetry, lastRetry)),
	}
}

// run returns when ctx ends, or with an error if the first audit fails: then a flag, a right or the CRD is wrong, and
// nothing would work.
func (o *operator) run(ctx context.Context, auditInterval time.Duration) error {
	if err := o.auditAll(ctx); err != nil {
		return err
	}
	// What is gone was released before. If somebody has removed the finalizer, the audit releases it.
	handler := cache.ResourceEventHandlerFuncs{AddFunc: o.enqueue, UpdateFunc: func(_, object any) { o.enqueue(object) }}
	if _, err := o.informer.AddEventHandler(handler); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer o.queue.ShutDown()
	running.Go(func() { o.informer.RunWithContext(ctx) })
	for range workers {
		running.Go(func() {
			for o.work(ctx) {
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditInterval):
			if err := o.auditAll(ctx); err != nil && ctx.Err() == nil {
				slog.Error("no audit", "error", err)
			}
		}
	}
}

func (o *operator) enqueue(object any) {
	network := object.(*unstructured.Unstructured)
	o.queue.Add(key{types.NamespacedName{Namespace: network.GetNamespace(), Name: network.GetName()}, network.GetUID()})
}

// work takes one Network from the queue; it reports false once that is shut down.
func (o *operator) work(ctx context.Context) bool {
	k, down := o.queue.Get()
	if down {
		return false
	}
	defer o.queue.Done(k)
	switch err := o.reconcile(ctx, k); {
	case err == nil:
		o.queue.Forget(k)
		return true
	case !errors.Is(err, errChanged) && ctx.Err() == nil:
		slog.Error("try again later", "network", k.name, "error", err)
	}
	o.queue.AddRateLimited(k)
	return true
}

// reconcile brings a Network one or more steps further. Each step may be repeated, also by several replicas at once:
// writes of the Network fail if it has changed, and owners make the changes of the ledgers the same.
//
// The Network is the API server's, and not the informer's: if etcd was restored from a backup, that one may be deleted
// and the Network be there. A restore after the Get is seen later: values cool down after their release, so that the
// Network, which is looked at again, still finds them free.
func (o *operator) reconcile(ctx context.Context, k key) error {
	client := o.client.Namespace(k.name.Namespace)
	network, err := client.Get(ctx, k.name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && network.GetUID() != k.uid {
		// A write has failed as it is gone, after another replica had released what this one then allocated again.
		return o.release(ctx, k)
	}
	if err != nil {
		return err
	}
	if network.GetDeletionTimestamp() != nil {
		if err := o.release(ctx, k); err != nil || !slices.Contains(network.GetFinalizers(), finalizer) {
			return err
		}
		network.SetFinalizers(slices.DeleteFunc(network.GetFinalizers(), func(f string) bool { return f == finalizer }))
		_, err := client.Update(ctx, network, metav1.UpdateOptions{})
		return written(err)
	}
	if !slices.Contains(network.GetFinalizers(), finalizer) {
		// Before the allocation: a Network that is deleted in between would leave it behind.
		network.SetFinalizers(append(network.GetFinalizers(), finalizer))
		if network, err = client.Update(ctx, network, metav1.UpdateOptions{}); err != nil {
			return written(err)
		}
	}
	if _, given, _ := unstructured.NestedFieldNoCopy(network.Object, "status", "vni"); given {
		return o.confirm(ctx, k, network)
	}
	// Until the ledgers still say after the write what the status has: if etcd was restored in between, they may have
	// given it to others since.
	for stored := map[string]any(nil); ; {
		status, err := o.allocate(ctx, k, network)
		if err != nil || reflect.DeepEqual(status, stored) {
			return err
		}
		slog.Info("allocated", "network", k.name, "owner", k.uid, "status", status)
		network.Object["status"], stored = status, status
		if network, err = client.UpdateStatus(ctx, network, metav1.UpdateOptions{}); err != nil {
			return written(err)
		}
	}
}

// written returns the error of a write of a Network.
func written(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errChanged
	}
	return err
}

// allocate returns the status with what the Network has now.
func (o *operator) allocate(ctx context.Context, k key, network *unstructured.Unstructured) (map[string]any, error) {
	count, _, err := unstructured.NestedInt64(network.Object, "spec", "subnets")
	if err != nil {
		return nil, err
	}
	owner := string(k.uid)
	vni, err := o.vnis.ledger.Allocate(ctx, rangekeeper.WantAny(), owner)
	if err != nil {
		return nil, fmt.Errorf("VNI: %w", err)
	}
	run, err := o.subnets.ledger.Allocate(ctx, rangekeeper.WantRun(uint32(count)), owner)
	if err != nil {
		return nil, fmt.Errorf("subnets: %w", err)
	}
	var subnets []any
	for value := range run.Values() {
		subnets = append(subnets, value.String())
	}
	return map[string]any{"vni": int64(vni.First.Integer()), "subnets": subnets}, nil
}

// confirm has the ledgers record what a status has, if they do not. If others have it, that is an error until a user
// has decided which Network is to be created again.
func (o *operator) confirm(ctx context.Context, k key, network *unstructured.Unstructured) error {
	vni, _, _ := unstructured.NestedInt64(network.Object, "status", "vni")
	subnets, _, _ := unstructured.NestedStringSlice(network.Object, "status", "subnets")
	first, err := netip.ParsePrefix(append(subnets, "none")[0])
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return errors.Join(
		o.vnis.confirm(ctx, string(k.uid), rangekeeper.IntegerValue(uint64(vni)), 1),
		o.subnets.confirm(ctx, string(k.uid), rangekeeper.NetworkValue(first), len(subnets)))
}

func (p *pool) confirm(ctx context.Context, owner string, first rangekeeper.LedgerValue, count int) error {
	want := rangekeeper.WantValue(first)
	if count > 1 { // an owner that has lost its run may be given another
		want = rangekeeper.WantRun(uint32(count))
	}
	got, err := p.ledger.Allocate(ctx, want, owner)
	if err == nil && got.First != first {
		err = fmt.Errorf("the ledger has %d from %v for it", got.Len, got.First)
	}
	if err != nil {
		return fmt.Errorf("%s: the status has %d from %v: %w", p.name, count, first, err)
	}
	return nil
}

// release frees all that a Network has; it may have nothing.
func (o *operator) release(ctx context.Context, k key) error {
	return errors.Join(o.vnis.release(ctx, string(k.uid)), o.subnets.release(ctx, string(k.uid)))
}

func (p *pool) release(ctx context.Context, owner string) error {
	released, err := p.ledger.ReleaseOwner(ctx, owner)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	for _, allocation := range released {
		slog.Info("released", "ledger", p.name, "owner", owner, "first", allocation.First, "count", allocation.Len)
	}
	return nil
}

func (o *operator) auditAll(ctx context.Context) error {
	return errors.Join(o.audit(ctx, o.vnis), o.audit(ctx, o.subnets))
}

// audit reports what is wrong with a ledger, and releases what owners have that are gone.
func (o *operator) audit(ctx context.Context, p *pool) error {
	ledger, err := p.ledger.Read(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	defer ledger.Close()
	// After the ledger, and not the informer's, which may be older: who has something then exists or is gone.
	list, err := o.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Networks, of crd.yaml: %w", err)
	}
	owners := make([]string, len(list.Items))
	for i := range list.Items {
		network := &list.Items[i]
		owners[i] = string(network.GetUID())
		// An informer that goes on while etcd is restored may miss events.
		if has, err := ledger.OwnedBy(owners[i]); err != nil || len(has) == 0 || network.GetDeletionTimestamp() != nil {
			o.enqueue(network)
		}
	}
	findings, due, err := ledger.Audit(owners, &p.leaks)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	for _, finding := range findings {
		slog.Warn("found by the audit", "ledger", p.name, "reason", finding.Reason, "message", finding.Message)
	}
	for _, owner := range due {
		err = errors.Join(err, p.release(ctx, owner))
	}
	return err
}
