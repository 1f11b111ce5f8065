//! Sequences of operations on an index of addresses against ordered sets.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rand_core::{TryRng, utils};
use rangekeeper::index::{Full, Index, IndexChanges, Reservation, ReserveError, StaleList};
use rangekeeper::service_cidr::ServiceCidr;

/// Some overlap, the first two are soon full, and the wide ones have no bitmap.
const CIDRS: [&str; 8] = [
    "10.0.0.0/29",
    "10.0.0.4/30",
    "10.0.0.0/27",
    "0.0.0.0/0",
    "fd00::/124",
    "fd00::/120",
    "fd00::/60",
    "ffff:ffff:ffff:ffff::/64",
];

#[derive(Arbitrary, Debug)]
struct Input {
    seed: u64,
    random: Vec<u64>,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    InsertCidr(u8),
    RemoveCidr(u8),
    Reserve {
        cidrs: [u8; 3],
        until: u8,
    },
    ReserveAddress {
        address: u16,
        until: u8,
    },
    /// The object of a reservation was created at a later revision than all before.
    Confirm(u8),
    Abort(u8),
    AlreadyExists(u8),
    Expire(u8),
    /// The events of a revision: of an address that changes, or of the last confirmed creation.
    Observe {
        address: u16,
        is_there: bool,
    },
    Replace {
        addresses: Vec<u16>,
        ahead: u8,
    },
}

/// Random numbers from the input, over and over.
struct Numbers {
    numbers: Vec<u64>,
    next: usize,
}

impl TryRng for Numbers {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.try_next_u64()? as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.next += 1;
        Ok(self.numbers.get(self.next % self.numbers.len().max(1)).copied().unwrap_or(0))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
    }
}

struct Reserved {
    reservation: Reservation,
    until: Duration,
    /// Whether the object exists, by what was observed since the reservation.
    is_there: bool,
    /// Another client has created it.
    already_exists: bool,
}

#[derive(Default)]
struct Model {
    cidrs: Vec<ServiceCidr>,
    objects: BTreeSet<IpAddr>,
    reserved: BTreeMap<IpAddr, Reserved>,
    /// Addresses of objects whose creation has this revision and was not observed.
    created: BTreeMap<IpAddr, u64>,
    observed: u64,
}

impl Model {
    fn taken(&self) -> BTreeSet<IpAddr> {
        self.objects.iter().chain(self.reserved.keys()).chain(self.created.keys()).copied().collect()
    }

    fn free(&self, cidr: ServiceCidr, offsets: impl Fn(u64) -> bool) -> u64 {
        let taken = self.taken().into_iter().filter_map(|address| cidr.offset_of(address));
        let of = if offsets(0) { cidr.size() } else { cidr.size() - u64::from(cidr.static_band()) };
        of - taken.filter(|offset| offsets(*offset)).count() as u64
    }

    fn end_those_of_others(&mut self) {
        self.reserved.retain(|_, reserved| !(reserved.already_exists && reserved.is_there));
    }

    /// The addresses of an event or a list of this revision are those of the objects now.
    fn observe(&mut self, address: IpAddr, is_there: bool, revision: u64) {
        self.observed = self.observed.max(revision);
        if is_there {
            self.objects.insert(address)
        } else {
            self.objects.remove(&address)
        };
        if let Some(reserved) = self.reserved.get_mut(&address) {
            reserved.is_there = is_there;
        }
        self.end_those_of_others();
        if self.created.get(&address).is_some_and(|created| *created <= revision) {
            self.created.remove(&address);
        }
    }
}

/// Addresses at the beginning of the small CIDRs, the network address included.
fn address(number: u16) -> IpAddr {
    let number = number % 64;
    match number {
        0..32 => IpAddr::from([10, 0, 0, number as u8]),
        _ => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, number - 32]),
    }
}

fuzz_target!(|input: Input| {
    let all = CIDRS.map(|cidr| cidr.parse::<ServiceCidr>().expect("a CIDR"));
    let any = |at: u8| all[usize::from(at) % all.len()];
    let mut rng = Numbers { numbers: input.random, next: 0 };
    let (mut index, mut model) = (Index::new(input.seed), Model::default());
    let (mut reservations, mut now) = (Vec::new(), Duration::ZERO);
    let mut head = 0;
    for step in input.steps.iter().take(64) {
        match step {
            Step::InsertCidr(at) => {
                assert_eq!(index.insert_cidr(any(*at)), !model.cidrs.contains(&any(*at)));
                if !model.cidrs.contains(&any(*at)) {
                    model.cidrs.push(any(*at));
                }
            }
            Step::RemoveCidr(at) => {
                assert_eq!(index.remove_cidr(any(*at)), model.cidrs.contains(&any(*at)));
                model.cidrs.retain(|cidr| *cidr != any(*at));
            }
            Step::Reserve { cidrs, until } => {
                let until = now + Duration::from_secs((*until).into());
                let cidrs = cidrs.map(any);
                let mut open: Vec<ServiceCidr> = cidrs.into_iter().filter(|cidr| model.cidrs.contains(cidr)).collect();
                open.retain(|cidr| model.free(*cidr, |_| true) > 0);
                let is_dynamic = |cidr: &ServiceCidr, offset: u64| offset >= cidr.static_band().into();
                let some_dynamic =
                    open.iter().any(|cidr| cidr.static_band() == 0 || model.free(*cidr, |at| is_dynamic(cidr, at)) > 0);
                match index.reserve(&cidrs, until, &mut rng) {
                    Err(Full) => assert!(open.is_empty()),
                    Ok(reservation) => {
                        let address = reservation.address;
                        assert!(!model.taken().contains(&address), "{address} is taken");
                        let may = |cidr: &ServiceCidr| {
                            cidr.offset_of(address).is_some_and(|at| !some_dynamic || is_dynamic(cidr, at))
                        };
                        assert!(open.iter().any(may), "{address} from {cidrs:?}");
                        let reserved = Reserved { reservation, until, is_there: false, already_exists: false };
                        model.reserved.insert(address, reserved);
                        reservations.push(reservation);
                    }
                }
            }
            Step::ReserveAddress { address: number, until } => {
                let (address, until) = (address(*number), now + Duration::from_secs((*until).into()));
                let is_in = model.cidrs.iter().any(|cidr| cidr.offset_of(address).is_some());
                match index.reserve_address(address, until) {
                    Err(ReserveError::NotInCidr(named)) => assert!(named == address && !is_in),
                    Err(ReserveError::AlreadyAllocated(named)) => {
                        assert!(named == address && is_in && model.taken().contains(&address));
                    }
                    Ok(reservation) => {
                        assert!(is_in && !model.taken().contains(&address));
                        let reserved = Reserved { reservation, until, is_there: false, already_exists: false };
                        model.reserved.insert(address, reserved);
                        reservations.push(reservation);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Confirm(at) | Step::Abort(at) | Step::AlreadyExists(at) => {
                let Some(reservation) = reservations.get(usize::from(*at)).copied() else { continue };
                let address = reservation.address;
                let own = model.reserved.get_mut(&address).filter(|reserved| reserved.reservation == reservation);
                match (step, own) {
                    (Step::AlreadyExists(_), Some(own)) => own.already_exists = true,
                    (_, Some(_)) => drop(model.reserved.remove(&address)),
                    (_, None) => {}
                }
                model.end_those_of_others();
                match step {
                    Step::Abort(_) => index.abort(reservation),
                    Step::AlreadyExists(_) => index.already_exists(reservation),
                    _ => {
                        head += 1;
                        index.confirm(reservation, head);
                        model.created.insert(address, head);
                    }
                }
            }
            Step::Expire(seconds) => {
                now += Duration::from_secs((*seconds).into());
                let before = model.reserved.len();
                model.reserved.retain(|_, reserved| reserved.until > now);
                assert_eq!(index.expire(now), before - model.reserved.len());
                // Events come in the order of revisions, so none of a creation is missing.
                assert!(model.created.values().all(|created| *created > model.observed));
            }
            Step::Observe { address: number, is_there } => {
                // The watch reports all creations up to the head first.
                let created: Vec<(u64, IpAddr)> = model.created.iter().map(|(address, at)| (*at, *address)).collect();
                let created: BTreeMap<u64, IpAddr> = created.into_iter().collect();
                let events = created.into_iter().map(|(revision, address)| (address, true, revision));
                head += 1;
                let last = (address(*number), *is_there, head);
                for (address, is_there, revision) in events.chain([last]) {
                    match is_there {
                        true => index.added(address, revision),
                        false => index.removed(address, revision),
                    }
                    model.observe(address, is_there, revision);
                }
            }
            Step::Replace { addresses, ahead } => {
                let revision = (model.observed + u64::from(*ahead % 4)).saturating_sub(1);
                head = head.max(revision);
                let mut listed: BTreeSet<IpAddr> = addresses.iter().map(|number| address(*number)).collect();
                let result = index.replace(addresses.iter().map(|number| address(*number)), revision);
                if revision < model.observed {
                    assert_eq!(result, Err(StaleList { list: revision, observed: model.observed }));
                    continue;
                }
                let before = model.taken();
                std::mem::swap(&mut model.objects, &mut listed);
                model.observed = revision;
                model.created.retain(|_, created| *created > revision);
                for (address, reserved) in &mut model.reserved {
                    reserved.is_there = model.objects.contains(address);
                }
                model.end_those_of_others();
                let after = model.taken();
                let (added, removed) = (after.difference(&before).count(), before.difference(&after).count());
                assert_eq!(result, Ok(IndexChanges { added: added as u64, removed: removed as u64 }));
            }
        }
        let taken = model.taken();
        for address in (0..64).map(address).chain(reservations.iter().map(|reservation| reservation.address)) {
            assert_eq!(index.is_taken(address), taken.contains(&address), "{address} after {step:?}");
        }
        for cidr in all {
            let usage = index.usage(cidr).map(|usage| (usage.used, usage.free));
            let used = taken.iter().filter(|address| cidr.offset_of(**address).is_some()).count() as u64;
            assert_eq!(usage, model.cidrs.contains(&cidr).then_some((used, cidr.size() - used)), "{cidr:?}");
        }
    }
});
