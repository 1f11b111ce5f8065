package rangekeeper

import (
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Index holds which addresses of a cluster's ServiceCIDRs are free, where the creation of an IPAddress object is what
// allocates (KEP-1880).
//
// It is fed by what is observed: Added, Removed and Replace. A caller that wants an address reserves one, creates the
// object, and confirms the reservation with the resource version of the object, or aborts it. Meanwhile the Index
// offers the address to no other caller. An address that was confirmed stays taken until a later removal is observed,
// so a watch may lag. Events of one address come in the order in which they happened; those of different addresses may
// come in any order, as from an informer that lists again after a watch gap.
//
// Times are durations since a moment that the caller chooses, by a clock that never goes back. All methods may be
// called from several goroutines at once. Memory: up to 8 MiB for a CIDR of at most 2^26 addresses, by what is taken;
// for a wider one at most 18 bytes for each address that is taken. A list takes up to 48 bytes for each of its
// addresses until it is compared.
type Index struct {
	inner *object[*rk.Index]
}

// Reservation is the right to create the object of an address.
type Reservation struct {
	// Addr is the address.
	Addr netip.Addr
	id   uint64
}

func (r Reservation) toC() rk.Reservation {
	return rk.Reservation{Address: *AddrValue(r.Addr).toC(), ID: r.id}
}

func reservationFromC(c *rk.Reservation) Reservation {
	return Reservation{valueFromC(&c.Address).Addr(), c.ID}
}

// NewIndex returns an index without CIDRs and addresses. The seed decides the random choices; keep it from those who
// may choose IPv6 addresses.
func NewIndex(seed uint64) (*Index, error) {
	var handle *rk.Index
	if code := rk.IndexNew(seed, &handle); code != rk.ResultOK {
		return nil, resultError(code)
	}
	return &Index{own(handle, rk.IndexFree)}, nil
}

func (x *Index) pointer() *rk.Index {
	if x == nil {
		return nil
	}
	return x.inner.pointer()
}

// Close drops the state. It may be called again and beside other calls.
func (x *Index) Close() error {
	rk.IndexFree(x.pointer())
	runtime.KeepAlive(x)
	return nil
}

// InsertCIDR adds a CIDR, which may overlap with others, and reports whether it was missing. Addresses that were
// observed before and lie in it are taken. Cost: O(n log n) for n addresses taken in CIDRs that overlap with it and in
// none.
func (x *Index) InsertCIDR(cidr ServiceCIDR) (added bool, err error) {
	var c bool
	code := rk.IndexInsertCIDR(x.pointer(), cidr.pointer(), &c)
	runtime.KeepAlive(x)
	return c, resultError(code)
}

// RemoveCIDR removes a CIDR, so that its addresses are not offered any more, and reports whether it was there. The
// index remembers which of them are taken. Cost: O(n log n) for n addresses taken in it.
func (x *Index) RemoveCIDR(cidr ServiceCIDR) (removed bool, err error) {
	var c bool
	code := rk.IndexRemoveCIDR(x.pointer(), cidr.pointer(), &c)
	runtime.KeepAlive(x)
	return c, resultError(code)
}

// Usage returns how many addresses of a CIDR are taken, reserved ones included, and how many are free; zeros for a CIDR
// that the index does not have. Cost: O(CIDRs).
func (x *Index) Usage(cidr ServiceCIDR) (used, free uint64) {
	var u, f uint64
	rk.IndexUsage(x.pointer(), cidr.pointer(), &u, &f)
	runtime.KeepAlive(x)
	return u, f
}

// IsTaken reports whether an address is taken.
func (x *Index) IsTaken(addr netip.Addr) bool {
	var taken bool
	rk.IndexIsTaken(x.pointer(), AddrValue(addr).toC(), &taken)
	runtime.KeepAlive(x)
	return taken
}

// Reserve reserves a free address of one of these CIDRs until a time. Each CIDR has the probability of its share in the
// free addresses of all dynamic bands, or, if there are none, of all static bands (KEP-3070). A CIDR that the Index
// does not have counts as full. The error is ErrFull. Cost: O(len(cidrs) * CIDRs + log addresses), at any fill.
func (x *Index) Reserve(cidrs []ServiceCIDR, until time.Duration) (Reservation, error) {
	// Most clusters have a few CIDRs: this stays on the stack.
	var few [4]rk.ServiceCIDR
	all := few[:0]
	for _, cidr := range cidrs {
		if cidr.inner == nil {
			return Reservation{}, fmt.Errorf("%w: a ServiceCIDR is the zero value", ErrClosed)
		}
		all = append(all, cidr.inner.c)
	}
	var c rk.Reservation
	code := rk.IndexReserve(x.pointer(), all, timeToC(until), &c)
	runtime.KeepAlive(x)
	if code != rk.ResultOK {
		return Reservation{}, resultError(code)
	}
	return reservationFromC(&c), nil
}

// ReserveAddr reserves this address until a time. The error is ErrAlreadyAllocated if it is taken, ErrNotInRange if no
// CIDR has it.
func (x *Index) ReserveAddr(addr netip.Addr, until time.Duration) (Reservation, error) {
	var c rk.Reservation
	code := rk.IndexReserveAddress(x.pointer(), AddrValue(addr).toC(), timeToC(until), &c)
	runtime.KeepAlive(x)
	if code != rk.ResultOK {
		return Reservation{}, fmt.Errorf("address %s: %w", addr, resultError(code))
	}
	return reservationFromC(&c), nil
}

// Confirm records that the object was created at this resource version. Its address stays taken until a removal of that
// resource version or a later one is observed, or a later list without it. A reservation that has expired can be
// confirmed, too; that changes nothing if a later resource version was observed, as the object was reported then, or
// will be.
func (x *Index) Confirm(reservation Reservation, revision uint64) error {
	c := reservation.toC()
	code := rk.IndexConfirm(x.pointer(), &c, revision)
	runtime.KeepAlive(x)
	return resultError(code)
}

// Created records that the object of an address was created at this resource version without a reservation: ReserveAddr
// returned ErrAlreadyAllocated, and the API server, which knows better, was asked all the same. Otherwise it is like
// Confirm.
func (x *Index) Created(addr netip.Addr, revision uint64) error {
	code := rk.IndexCreated(x.pointer(), AddrValue(addr).toC(), revision)
	runtime.KeepAlive(x)
	return resultError(code)
}

// Abort records that no object was created. If that is not certain, the API server must refuse a second creation, as
// it does of an IPAddress object: the watch reports the object then. Abort has no effect once the reservation has
// ended.
func (x *Index) Abort(reservation Reservation) error {
	c := reservation.toC()
	code := rk.IndexAbort(x.pointer(), &c)
	runtime.KeepAlive(x)
	return resultError(code)
}

// AlreadyExists records that another client has created the object, as the API server says. The address stays taken
// until that is observed, or until the reservation expires. AlreadyExists has no effect once the reservation has ended.
func (x *Index) AlreadyExists(reservation Reservation) error {
	c := reservation.toC()
	code := rk.IndexAlreadyExists(x.pointer(), &c)
	runtime.KeepAlive(x)
	return resultError(code)
}

// Expire ends the reservations whose time is now or before, and returns their number. It also ends the wait for their
// confirmed creations, if later resource versions were observed: a creation and removal during a watch gap is never
// reported. Cost: O(reservations + confirmed creations that were not observed).
func (x *Index) Expire(now time.Duration) (int, error) {
	var n uint
	code := rk.IndexExpire(x.pointer(), timeToC(now), &n)
	runtime.KeepAlive(x)
	return int(n), resultError(code)
}

// Added records that a watch reports the object of an address as added or changed, at this resource version.
func (x *Index) Added(addr netip.Addr, revision uint64) error {
	code := rk.IndexAdded(x.pointer(), AddrValue(addr).toC(), revision)
	runtime.KeepAlive(x)
	return resultError(code)
}

// Removed records that a watch reports the object of an address as removed, at this resource version.
func (x *Index) Removed(addr netip.Addr, revision uint64) error {
	code := rk.IndexRemoved(x.pointer(), AddrValue(addr).toC(), revision)
	runtime.KeepAlive(x)
	return resultError(code)
}

// Replace records a list of the addresses of all objects as of a resource version, and returns how many addresses it
// has added and removed. Reservations stay, and so do objects that were created later. The error is ErrStaleList if a
// later resource version was observed before; nothing has changed then.
func (x *Index) Replace(addrs []netip.Addr, revision uint64) (added, removed int, err error) {
	values := make([]rk.Value, len(addrs))
	for i, addr := range addrs {
		values[i] = *AddrValue(addr).toC()
	}
	var changes rk.IndexChanges
	code := rk.IndexReplace(x.pointer(), values, revision, &changes)
	runtime.KeepAlive(x)
	return int(changes.Added), int(changes.Removed), resultError(code)
}
