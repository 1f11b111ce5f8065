//! The index of addresses where IPAddress objects allocate.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper_core::index::{Full, Index, IndexChanges, Reservation, ReserveError, StaleList};

use crate::guard::{guard, guard_or};
use crate::handle::Handle;
use crate::result::rk_result;
use crate::scope::{Out, borrow, reclaim, slice};
use crate::service_cidr::{rk_service_cidr, service_cidr};
use crate::value::{address, rk_value};

/// Which addresses of ServiceCIDRs are free, where the creation of an IPAddress object is what allocates.
pub struct rk_index(Handle<IndexState>);

struct IndexState {
    index: Index,
    generator: Xoshiro256PlusPlus,
}

impl rk_index {
    /// Runs work that cannot fail.
    fn run<R>(&self, work: impl FnOnce(&mut IndexState) -> R) -> Result<R, rk_result> {
        self.0.with(|state| Ok(work(state)))
    }
}

/// The right to create the IPAddress object of an address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_reservation {
    /// The address.
    pub address: rk_value,
    /// The number of this reservation.
    pub id: u64,
}

/// The changes by a full list.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_index_changes {
    /// How many addresses were free before and are taken now.
    pub added: u64,
    /// How many addresses were taken before and are free now.
    pub removed: u64,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

impl From<Reservation> for rk_reservation {
    fn from(reservation: Reservation) -> Self {
        Self { address: reservation.address.into(), id: reservation.id }
    }
}

impl TryFrom<&rk_reservation> for Reservation {
    type Error = rk_result;

    fn try_from(reservation: &rk_reservation) -> Result<Self, rk_result> {
        Ok(Self { address: address(&reservation.address)?, id: reservation.id })
    }
}

impl From<ReserveError> for rk_result {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::AlreadyAllocated(_) => Self::AlreadyAllocated,
            ReserveError::NotInCidr(_) => Self::NotInRange,
            _ => Self::InvalidArgument,
        }
    }
}

/// Creates an index without CIDRs and addresses. The seed decides the random choices; keep it from those who may choose
/// IPv6 addresses.
///
/// Times are nanoseconds of a clock of the caller's that never goes back; revisions are those of the objects in etcd.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_new(seed: u64, index: *mut *mut rk_index) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let out = unsafe { Out::new(scope, index)? };
        let generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        out.give(rk_index(Handle::new(IndexState { index: Index::new(seed), generator })));
        Ok(())
    })
}

/// Destroys an index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_free(index: *mut rk_index) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(index) }))
}

/// Adds a CIDR, which may overlap with others; *added is false if it is there already. Addresses that were observed
/// before and lie in it are taken. Cost: O(n log n) for n addresses taken in CIDRs that overlap with it and in none.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_insert_cidr(
    index: *mut rk_index,
    cidr: *const rk_service_cidr,
    added: *mut bool,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, cidr, added) =
            unsafe { (borrow(scope, index)?, service_cidr(scope, cidr)?, Out::new(scope, added)?) };
        added.write(index.run(|state| state.index.insert_cidr(cidr))?);
        Ok(())
    })
}

/// Removes a CIDR, so that its addresses are not offered any more; *removed is false if it is not there. The index
/// remembers which of them are taken. Cost: O(n log n) for n addresses taken in it.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_remove_cidr(
    index: *mut rk_index,
    cidr: *const rk_service_cidr,
    removed: *mut bool,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, cidr, removed) =
            unsafe { (borrow(scope, index)?, service_cidr(scope, cidr)?, Out::new(scope, removed)?) };
        removed.write(index.run(|state| state.index.remove_cidr(cidr))?);
        Ok(())
    })
}

/// Writes how many addresses of a CIDR are taken, reserved ones included, and how many are free. Cost: O(CIDRs).
///
/// RK_RESULT_INVALID_ARGUMENT if the index does not have the CIDR.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_usage(
    index: *const rk_index,
    cidr: *const rk_service_cidr,
    used: *mut u64,
    free: *mut u64,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, cidr, used, free) = unsafe {
            (borrow(scope, index)?, service_cidr(scope, cidr)?, Out::new(scope, used)?, Out::new(scope, free)?)
        };
        let usage = index.0.with(|state| state.index.usage(cidr).ok_or(rk_result::InvalidArgument))?;
        used.write(usage.used);
        free.write(usage.free);
        Ok(())
    })
}

/// Writes whether an address is taken.
///
/// RK_RESULT_INVALID_ARGUMENT if it is no address.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_is_taken(
    index: *const rk_index,
    value: *const rk_value,
    is_taken: *mut bool,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, value, is_taken) =
            unsafe { (borrow(scope, index)?, borrow(scope, value)?, Out::new(scope, is_taken)?) };
        let address = address(value)?;
        is_taken.write(index.run(|state| state.index.is_taken(address))?);
        Ok(())
    })
}

/// Reserves a free address of these CIDRs until a time. A CIDR is chosen with the probability of its share in the free
/// addresses of all dynamic bands, or, if there are none, of all static bands (KEP-3070). CIDRs that the index does not
/// have count as full. Cost: O(len * CIDRs + log addresses), at any fill.
///
/// RK_RESULT_FULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_reserve(
    index: *mut rk_index,
    cidrs: *const rk_service_cidr,
    len: usize,
    until: u64,
    reservation: *mut rk_reservation,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, cidrs, out) = unsafe {
            let cidrs = slice(scope, cidrs, len)?.iter().map(|cidr| cidr.get());
            (borrow(scope, index)?, cidrs.collect::<Result<Vec<_>, _>>()?, Out::new(scope, reservation)?)
        };
        out.write(index.0.with(|state| {
            match state.index.reserve(&cidrs, Duration::from_nanos(until), &mut state.generator) {
                Ok(reservation) => Ok(reservation.into()),
                Err(Full) => Err(rk_result::Full),
            }
        })?);
        Ok(())
    })
}

/// Reserves this address until a time.
///
/// RK_RESULT_ALREADY_ALLOCATED if it is taken, RK_RESULT_NOT_IN_RANGE if no CIDR has it, RK_RESULT_INVALID_ARGUMENT if
/// it is no address.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_reserve_address(
    index: *mut rk_index,
    value: *const rk_value,
    until: u64,
    reservation: *mut rk_reservation,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, value, out) =
            unsafe { (borrow(scope, index)?, borrow(scope, value)?, Out::new(scope, reservation)?) };
        let address = address(value)?;
        let reserve = |state: &mut IndexState| state.index.reserve_address(address, Duration::from_nanos(until));
        out.write(index.0.with(|state| reserve(state).map_err(rk_result::from))?.into());
        Ok(())
    })
}

/// Records that the object was created at revision. Its address stays taken until a removal of that revision or a later
/// one is observed, or a later list without it. A reservation that has expired can be confirmed, too; that changes
/// nothing if a later revision was observed, as the object was reported then, or will be.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_confirm(
    index: *mut rk_index,
    reservation: *const rk_reservation,
    revision: u64,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, reservation) = unsafe { (borrow(scope, index)?, borrow(scope, reservation)?) };
        let reservation = reservation.try_into()?;
        index.run(|state| state.index.confirm(reservation, revision))
    })
}

/// Records that the object of an address was created at `revision` without a reservation: rk_index_reserve_address
/// returned RK_RESULT_ALREADY_ALLOCATED, and the API server, which knows better, was asked all the same. Otherwise like
/// rk_index_confirm.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_created(index: *mut rk_index, address: *const rk_value, revision: u64) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, created) = unsafe { (borrow(scope, index)?, borrow(scope, address)?) };
        let created = self::address(created)?;
        index.run(|state| state.index.created(created, revision))
    })
}

/// Records that no object was created. If that is not certain, the API server must refuse a second creation, as it
/// does of an IPAddress object: the watch reports the object then. Has no effect once the reservation has ended.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_abort(index: *mut rk_index, reservation: *const rk_reservation) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, reservation) = unsafe { (borrow(scope, index)?, borrow(scope, reservation)?) };
        let reservation = reservation.try_into()?;
        index.run(|state| state.index.abort(reservation))
    })
}

/// Records that another client has created the object, as the API server says. The address stays taken until that is
/// observed, or until the reservation expires. Has no effect once the reservation has ended.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_already_exists(
    index: *mut rk_index,
    reservation: *const rk_reservation,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, reservation) = unsafe { (borrow(scope, index)?, borrow(scope, reservation)?) };
        let reservation = reservation.try_into()?;
        index.run(|state| state.index.already_exists(reservation))
    })
}

/// Ends the reservations whose time is `now` or before, and writes their number. Also ends the wait for their confirmed
/// creations, if later revisions were observed: a creation and removal during a watch gap is never reported. Cost:
/// O(reservations + confirmed creations that were not observed).
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_expire(index: *mut rk_index, now: u64, expired: *mut usize) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, expired) = unsafe { (borrow(scope, index)?, Out::new(scope, expired)?) };
        expired.write(index.run(|state| state.index.expire(Duration::from_nanos(now)))?);
        Ok(())
    })
}

/// Records that a watch reports an address's object as added or changed, at revision.
///
/// RK_RESULT_INVALID_ARGUMENT if it is no address.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_added(index: *mut rk_index, value: *const rk_value, revision: u64) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, value) = unsafe { (borrow(scope, index)?, borrow(scope, value)?) };
        let address = address(value)?;
        index.run(|state| state.index.added(address, revision))
    })
}

/// Records that a watch reports an address's object as removed, at revision.
///
/// RK_RESULT_INVALID_ARGUMENT if it is no address.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_removed(index: *mut rk_index, value: *const rk_value, revision: u64) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, value) = unsafe { (borrow(scope, index)?, borrow(scope, value)?) };
        let address = address(value)?;
        index.run(|state| state.index.removed(address, revision))
    })
}

/// Records a list of the addresses of all objects as of revision, and writes what it has changed. Reservations stay,
/// and so do objects that were created later. Cost: O(n log n) for n objects and addresses taken before.
///
/// RK_RESULT_STALE_LIST if a later revision was observed before, RK_RESULT_INVALID_ARGUMENT if one is no address;
/// nothing has changed then.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_index_replace(
    index: *mut rk_index,
    values: *const rk_value,
    len: usize,
    revision: u64,
    changes: *mut rk_index_changes,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (index, values, out) =
            unsafe { (borrow(scope, index)?, slice(scope, values, len)?, Out::new(scope, changes)?) };
        for value in values {
            address(value)?;
        }
        let addresses = values.iter().filter_map(|value| address(value).ok());
        let replace = |state: &mut IndexState| match state.index.replace(addresses, revision) {
            Ok(IndexChanges { added, removed }) => Ok(rk_index_changes { added, removed, reserved: [0; 2] }),
            Err(StaleList { .. }) => Err(rk_result::StaleList),
        };
        out.write(index.0.with(replace)?);
        Ok(())
    })
}
