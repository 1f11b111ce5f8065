package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
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
	enqueue := func(object any) {
		network := object.(*unstructured.Unstructured)
		o.queue.Add(key{types.NamespacedName{Namespace: network.GetNamespace(), Name: network.GetName()}, network.GetUID()})
	}
	// What is gone was released before. If somebody has removed the finalizer, the audit releases it.
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }}
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
func (o *operator) reconcile(ctx context.Context, k key) error {
	object, found, err := o.informer.GetStore().GetByKey(k.name.String())
	if err != nil {
		return err
	}
	if !found || object.(*unstructured.Unstructured).GetUID() != k.uid {
		// A write has failed as it is gone, after another replica had released what this one then allocated again.
		return o.release(ctx, k)
	}
	network := object.(*unstructured.Unstructured).DeepCopy() // the informer's is not ours to change
	client := o.client.Namespace(k.name.Namespace)
	if network.GetDeletionTimestamp() != nil {
		if err := o.release(ctx, k); err != nil || !slices.Contains(network.GetFinalizers(), finalizer) {
			return err
		}
		network.SetFinalizers(slices.DeleteFunc(network.GetFinalizers(), func(f string) bool { return f == finalizer }))
		_, err := client.Update(ctx, network, metav1.UpdateOptions{})
		return written(err)
	}
	if _, given, _ := unstructured.NestedFieldNoCopy(network.Object, "status", "vni"); given {
		return nil
	}
	if !slices.Contains(network.GetFinalizers(), finalizer) {
		// Before the allocation: a Network that is deleted in between would leave it behind.
		network.SetFinalizers(append(network.GetFinalizers(), finalizer))
		if network, err = client.Update(ctx, network, metav1.UpdateOptions{}); err != nil {
			return written(err)
		}
	}
	if err := o.allocate(ctx, k, network); err != nil {
		return err
	}
	_, err = client.UpdateStatus(ctx, network, metav1.UpdateOptions{})
	return written(err)
}

// written returns the error of a write of a Network.
func written(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errChanged
	}
	return err
}

// allocate sets the status to what the Network has now.
func (o *operator) allocate(ctx context.Context, k key, network *unstructured.Unstructured) error {
	count, _, err := unstructured.NestedInt64(network.Object, "spec", "subnets")
	if err != nil {
		return err
	}
	owner := string(k.uid)
	vni, err := o.vnis.ledger.Allocate(ctx, rangekeeper.WantAny(), owner)
	if err != nil {
		return fmt.Errorf("VNI: %w", err)
	}
	run, err := o.subnets.ledger.Allocate(ctx, rangekeeper.WantRun(uint32(count)), owner)
	if err != nil {
		return fmt.Errorf("subnets: %w", err)
	}
	slog.Info("allocated", "network", k.name, "owner", k.uid, "vni", vni.First, "subnets", run.First, "count", run.Len)
	return unstructured.SetNestedMap(network.Object, map[string]any{
		"vni": int64(vni.First.Integer()), "subnets": prefixes(run),
	}, "status")
}

// prefixes returns the networks of a run, as a status has them.
func prefixes(run rangekeeper.Allocation) (texts []any) {
	first := run.First.Prefix()
	length := first.Addr().BitLen()
	size := new(big.Int).Lsh(big.NewInt(1), uint(length-first.Bits()))
	number := new(big.Int).SetBytes(first.Addr().AsSlice())
	for range run.Len {
		address, _ := netip.AddrFromSlice(number.FillBytes(make([]byte, length/8))) // it has the length of an address
		texts = append(texts, netip.PrefixFrom(address, first.Bits()).String())
		number.Add(number, size)
	}
	return texts
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
		owners[i] = string(list.Items[i].GetUID())
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
