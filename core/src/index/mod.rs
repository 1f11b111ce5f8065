//! Which addresses of a cluster's ServiceCIDRs are free, where the creation of an IPAddress object is what allocates
//! (KEP-1880).
//!
//! An [`Index`] is fed by what is observed: IPAddress objects that were added and removed, and full lists of them. Who
//! wants an address [reserves](Index::reserve) one, creates the object, and [confirms](Index::confirm) the reservation
//! with the revision of the creation, or [aborts](Index::abort) it. Nobody else is offered the address meanwhile, and a
//! watch that lags changes nothing: what is confirmed stays taken until a later removal is observed.
//!
//! The index only says what is worth trying. The API server decides: it refuses the creation of an object that exists.
//!
//! ```
//! use std::time::Duration;
//!
//! use rand_core::SeedableRng;
//! use rand_xoshiro::Xoshiro256PlusPlus;
//! use rangekeeper::index::{Index, Pool};
//! use rangekeeper::service_cidr::ServiceCidr;
//!
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
//! let mut index = Index::new(7);
//! let cidr = ServiceCidr::parse("10.96.0.0/24")?;
//! index.insert_cidr(cidr);
//! // What a list of IPAddress objects says, and the revision of the list.
//! index.replace(["10.96.0.1".parse()?], 100)?;
//!
//! // One that a Service asks for by name, and any.
//! let dns = index.reserve_address("10.96.0.10".parse()?, Duration::from_secs(60))?;
//! let any = index.reserve(Pool::Among(&[cidr]), Duration::from_secs(60), &mut rng)?;
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

mod offsets;
mod sparse;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use foldhash::fast::FixedState;
use rand_core::Rng;
use thiserror::Error;

use self::offsets::Offsets;
use crate::service_cidr::ServiceCidr;

/// The addresses of all CIDRs that are taken, of both families. CIDRs may overlap.
///
/// Memory: up to 8 MiB for a CIDR of at most 2^26 addresses, by what is taken; for a wider one 9 to 18 bytes for each
/// address that is taken.
#[derive(Clone, Debug)]
pub struct Index {
    seed: u64,
    cidrs: Vec<Cidr>,
    /// Taken addresses that no CIDR has.
    outside: HashSet<IpAddr, FixedState>,
    /// Reservations, and objects whose creation was not observed yet.
    in_flight: HashMap<IpAddr, Flight, FixedState>,
    /// The revision up to which everything was observed.
    observed: u64,
    next_id: u64,
}

#[derive(Clone, Debug)]
struct Cidr {
    cidr: ServiceCidr,
    taken: Offsets,
}

/// An address that is taken though no object may have been observed.
#[derive(Clone, Debug)]
struct Flight {
    id: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Reserved {
        until: Duration,
        /// An object of the address was observed, and not its removal.
        is_there: bool,
    },
    /// The object was created at this revision, which was not observed yet.
    Confirmed { revision: u64 },
}

/// The right to create the object of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The address.
    pub address: IpAddr,
    /// Which reservation of that address it is: the same address can be reserved again once a reservation has expired.
    pub id: u64,
}

/// Where a free address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool<'a> {
    /// From one of these CIDRs, each with the probability of its share in their free addresses.
    Among(&'a [ServiceCidr]),
    /// From the first of these CIDRs that has a free address.
    InOrder(&'a [ServiceCidr]),
}

/// How full a CIDR is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The CIDR.
    pub cidr: ServiceCidr,
    /// Addresses that are taken, reserved ones included.
    pub used: u64,
    /// Addresses that are free.
    pub free: u64,
}

/// What a full list has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Addresses that were free before.
    pub added: u64,
    /// Addresses that are free now.
    pub removed: u64,
}

/// None of the CIDRs has a free address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no address is free")]
pub struct Full;

/// An address cannot be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
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
    /// An index without CIDRs and addresses. Who knows the seed can choose IPv6 addresses that make it slow.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            cidrs: Vec::new(),
            outside: HashSet::default(),
            in_flight: HashMap::default(),
            observed: 0,
            next_id: 0,
        }
    }

    /// Adds a CIDR; false if it is there already. Addresses that were observed before and lie in it are taken.
    ///
    /// Cost: O(addresses taken in CIDRs that overlap with it, and in none).
    pub fn insert_cidr(&mut self, cidr: ServiceCidr) -> bool {
        if self.position(cidr).is_some() {
            return false;
        }
        let mut taken = Offsets::new(cidr.size(), 0, self.seed);
        for other in self.cidrs.iter().filter(|other| other.cidr.overlaps(cidr)) {
            for offset in other.addresses().filter_map(|address| cidr.offset_of(address)) {
                taken.insert(offset);
            }
        }
        self.outside.retain(|address| match cidr.offset_of(*address) {
            Some(offset) => !taken.insert(offset),
            None => true,
        });
        self.cidrs.push(Cidr { cidr, taken });
        true
    }

    /// Removes a CIDR; false if it is not there. No address of it is handed out any more. The index remembers which of
    /// them are taken.
    ///
    /// Cost: O(addresses taken in it).
    pub fn remove_cidr(&mut self, cidr: ServiceCidr) -> bool {
        let Some(position) = self.position(cidr) else {
            return false;
        };
        let gone = self.cidrs.swap_remove(position);
        let alone = gone.addresses().filter(|address| !self.cidrs.iter().any(|other| other.has(*address)));
        self.outside.extend(alone);
        true
    }

    /// How full each CIDR is. Cost: O(1) for each.
    pub fn usages(&self) -> impl ExactSizeIterator<Item = Usage> + '_ {
        self.cidrs.iter().map(Cidr::usage)
    }

    /// How full a CIDR is; `None` if it is not there. Cost: O(CIDRs).
    pub fn usage(&self, cidr: ServiceCidr) -> Option<Usage> {
        self.position(cidr).map(|position| self.cidrs[position].usage())
    }

    /// Whether an address is taken. Cost: O(CIDRs).
    pub fn is_taken(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self.cidrs.iter().find_map(|cidr| Some((cidr, cidr.cidr.offset_of(address)?))) {
            Some((cidr, offset)) => cidr.taken.contains(offset),
            None => self.outside.contains(&address),
        }
    }

    /// Reserves a free address until `until`, of the dynamic band of its CIDR as long as that has one (KEP-3070). A CIDR that
    /// the index does not have counts as full.
    ///
    /// # Errors
    /// If no address is free.
    ///
    /// Cost: O(CIDRs + log addresses), at any fill.
    pub fn reserve(&mut self, pool: Pool<'_>, until: Duration, rng: &mut impl Rng) -> Result<Reservation, Full> {
        let cidr = match pool {
            Pool::Among(cidrs) => self.weighted(cidrs, rng),
            Pool::InOrder(cidrs) => self.known(cidrs).find(|cidr| cidr.free() > 0),
        };
        let address = cidr.and_then(|cidr| cidr.choose(rng)).ok_or(Full)?;
        self.take(address);
        Ok(self.in_flight(address, until))
    }

    /// Reserves this address until `until`.
    ///
    /// # Errors
    /// If it is taken, or in no CIDR.
    pub fn reserve_address(&mut self, address: IpAddr, until: Duration) -> Result<Reservation, ReserveError> {
        let address = address.to_canonical();
        if !self.cidrs.iter().any(|cidr| cidr.has(address)) {
            return Err(ReserveError::NotInCidr(address));
        }
        if !self.take(address) {
            return Err(ReserveError::AlreadyAllocated(address));
        }
        Ok(self.in_flight(address, until))
    }

    /// The object was created at `revision`. Its address stays taken until a later removal is observed, or a later list
    /// without it. A reservation that has expired can be confirmed, too.
    pub fn confirm(&mut self, reservation: Reservation, revision: u64) {
        let Reservation { address, id } = reservation;
        let flight = self.in_flight.get_mut(&address);
        if revision <= self.observed {
            // The creation was observed before its answer arrived, and maybe even a removal.
            if flight.is_some_and(|flight| flight.id == id) {
                self.land(address);
            }
            return;
        }
        let state = State::Confirmed { revision };
        match flight {
            Some(flight) => (flight.id, flight.state) = (id, state),
            None => {
                self.take(address);
                self.in_flight.insert(address, Flight { id, state });
            }
        }
    }

    /// No object was created. If that is not certain, let the reservation expire; so do if the API server says that the
    /// object exists, as its creation will be observed.
    pub fn abort(&mut self, reservation: Reservation) {
        let of_it = |flight: &Flight| flight.id == reservation.id && matches!(flight.state, State::Reserved { .. });
        if self.in_flight.get(&reservation.address).is_some_and(of_it) {
            self.land(reservation.address);
        }
    }

    /// Ends the reservations whose time is over at `now`; how many there were. Cost: O(reservations).
    pub fn expire(&mut self, now: Duration) -> usize {
        let over = |flight: &Flight| matches!(flight.state, State::Reserved { until, .. } if until <= now);
        let expired: Vec<IpAddr> =
            self.in_flight.iter().filter(|(_, flight)| over(flight)).map(|(address, _)| *address).collect();
        for address in &expired {
            self.land(*address);
        }
        expired.len()
    }

    /// A watch reports that the object of an address was added or changed, at `revision`.
    pub fn added(&mut self, address: IpAddr, revision: u64) {
        let address = address.to_canonical();
        self.observed = self.observed.max(revision);
        match self.in_flight.get_mut(&address) {
            Some(flight) if flight.is_confirmed_by(revision) => {
                self.in_flight.remove(&address);
            }
            Some(flight) => flight.observe(true),
            None => {
                self.take(address);
            }
        }
    }

    /// A watch reports that the object of an address was removed, at `revision`.
    pub fn removed(&mut self, address: IpAddr, revision: u64) {
        let address = address.to_canonical();
        self.observed = self.observed.max(revision);
        match self.in_flight.get_mut(&address) {
            Some(flight) if flight.is_confirmed_by(revision) => {
                self.in_flight.remove(&address);
                self.release(address);
            }
            Some(flight) => flight.observe(false),
            None => self.release(address),
        }
    }

    /// A list reports all objects as of `revision`. Reservations stay, and so do objects that were created later.
    ///
    /// # Errors
    /// If a later revision was observed before. Nothing has changed then.
    ///
    /// Cost: O(objects + addresses taken before).
    pub fn replace(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
        revision: u64,
    ) -> Result<Changes, StaleList> {
        if revision < self.observed {
            return Err(StaleList { list: revision, observed: self.observed });
        }
        let mut next = Self::new(self.seed);
        next.cidrs = self.cidrs.iter().map(|cidr| cidr.emptied(self.seed)).collect();
        (next.observed, next.next_id) = (revision, self.next_id);
        let mut changes = Changes::default();
        let (mut taken, mut stayed) = (0, 0);
        let mut take = |next: &mut Self, address: IpAddr| {
            if next.take(address) {
                let before = self.is_taken(address);
                taken += 1;
                stayed += u64::from(before);
            }
        };
        for address in addresses {
            take(&mut next, address.to_canonical());
        }
        for (address, flight) in &self.in_flight {
            if flight.is_confirmed_by(revision) {
                continue;
            }
            let mut flight = flight.clone();
            flight.observe(next.is_taken(*address));
            take(&mut next, *address);
            next.in_flight.insert(*address, flight);
        }
        changes.added = taken - stayed;
        changes.removed = self.taken() - stayed;
        *self = next;
        Ok(changes)
    }

    /// How many addresses are taken, in CIDRs or not. Cost: O(addresses taken), if CIDRs overlap.
    fn taken(&self) -> u64 {
        let first = |(position, cidr): (usize, &Cidr)| {
            let before = &self.cidrs[..position];
            if !before.iter().any(|other| other.cidr.overlaps(cidr.cidr)) {
                return cidr.taken.len();
            }
            cidr.addresses().filter(|address| !before.iter().any(|other| other.has(*address))).count() as u64
        };
        self.cidrs.iter().enumerate().map(first).sum::<u64>() + self.outside.len() as u64
    }

    fn position(&self, cidr: ServiceCidr) -> Option<usize> {
        self.cidrs.iter().position(|other| other.cidr == cidr)
    }

    /// Those of these CIDRs that the index has.
    fn known<'a>(&'a self, cidrs: &'a [ServiceCidr]) -> impl Iterator<Item = &'a Cidr> + Clone {
        cidrs.iter().filter_map(|cidr| self.position(*cidr).map(|position| &self.cidrs[position]))
    }

    /// One of these CIDRs that has a free address, by its share in the free addresses.
    fn weighted<'a>(&'a self, cidrs: &'a [ServiceCidr], rng: &mut impl Rng) -> Option<&'a Cidr> {
        let mut known = self.known(cidrs);
        let free: u128 = known.clone().map(|cidr| u128::from(cidr.free())).sum();
        // 128 random bits: the remainder is no more likely to be small than anybody could notice.
        let random = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        let mut chosen = random.checked_rem(free)?;
        known.find(|cidr| match chosen.checked_sub(u128::from(cidr.free())) {
            None => true,
            Some(rest) => {
                chosen = rest;
                false
            }
        })
    }

    fn in_flight(&mut self, address: IpAddr, until: Duration) -> Reservation {
        self.next_id += 1;
        let state = State::Reserved { until, is_there: false };
        self.in_flight.insert(address, Flight { id: self.next_id, state });
        Reservation { address, id: self.next_id }
    }

    /// Ends a reservation: from now on the address is taken only if its object is there.
    fn land(&mut self, address: IpAddr) {
        let flight = self.in_flight.remove(&address);
        if flight.is_some_and(|flight| matches!(flight.state, State::Reserved { is_there: false, .. })) {
            self.release(address);
        }
    }

    /// Whether it was free.
    fn take(&mut self, address: IpAddr) -> bool {
        let mut inside = None;
        for cidr in &mut self.cidrs {
            if let Some(offset) = cidr.cidr.offset_of(address) {
                inside = Some(cidr.taken.insert(offset));
            }
        }
        inside.unwrap_or_else(|| self.outside.insert(address))
    }

    fn release(&mut self, address: IpAddr) {
        let mut is_outside = true;
        for cidr in &mut self.cidrs {
            if let Some(offset) = cidr.cidr.offset_of(address) {
                cidr.taken.remove(offset);
                is_outside = false;
            }
        }
        if is_outside {
            self.outside.remove(&address);
        }
    }
}

impl Cidr {
    fn emptied(&self, seed: u64) -> Self {
        Self { cidr: self.cidr, taken: Offsets::new(self.cidr.size(), self.taken.len(), seed) }
    }

    fn has(&self, address: IpAddr) -> bool {
        self.cidr.offset_of(address).is_some()
    }

    fn free(&self) -> u64 {
        self.cidr.size() - self.taken.len()
    }

    fn usage(&self) -> Usage {
        Usage { cidr: self.cidr, used: self.taken.len(), free: self.free() }
    }

    /// Addresses that are taken.
    fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.taken.iter().filter_map(|offset| self.cidr.value_at(offset))
    }

    /// A free address: the first one from a random one of the dynamic band on, else of the static band.
    fn choose(&self, rng: &mut impl Rng) -> Option<IpAddr> {
        let (size, band) = (self.cidr.size(), u64::from(self.cidr.static_band()));
        let offset = self.scan(band, size, rng).or_else(|| self.scan(0, band, rng))?;
        self.cidr.value_at(offset)
    }

    /// The first free offset of `low..high` from a random one on, with wrap.
    fn scan(&self, low: u64, high: u64, rng: &mut impl Rng) -> Option<u64> {
        let start = low + ((u128::from(rng.next_u64()) * u128::from(high - low)) >> 64) as u64;
        self.taken.next_clear(start, high).or_else(|| self.taken.next_clear(low, start))
    }
}

impl Flight {
    /// Records whether an object was observed. Once the creation is confirmed, only what comes after it counts.
    fn observe(&mut self, observed: bool) {
        if let State::Reserved { is_there, .. } = &mut self.state {
            *is_there = observed;
        }
    }

    /// Whether an event of this revision comes after the creation, so that the watch says everything from now on.
    fn is_confirmed_by(&self, observed: u64) -> bool {
        matches!(self.state, State::Confirmed { revision } if revision <= observed)
    }
}
