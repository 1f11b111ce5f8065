// Package ipaddress allocates ClusterIPs by creating IPAddress objects, as kube-apiserver does since Kubernetes 1.33
// (KEP-1880), for any control plane: it needs an API server with IPAddress and ServiceCIDR objects, and informers of
// client-go.
//
// The API server decides who gets an address: it refuses the creation of an object that exists. So several allocators,
// and kube-apiservers, may allocate from the same CIDRs.
package ipaddress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ErrNotSynced means that the informers have not read all objects within [Options.StartTimeout].
var ErrNotSynced = errors.New("the informers of ServiceCIDRs and IPAddresses have not synced")

// Options are the parts of an [Allocator].
type Options struct {
	// Family is the family of the addresses.
	Family corev1.IPFamily
	// Client creates and deletes IPAddress objects.
	Client networkingv1client.IPAddressInterface
	// ServiceCIDRs and IPAddresses are informers of all objects. The caller starts them.
	ServiceCIDRs networkingv1informers.ServiceCIDRInformer
	IPAddresses  networkingv1informers.IPAddressInformer
	// StartTimeout is the time for which allocations wait, at most, until the informers have synced and a ServiceCIDR
	// is ready. With 0 they use the caches as they are.
	StartTimeout time.Duration
}

// Allocator allocates the addresses of all ServiceCIDR objects of a family. CIDRs may overlap, and several objects may
// have the same one. Its methods may be called from several goroutines at once; no lock is held during a request to the
// API server.
type Allocator struct {
	family       corev1.IPFamily
	client       networkingv1client.IPAddressInterface
	startTimeout time.Duration

	index  *index
	lister networkingv1listers.IPAddressLister
	cidrs  *cidrs

	hasStarted atomic.Bool
	closed     chan struct{}
	closing    sync.Once

	// gauges is held while gauges are set, so that an older number does not replace a newer one.
	gauges   sync.Mutex
	recorder Recorder
}

// New returns an Allocator that follows the objects until Close.
func New(o Options) (*Allocator, error) {
	if o.Family != corev1.IPv4Protocol && o.Family != corev1.IPv6Protocol {
		return nil, fmt.Errorf("unknown IP family %q", o.Family)
	}
	a := &Allocator{
		family:       o.Family,
		client:       o.Client,
		startTimeout: o.StartTimeout,
		lister:       o.IPAddresses.Lister(),
		closed:       make(chan struct{}),
		recorder:     nobody{},
	}
	var err error
	if a.index, err = newIndex(o.IPAddresses.Informer(), o.Family, a.setGaugesOf); err != nil {
		return nil, err
	}
	a.cidrs = newCIDRs(o.ServiceCIDRs, o.Family, a.index, a.cidrsChanged)
	// All is set that the handlers need.
	if err := errors.Join(a.index.start(), a.cidrs.start()); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	go a.expire()
	return a, nil
}

// expireEvery is the time between two searches for reservations that have expired.
const expireEvery = time.Second

// expire ends reservations whose time is over, and sets the gauges, until Close.
func (a *Allocator) expire() {
	ticker := time.NewTicker(expireEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			a.index.expire()
			a.setGauges(func(cidr) bool { return true })
		case <-a.closed:
			return
		}
	}
}

// Close stops following the objects. Requests that are under way go on, and return their results. It may be called
// again.
func (a *Allocator) Close() error {
	a.gauges.Lock() // gauges must not be set from an index that is closed
	a.closing.Do(func() { close(a.closed) })
	a.gauges.Unlock()
	return errors.Join(a.cidrs.close(), a.index.close())
}

func (a *Allocator) isClosed() bool {
	select {
	case <-a.closed:
		return true
	default:
		return false
	}
}

// Usage is how full a CIDR is.
type Usage struct {
	CIDR netip.Prefix
	// Ready reports whether addresses can be allocated: one of the ServiceCIDR objects with this CIDR is ready.
	Ready bool
	// Used is the number of addresses whose objects exist or are being created, Free that of the others. The network
	// and broadcast address are neither.
	Used, Free uint64
}

// Usage returns how full each CIDR is, sorted by CIDR; nothing after Close. An address counts in each CIDR that has it.
func (a *Allocator) Usage() []Usage {
	if a.isClosed() {
		return nil
	}
	a.index.refill()
	var all []Usage
	for _, c := range a.cidrs.get() {
		used, free := a.index.usage(c.values)
		all = append(all, Usage{CIDR: c.prefix, Ready: c.isReady, Used: used, Free: free})
	}
	return all
}

// AllocateNext creates the object of a free address for an owner, such as a Service. Each address of the CIDRs that are
// ready has the same chance, but those of the static bands (KEP-3070) come last. The error is [rangekeeper.ErrFull] if
// no address is free, or the API server's, which refuses an object without an owner. Before the informers have synced
// it is [ErrNotSynced], or that of ctx.
//
// After an error other than a refusal the object may exist: then a repair removes it if no Service uses the address.
func (a *Allocator) AllocateNext(ctx context.Context, owner *networkingv1.ParentReference) (*networkingv1.IPAddress, error) {
	if err := a.awaitStart(ctx); err != nil {
		return nil, err
	}
	begun := time.Now()
	ready := a.cidrs.ready()
	address, object, err := a.index.createNext(values(ready), a.creation(ctx, owner))
	if address.IsValid() {
		a.count(address, Dynamic, begun, err)
	} else {
		for _, c := range ready { // all of them are full
			a.record().Failed(c.prefix, Dynamic)
		}
	}
	return object, err
}

// Allocate creates the object of an address. The error is [rangekeeper.ErrNotInRange] if no CIDR that is ready has the
// address, [rangekeeper.ErrAlreadyAllocated] if its object exists, or the API server's. See AllocateNext.
func (a *Allocator) Allocate(ctx context.Context, address netip.Addr, owner *networkingv1.ParentReference) (*networkingv1.IPAddress, error) {
	address, err := a.check(ctx, address)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	object, err := a.index.create(address, a.creation(ctx, owner))
	if apierrors.IsAlreadyExists(err) {
		err = fmt.Errorf("address %s: %w", address, rangekeeper.ErrAlreadyAllocated)
	}
	a.count(address, Static, begun, err)
	return object, err
}

// Peek returns a free address that AllocateNext could allocate, and allocates nothing. The error is
// [rangekeeper.ErrFull].
func (a *Allocator) Peek(ctx context.Context) (netip.Addr, error) {
	if err := a.awaitStart(ctx); err != nil {
		return netip.Addr{}, err
	}
	return a.index.peek(values(a.cidrs.ready()))
}

// Check returns nil if Allocate could allocate an address, else [rangekeeper.ErrNotInRange] or
// [rangekeeper.ErrAlreadyAllocated]. It asks the caches, and allocates nothing.
func (a *Allocator) Check(ctx context.Context, address netip.Addr) error {
	address, err := a.check(ctx, address)
	if err == nil && a.index.isTaken(address) {
		err = fmt.Errorf("address %s: %w", address, rangekeeper.ErrAlreadyAllocated)
	}
	return err
}

// check returns the address in its canonical form if a CIDR that is ready has it.
func (a *Allocator) check(ctx context.Context, address netip.Addr) (netip.Addr, error) {
	address = address.Unmap()
	if err := a.awaitStart(ctx); err != nil {
		return address, err
	}
	if _, ok := find(a.cidrs.ready(), address); !ok {
		return address, fmt.Errorf("address %s: %w", address, rangekeeper.ErrNotInRange)
	}
	return address, nil
}

// ServiceCIDROf returns an object in the cache, or that [Allocator.CorrectServiceCIDR] has put there, whose CIDR has an
// address; nil for none.
func (a *Allocator) ServiceCIDROf(address netip.Addr) *networkingv1.ServiceCIDR {
	c, _ := find(a.cidrs.get(), address.Unmap())
	return c.first
}

// CorrectServiceCIDR replaces an object that ServiceCIDROf has returned by the one that etcd has, nil for none, until
// the cache has another one. After a restore of etcd a cache can be wrong until its server restarts.
func (a *Allocator) CorrectServiceCIDR(cached, stored *networkingv1.ServiceCIDR) {
	a.cidrs.correct(cached, stored)
}

// List returns the objects of the family in the cache that allocators have created.
func (a *Allocator) List() []*networkingv1.IPAddress {
	// A lister returns no error.
	objects, _ := a.lister.List(labelsOf(a.family).AsSelector())
	return objects
}

// awaitStart waits until addresses can be allocated for the first time. A server accepts requests before its informers
// have synced, and the first server of a cluster before it has created the default ServiceCIDR. Without a CIDR it would
// answer that the range is full, which no client retries.
func (a *Allocator) awaitStart(ctx context.Context) error {
	if a.hasStarted.Load() || a.startTimeout == 0 {
		return nil
	}
	timeout := time.After(a.startTimeout)
	for {
		isSynced := a.index.events.HasSynced() && a.cidrs.events.HasSynced()
		if isSynced && len(a.cidrs.ready()) > 0 {
			a.hasStarted.Store(true)
			return nil
		}
		select {
		case <-timeout:
			if !isSynced {
				return ErrNotSynced
			}
			return nil // the cluster has no ServiceCIDR that is ready
		case <-ctx.Done():
			return ctx.Err()
		case <-a.closed:
			return rangekeeper.ErrClosed
		case <-time.After(startPoll):
		}
	}
}

// startPoll is the time between two looks at the informers.
const startPoll = 20 * time.Millisecond
