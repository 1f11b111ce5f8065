//! Which addresses of a cluster's ServiceCIDRs are free, where the creation of an IPAddress object is what allocates
//! (KEP-1880).
//!
//! An [`Index`] is fed by what is observed: IPAddress objects that were added and removed, and full lists of them. A
//! caller that wants an address [reserves](Index::reserve) one, creates the object, and [confirms](Index::confirm) the
//! reservation with the revision of the creation, or [aborts](Index::abort) it. Meanwhile the index offers the address
//! to no other caller. A watch may lag: a confirmed address stays taken until a later removal is observed.
//!
//! Events of one address come in the order in which they happened. Those of different addresses may come in any order,
//! as from an informer that lists again after a watch gap.
//!
//! The index only says which addresses are worth trying. The API server decides: it refuses the creation of an object
//! that exists. Owners of objects do not matter here; [`audit`](crate::audit) checks them.
//!
//! ```
//! use std::time::Duration;
//!
//! use rand_core::SeedableRng;
//! use rand_xoshiro::Xoshiro256PlusPlus;
//! use rangekeeper::index::Index;
//! use rangekeeper::service_cidr::ServiceCidr;
//!
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
//! let mut index = Index::new(7);
//! let cidr = "10.96.0.0/24".parse::<ServiceCidr>()?;
//! index.insert_cidr(cidr);
//! // What a list of IPAddress objects says, and the revision of the list.
//! index.replace(["10.96.0.1".parse()?], 100)?;
//!
//! // One that a Service asks for by name, and any.
//! let dns = index.reserve_address("10.96.0.10".parse()?, Duration::from_secs(60))?;
//! let any = index.reserve(&[cidr], Duration::from_secs(60), &mut rng)?;
//! assert_ne!(any.address, dns.address);
//!
//! // One object was created at revision 101. The other creation was refused.
//! index.confirm(dns, 101);
//! index.abort(any);
//! let usage = index.usage(cidr).ok_or("no such CIDR")?;
//! assert_eq!((usage.used, usage.free), (2, 252));
//!
//! // The watch comes later.
//! index.added("10.96.0.10".parse()?, 101);
//! index.removed("10.96.0.10".parse()?, 105);
//! assert_eq!(index.usage(cidr).map(|usage| usage.used), Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod in_flight;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;
use std::time::Duration;

use foldhash::fast::FixedState;
use rand_core::Rng;
use thiserror::Error;

use self::in_flight::InFlight;
use crate::address::IPV4_MAPPED;
use crate::offsets::{Offsets, Region, fraction};
use crate::service_cidr::ServiceCidr;

/// CIDRs up to this size have a bitmap, of 8 MiB at most.
const WIDEST_BITMAP: u32 = 1 << 26;

/// The addresses of all CIDRs that are taken, of both families. CIDRs may overlap.
///
/// Of an IPv6 CIDR that is wider than a /64, the first 2^64 - 1 addresses can be allocated, except IPv4-mapped ones. In
/// a CIDR of more than 2^26 addresses, 1,024 reservations one after another get addresses of a random region of 4,096,
/// then another region comes.
///
/// Memory: up to 8 MiB for a CIDR of at most 2^26 addresses, by what is taken; for a wider one at most 18 bytes for
/// each address that is taken. A list takes up to 24 bytes for each of its addresses until it is compared.
#[derive(Clone, Debug)]
pub struct Index {
    seed: u64,
    cidrs: Vec<Cidr>,
    /// Taken addresses that no CIDR has.
    outside: HashSet<Key, FixedState>,
    in_flight: HashMap<Key, InFlight, FixedState>,
    /// The revision up to which everything was observed.
    observed: u64,
    next_id: u64,
}

/// An address as a number: an IPv4 address as the IPv4-mapped one. So a CIDR is a range of numbers.
type Key = u128;

fn key(address: IpAddr) -> Key {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(key: Key) -> IpAddr {
    Ipv6Addr::from_bits(key).to_canonical()
}

#[derive(Clone, Debug)]
struct Cidr {
    cidr: ServiceCidr,
    /// The address of offset 0.
    first: Key,
    /// Offsets are below this.
    size: u64,
    /// The offsets of IPv4-mapped addresses in an IPv6 CIDR. They are IPv4 addresses, and none can be allocated.
    mapped: Range<u64>,
    /// Those below this are the static band.
    static_band: u64,
    taken: Offsets,
    /// How many addresses of the static band are taken.
    taken_static: u64,
    /// Where free addresses of a wide CIDR are looked for.
    region: Region,
}

/// The right to create the object of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The address.
    pub address: IpAddr,
    /// The number of this reservation: once it has expired, the same address can be reserved again.
    pub id: u64,
}

/// How full a CIDR is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The CIDR.
    pub cidr: ServiceCidr,
    /// The number of addresses that are taken, reserved ones included.
    pub used: u64,
    /// The number of addresses that are free.
    pub free: u64,
}

/// The changes by a full list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexChanges {
    /// The number of addresses that were free before and are taken now.
    pub added: u64,
    /// The number of addresses that were taken before and are free now.
    pub removed: u64,
}

/// None of the CIDRs has a free address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no address is free")]
pub struct Full;

/// An address cannot be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// An object has it, or a reservation.
    #[error("address {0} is already allocated")]
    AlreadyAllocated(IpAddr),
    /// It lies in no CIDR, or is the network or broadcast address of each.
    #[error("address {0} is not in any ServiceCIDR")]
    NotInCidr(IpAddr),
}

/// A list is older than what was observed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a list of revision {list} comes after revision {observed} was observed")]
pub struct StaleList {
    /// The revision of the list.
    pub list: u64,
    /// The revision that was observed.
    pub observed: u64,
}

impl Index {
    /// Returns an index without CIDRs and addresses. Keep the seed from users who may choose IPv6 addresses: with it,
    /// they can choose addresses that are slow to look up.
    pub fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self {
            seed,
            cidrs: Vec::new(),
            outside: HashSet::with_hasher(hasher.clone()),
            in_flight: HashMap::with_hasher(hasher),
            observed: 0,
            next_id: 0,
        }
    }

    /// Adds a CIDR and returns whether it was missing. Addresses that were observed before and lie in it are taken.
    ///
    /// Cost: O(n log n) for n addresses taken in CIDRs that overlap with it and in none.
    pub fn insert_cidr(&mut self, cidr: ServiceCidr) -> bool {
        if self.position(cidr).is_some() {
            return false;
        }
        let mut new = Cidr::new(cidr, self.seed);
        for other in &self.cidrs {
            if new.overlaps(other) {
                other.keys().for_each(|key| {
                    new.take(key);
                });
            }
        }
        self.outside.retain(|key| new.take(*key).is_none());
        self.outside.shrink_to_fit();
        self.cidrs.push(new);
        true
    }

    /// Removes a CIDR, so that its addresses are not offered any more, and returns whether it was there. The index
    /// remembers which of them are taken.
    ///
    /// Cost: O(n log n) for n addresses taken in it.
    pub fn remove_cidr(&mut self, cidr: ServiceCidr) -> bool {
        let Some(position) = self.position(cidr) else {
            return false;
        };
        let gone = self.cidrs.swap_remove(position);
        let alone = gone.keys().filter(|key| self.cidrs.iter().all(|other| other.offset_of(*key).is_none()));
        self.outside.extend(alone);
        true
    }

    /// Returns how full a CIDR is; `None` if the index does not have it. Cost: O(CIDRs).
    #[inline] // a caller outside the crate would copy the CIDR twice
    pub fn usage(&self, cidr: ServiceCidr) -> Option<Usage> {
        self.position(cidr).map(|position| self.cidrs[position].usage())
    }

    /// Returns whether an address is taken, in a CIDR or not. Cost: O(CIDRs).
    pub fn is_taken(&self, address: IpAddr) -> bool {
        let key = key(address);
        match self.cidrs.iter().find_map(|cidr| Some((cidr, cidr.offset_of(key)?))) {
            Some((cidr, offset)) => cidr.taken.contains(offset),
            None => self.outside.contains(&key),
        }
    }

    /// Reserves a free address of one of these CIDRs until `until`. Each has the probability of its share in the free
    /// addresses of their dynamic bands, or, if there are none, of their static bands (KEP-3070). A CIDR that the index
    /// does not have counts as full.
    ///
    /// # Errors
    /// If no address is free.
    ///
    /// Cost: O(given CIDRs * CIDRs of the index + log addresses), at any fill.
    pub fn reserve(&mut self, cidrs: &[ServiceCidr], until: Duration, rng: &mut impl Rng) -> Result<Reservation, Full> {
        let dynamic = self.weighted(cidrs, Cidr::free_dynamic, rng);
        let position = dynamic.or_else(|| self.weighted(cidrs, Cidr::free, rng));
        let key = position.and_then(|position| self.cidrs[position].choose(rng)).ok_or(Full)?;
        self.take(key);
        Ok(self.start(key, until))
    }

    /// Reserves this address until `until`.
    ///
    /// # Errors
    /// If it is taken, or in no CIDR.
    pub fn reserve_address(&mut self, address: IpAddr, until: Duration) -> Result<Reservation, ReserveError> {
        let (key, address) = (key(address), address.to_canonical());
        if self.cidrs.iter().all(|cidr| cidr.offset_of(key).is_none()) {
            return Err(ReserveError::NotInCidr(address));
        }
        if !self.take(key) {
            return Err(ReserveError::AlreadyAllocated(address));
        }
        Ok(self.start(key, until))
    }

    /// Records that the object was created at `revision`. Its address stays taken until a removal of that revision or a
    /// later one is observed, or a later list without it. A reservation that has expired can be confirmed, too; that
    /// changes nothing if a later revision was observed, as the object was reported then, or will be.
    ///
    /// Cost: O(CIDRs).
    pub fn confirm(&mut self, reservation: Reservation, revision: u64) {
        let key = key(reservation.address);
        let is_known = self.update(key, |flight| {
            flight.end(reservation.id);
            flight.created_at(revision);
        });
        self.has_created(key, is_known, revision);
    }

    /// Records that the object of an address was created at `revision` without a reservation: the address was taken,
    /// and the API server, which knows better, was asked all the same. Otherwise like [`confirm`](Self::confirm).
    ///
    /// Cost: O(CIDRs).
    pub fn created(&mut self, address: IpAddr, revision: u64) {
        let key = key(address);
        let is_known = self.update(key, |flight| flight.created_at(revision));
        self.has_created(key, is_known, revision);
    }

    fn has_created(&mut self, key: Key, is_known: bool, revision: u64) {
        // If it was not known, the creation was observed before its answer arrived, and maybe even a removal.
        if !is_known && revision > self.observed {
            let is_there = !self.take(key);
            self.in_flight.insert(key, InFlight::created(revision, is_there, self.observed));
        }
    }

    /// Records that no object was created. If that is not certain, the API server must refuse a second creation, as it
    /// does of an IPAddress object: the watch reports the object then. Has no effect once the reservation has ended.
    ///
    /// Cost: O(CIDRs).
    pub fn abort(&mut self, reservation: Reservation) {
        self.update(key(reservation.address), |flight| flight.end(reservation.id));
    }

    /// Records that another client has created the object, as the API server says. The address stays taken until that
    /// is observed, or until the reservation expires. Has no effect once the reservation has ended.
    ///
    /// Cost: O(CIDRs).
    pub fn already_exists(&mut self, reservation: Reservation) {
        self.update(key(reservation.address), |flight| flight.already_exists(reservation.id));
    }

    /// Ends the reservations with `until <= now` and returns their number. Also ends the wait for their confirmed
    /// creations, if later revisions were observed: a creation and removal during a watch gap is never reported.
    ///
    /// Cost: O(reservations + confirmed creations that were not observed).
    pub fn expire(&mut self, now: Duration) -> usize {
        let (mut expired, observed) = (0, self.observed);
        self.update_all(|_, flight| expired += usize::from(flight.expire(now, observed)));
        expired
    }

    /// Records that a watch reports the object of an address as added or changed, at `revision`. Cost: O(CIDRs).
    pub fn added(&mut self, address: IpAddr, revision: u64) {
        let key = key(address);
        self.observed = self.observed.max(revision);
        if !self.update(key, |flight| flight.observe(true, revision)) {
            self.take(key);
        }
    }

    /// Records that a watch reports the object of an address as removed, at `revision`. Cost: O(CIDRs).
    pub fn removed(&mut self, address: IpAddr, revision: u64) {
        let key = key(address);
        self.observed = self.observed.max(revision);
        if !self.update(key, |flight| flight.observe(false, revision)) {
            self.release(key);
        }
    }

    /// Records a list of all objects as of `revision`, and returns what it has changed. Reservations stay, and so do
    /// objects that were created later.
    ///
    /// # Errors
    /// If a later revision was observed before; then nothing has changed.
    ///
    /// Cost: O(n log n) for n objects and addresses taken before.
    pub fn replace(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
        revision: u64,
    ) -> Result<IndexChanges, StaleList> {
        if revision < self.observed {
            return Err(StaleList { list: revision, observed: self.observed });
        }
        self.observed = revision;
        let mut listed: Vec<Key> = addresses.into_iter().map(key).collect();
        // In order, a bitmap is read from its first to its last word.
        listed.sort_unstable();
        let added = listed.iter().filter(|key| self.take(**key)).count();
        let is_listed = |key: Key| listed.binary_search(&key).is_ok();
        let mut gone: Vec<Key> = self.outside.iter().copied().filter(|key| !is_listed(*key)).collect();
        gone.extend(self.cidrs.iter().flat_map(|cidr| cidr.keys_without(&listed)));
        gone.retain(|key| !self.in_flight.contains_key(key));
        let removed = gone.iter().filter(|key| self.release(**key)).count();
        let landed = self.update_all(|key, flight| flight.observe(is_listed(key), revision));
        Ok(IndexChanges { added: added as u64, removed: (removed + landed) as u64 })
    }

    #[inline]
    fn position(&self, cidr: ServiceCidr) -> Option<usize> {
        self.cidrs.iter().position(|other| other.cidr == cidr)
    }

    /// The positions of the CIDRs among these that the index has.
    fn known<'a>(&'a self, cidrs: &'a [ServiceCidr]) -> impl Iterator<Item = usize> + Clone {
        cidrs.iter().filter_map(|cidr| self.position(*cidr))
    }

    /// Chooses one of these CIDRs, with the probability of its share in the sum of weights, and returns its position;
    /// `None` if the sum is 0.
    fn weighted(&self, cidrs: &[ServiceCidr], weight: impl Fn(&Cidr) -> u64, rng: &mut impl Rng) -> Option<usize> {
        let mut known = self.known(cidrs);
        let weight = |position: usize| u128::from(weight(&self.cidrs[position]));
        let sum: u128 = known.clone().map(weight).sum();
        if sum == 0 {
            return None;
        }
        let mut chosen = fraction(sum, rng);
        known.find(|position| match chosen.checked_sub(weight(*position)) {
            None => true,
            Some(rest) => {
                chosen = rest;
                false
            }
        })
    }

    /// Starts the reservation of an address that was free and has just been taken.
    fn start(&mut self, key: Key, until: Duration) -> Reservation {
        self.next_id += 1;
        self.in_flight.insert(key, InFlight::reserved(self.next_id, until, self.observed));
        Reservation { address: address(key), id: self.next_id }
    }

    /// Changes what is known of an address in flight; false if it is not in flight.
    fn update(&mut self, key: Key, change: impl FnOnce(&mut InFlight)) -> bool {
        let Entry::Occupied(mut flight) = self.in_flight.entry(key) else {
            return false;
        };
        change(flight.get_mut());
        if flight.get().is_over() {
            let is_there = flight.remove().is_there();
            self.shrink();
            if !is_there {
                self.release(key);
            }
        }
        true
    }

    /// Changes what is known of all addresses in flight; how many of them are free now.
    fn update_all(&mut self, mut change: impl FnMut(Key, &mut InFlight)) -> usize {
        let mut free = Vec::new();
        self.in_flight.retain(|key, flight| {
            change(*key, flight);
            if flight.is_over() && !flight.is_there() {
                free.push(*key);
            }
            !flight.is_over()
        });
        self.shrink();
        free.iter().filter(|key| self.release(**key)).count()
    }

    /// Returns memory once few addresses are in flight. There were many if the watch stood still.
    fn shrink(&mut self) {
        if self.in_flight.capacity() > 64 + 8 * self.in_flight.len() {
            self.in_flight.shrink_to(2 * self.in_flight.len());
        }
    }

    /// Whether it was free.
    fn take(&mut self, key: Key) -> bool {
        let mut inside = None;
        for cidr in &mut self.cidrs {
            inside = cidr.take(key).or(inside);
        }
        inside.unwrap_or_else(|| self.outside.insert(key))
    }

    /// Whether it was taken.
    fn release(&mut self, key: Key) -> bool {
        let mut inside = None;
        for cidr in &mut self.cidrs {
            inside = cidr.release(key).or(inside);
        }
        inside.unwrap_or_else(|| self.outside.remove(&key))
    }
}

impl Cidr {
    fn new(cidr: ServiceCidr, seed: u64) -> Self {
        let first = cidr.value_at(0).map_or(0, key);
        let (size, static_band) = (cidr.size(), cidr.static_band().into());
        let mapped = IPV4_MAPPED.start.checked_sub(first).filter(|_| cidr.network().is_ipv6());
        let mapped = mapped
            .and_then(|start| u64::try_from(start).ok())
            .map_or(0..0, |start| start.min(size)..start.saturating_add(1 << 32).min(size));
        Self {
            cidr,
            first,
            size,
            mapped,
            static_band,
            taken: Offsets::new(size, WIDEST_BITMAP, seed),
            taken_static: 0,
            region: Region::default(),
        }
    }

    fn offset_of(&self, key: Key) -> Option<u64> {
        let offset = u64::try_from(key.checked_sub(self.first)?).ok()?;
        (offset < self.size && !self.mapped.contains(&offset)).then_some(offset)
    }

    /// Whether some address lies in both: then so does the first one of one of them.
    fn overlaps(&self, other: &Self) -> bool {
        self.offset_of(other.first).is_some() || other.offset_of(self.first).is_some()
    }

    fn free(&self) -> u64 {
        self.size - (self.mapped.end - self.mapped.start) - self.taken.len()
    }

    fn free_dynamic(&self) -> u64 {
        self.free() - (self.static_band - self.taken_static)
    }

    fn usage(&self) -> Usage {
        Usage { cidr: self.cidr, used: self.taken.len(), free: self.free() }
    }

    /// Whether it was free; `None` if the CIDR does not have it.
    fn take(&mut self, key: Key) -> Option<bool> {
        let offset = self.offset_of(key)?;
        let was_free = self.taken.insert(offset);
        self.taken_static += u64::from(was_free && offset < self.static_band);
        Some(was_free)
    }

    /// Whether it was taken; `None` if the CIDR does not have it.
    fn release(&mut self, key: Key) -> Option<bool> {
        let offset = self.offset_of(key)?;
        let was_taken = self.taken.remove(offset);
        self.taken_static -= u64::from(was_taken && offset < self.static_band);
        Some(was_taken)
    }

    /// Addresses that are taken, ascending.
    fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.taken.iter().map(|offset| self.first + Key::from(offset))
    }

    /// Addresses that are taken and not in an ascending list.
    fn keys_without<'a>(&'a self, listed: &'a [Key]) -> impl Iterator<Item = Key> + 'a {
        let mut at = listed.partition_point(|key| *key < self.first);
        self.keys().filter(move |key| {
            while at < listed.len() && listed[at] < *key {
                at += 1;
            }
            at == listed.len() || listed[at] != *key
        })
    }

    /// A free address: the first one from a random one of the dynamic band on, else of the static band. In a wide CIDR
    /// one of a small region, if it has any.
    fn choose(&mut self, rng: &mut impl Rng) -> Option<Key> {
        let (band, size) = (self.static_band, self.size);
        let near = if self.taken.is_wide() { self.scan_region(rng) } else { None };
        let offset = near.or_else(|| self.scan(band, size, rng)).or_else(|| self.scan(0, band, rng))?;
        Some(self.first + Key::from(offset))
    }

    /// A free offset of the region, from which another one follows when enough of it were chosen.
    fn scan_region(&mut self, rng: &mut impl Rng) -> Option<u64> {
        let (band, last) = (self.static_band, self.size - Region::SIZE);
        let first = self.region.next(|| band + fraction((last - band).into(), rng) as u64);
        self.scan(first, first + Region::SIZE, rng)
    }

    /// The first free offset of `low..high` from a random one on, with wrap.
    fn scan(&self, low: u64, high: u64, rng: &mut impl Rng) -> Option<u64> {
        let start = low + fraction((high - low).into(), rng) as u64;
        self.next_free(start, high).or_else(|| self.next_free(low, start))
    }

    fn next_free(&self, from: u64, to: u64) -> Option<u64> {
        let last = to.checked_sub(1)?;
        let next = self.taken.next_clear(from..=last)?;
        if self.mapped.contains(&next) { self.taken.next_clear(self.mapped.end..=last) } else { Some(next) }
    }
}
