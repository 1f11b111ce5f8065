package ipaddress

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// reservationTime is the time after which an address is offered again whose object the informer never reports:
// kube-apiserver's default --request-timeout.
const reservationTime = time.Minute

// index knows which addresses of the CIDRs of one family are free. It follows the IPAddress objects of an informer, and
// reserves the addresses that are being created, so that two allocations never try the same one.
type index struct {
	core     *rangekeeper.Index
	informer cache.SharedIndexInformer
	events   cache.ResourceEventHandlerRegistration
	family   corev1.IPFamily
	changed  func(netip.Addr)
	// started is the moment from which the core's times count.
	started time.Time
	// peeking is held by a look at a free address, so that no reservation finds the address taken meanwhile.
	peeking sync.RWMutex
}

// newIndex returns an index without CIDRs and addresses. changed is called after an event about an address.
func newIndex(informer cache.SharedIndexInformer, family corev1.IPFamily, changed func(netip.Addr)) (*index, error) {
	core, err := rangekeeper.NewIndex(rand.Uint64())
	if err != nil {
		return nil, err
	}
	return &index{core: core, informer: informer, family: family, changed: changed, started: time.Now()}, nil
}

// start follows the objects until close.
func (x *index) start() (err error) {
	x.events, err = x.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { x.observe(object, x.core.Added) },
		UpdateFunc: func(_, object any) { x.observe(object, x.core.Added) },
		DeleteFunc: func(object any) { x.observe(object, x.core.Removed) },
	})
	return err
}

// observe records an event about an address of the family.
func (x *index) observe(object any, record func(netip.Addr, uint64) error) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	address, ok := x.addressOf(object)
	if !ok {
		return
	}
	if err := record(address, revisionOf(object.(*networkingv1.IPAddress))); err == nil {
		x.changed(address)
	}
}

// addressOf returns the address of an object; false if its name is no address of the family.
func (x *index) addressOf(object any) (netip.Addr, bool) {
	ip, ok := object.(*networkingv1.IPAddress)
	if !ok {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(ip.Name)
	return address, err == nil && familyOf(address) == x.family
}

// revisionOf returns an object's resource version: for objects in etcd a number that grows with each change.
func revisionOf(object *networkingv1.IPAddress) uint64 {
	revision, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// refill reads the informer's cache as long as some of its objects were not reported as events.
func (x *index) refill() {
	if x.events.HasSynced() {
		return
	}
	var addresses []netip.Addr
	var revision uint64
	for _, object := range x.informer.GetStore().List() {
		if address, ok := x.addressOf(object); ok {
			addresses = append(addresses, address)
			revision = max(revision, revisionOf(object.(*networkingv1.IPAddress)))
		}
	}
	// A list that is stale by now is not needed.
	_, _, _ = x.core.Replace(addresses, revision)
}

// now returns the core's time.
func (x *index) now() time.Duration { return time.Since(x.started) }

// expire ends the reservations whose time is over.
func (x *index) expire() {
	_, _ = x.core.Expire(x.now()) // it only fails after Close
}

// insert adds a CIDR; they may overlap.
func (x *index) insert(cidr rangekeeper.ServiceCIDR) error {
	_, err := x.core.InsertCIDR(cidr)
	return err
}

// remove removes a CIDR.
func (x *index) remove(cidr rangekeeper.ServiceCIDR) error {
	_, err := x.core.RemoveCIDR(cidr)
	return err
}

// usage returns how many addresses of a CIDR are in use, those that are being created included, and how many are free.
func (x *index) usage(cidr rangekeeper.ServiceCIDR) (used, free uint64) {
	return x.core.Usage(cidr)
}

// isTaken reports whether an object of the address exists or is being created.
func (x *index) isTaken(address netip.Addr) bool {
	x.refill()
	return x.core.IsTaken(address)
}

// createNext creates the object of a free address of one of the CIDRs, each with the probability of its share in the
// free addresses. create is called again, for another address, while it returns an AlreadyExists error. The error is
// [rangekeeper.ErrFull] or that of create; the address is the one that was tried last.
func (x *index) createNext(cidrs []rangekeeper.ServiceCIDR, create func(netip.Addr) (*networkingv1.IPAddress, error)) (netip.Addr, *networkingv1.IPAddress, error) {
	x.refill()
	for {
		reservation, err := x.reserve(cidrs)
		if err != nil {
			return netip.Addr{}, nil, err
		}
		object, err := x.finish(reservation, create)
		if !apierrors.IsAlreadyExists(err) {
			return reservation.Addr, object, err
		}
	}
}

func (x *index) reserve(cidrs []rangekeeper.ServiceCIDR) (rangekeeper.Reservation, error) {
	x.peeking.RLock()
	defer x.peeking.RUnlock()
	return x.core.Reserve(cidrs, x.now()+reservationTime)
}

// create creates the object of an address. The API server is asked in any case: an address may be free that the
// informer still reports as taken. The error is that of create.
func (x *index) create(address netip.Addr, create func(netip.Addr) (*networkingv1.IPAddress, error)) (*networkingv1.IPAddress, error) {
	reservation, err := x.core.ReserveAddr(address, x.now()+reservationTime)
	if errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		object, err := create(address)
		if err == nil {
			_ = x.core.Created(address, revisionOf(object)) // it fails only after Close
		}
		return object, err
	}
	if err != nil {
		return nil, err
	}
	return x.finish(reservation, create)
}

// peek returns a free address that createNext could allocate, and allocates nothing. The error is
// [rangekeeper.ErrFull].
func (x *index) peek(cidrs []rangekeeper.ServiceCIDR) (netip.Addr, error) {
	x.refill()
	x.peeking.Lock()
	defer x.peeking.Unlock()
	reservation, err := x.core.Reserve(cidrs, x.now())
	if err != nil {
		return netip.Addr{}, err
	}
	return reservation.Addr, x.core.Abort(reservation)
}

func (x *index) finish(reservation rangekeeper.Reservation, create func(netip.Addr) (*networkingv1.IPAddress, error)) (*networkingv1.IPAddress, error) {
	object, err := create(reservation.Addr)
	// The index fails only after Close; then the answer counts.
	switch {
	case err == nil:
		_ = x.core.Confirm(reservation, revisionOf(object))
	case apierrors.IsAlreadyExists(err):
		_ = x.core.AlreadyExists(reservation)
	default:
		// The object may exist. The API server then refuses the next creation, and the informer reports the object.
		_ = x.core.Abort(reservation)
	}
	return object, err
}

// close stops following the objects. Operations end with [rangekeeper.ErrClosed] from then on.
func (x *index) close() error {
	return errors.Join(x.informer.RemoveEventHandler(x.events), x.core.Close())
}
