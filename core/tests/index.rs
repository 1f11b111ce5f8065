//! The index of IPAddress objects against a naive model: servers that lag behind, answers that are late or lost, lists,
//! CIDRs that come and go.

mod common;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use common::{below, seeded};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::index::{Full, Index, Pool, Reservation, ReserveError, StaleList};
use rangekeeper::service_cidr::ServiceCidr;

/// Small ones that are soon full, some of which overlap, and ones too wide for a bitmap.
const CIDRS: [&str; 10] = [
    "10.0.2.0/27",
    "10.0.0.0/29",
    "10.0.0.0/28",
    "10.0.0.8/29",
    "10.0.1.0/30",
    "0.0.0.0/0",
    "fd00::/125",
    "fd00::/124",
    "fd00::/64",
    "fd00::/56",
];

/// What the API servers' store went through: the objects as of each revision.
struct Store {
    states: Vec<BTreeSet<IpAddr>>,
}

impl Store {
    fn head(&self) -> usize {
        self.states.len() - 1
    }

    fn change(&mut self, change: impl FnOnce(&mut BTreeSet<IpAddr>)) -> usize {
        let mut next = self.states[self.head()].clone();
        change(&mut next);
        self.states.push(next);
        self.head()
    }
}

/// A request to create the object of an address.
struct Creation {
    reservation: Reservation,
    /// `None` until the store has decided; then the revision of the creation, or 0 for a refusal.
    decided: Option<usize>,
}

/// One API server.
struct Server {
    index: Index,
    cidrs: Vec<ServiceCidr>,
    /// The revision up to which it has observed the store.
    cursor: usize,
    /// Reservations that were neither confirmed nor aborted and have not expired.
    reserved: Vec<(Reservation, Duration)>,
    /// Creations whose answer says so.
    confirmed: Vec<(IpAddr, usize)>,
    /// Requests whose answer has not arrived.
    creations: Vec<Creation>,
}

impl Server {
    fn is_taken(&self, store: &Store, address: IpAddr) -> bool {
        store.states[self.cursor].contains(&address)
            || self.reserved.iter().any(|(reservation, _)| reservation.address == address)
            || self.confirmed.iter().any(|(confirmed, revision)| *confirmed == address && *revision > self.cursor)
    }

    /// All addresses that the model takes for taken.
    fn taken(&self, store: &Store) -> BTreeSet<IpAddr> {
        let mut taken = store.states[self.cursor].clone();
        taken.extend(self.reserved.iter().map(|(reservation, _)| reservation.address));
        taken
            .extend(self.confirmed.iter().filter(|(_, revision)| *revision > self.cursor).map(|(address, _)| *address));
        taken
    }

    fn free(&self, store: &Store, cidr: ServiceCidr) -> u64 {
        cidr.size() - self.taken(store).iter().filter(|address| cidr.offset_of(**address).is_some()).count() as u64
    }

    /// Whether `cidr` could hand `address` out now: of the static band only if no other is free.
    fn may_choose(&self, store: &Store, cidr: ServiceCidr, address: IpAddr) -> bool {
        let band = u64::from(cidr.static_band());
        let Some(offset) = cidr.offset_of(address) else { return false };
        let dynamic = cidr.size() - band;
        let taken = self.taken(store);
        let used = taken.iter().filter_map(|taken| cidr.offset_of(*taken)).filter(|offset| *offset >= band).count();
        !taken.contains(&address) && (offset >= band || used as u64 == dynamic)
    }

    fn check(&self, store: &Store, addresses: &BTreeSet<IpAddr>) {
        for address in addresses {
            assert_eq!(self.index.is_taken(*address), self.is_taken(store, *address), "{address}");
        }
        assert_eq!(self.index.usages().len(), self.cidrs.len());
        for cidr in &self.cidrs {
            let usage = self.index.usage(*cidr).expect("a CIDR of the index");
            assert_eq!(usage.free, self.free(store, *cidr), "{cidr:?}");
            assert_eq!(usage.used + usage.free, cidr.size());
        }
    }
}

#[derive(Default)]
struct Totals {
    steps: u64,
    reserved: u64,
    full: u64,
    refused: u64,
    late: u64,
    lists: u64,
    stale: u64,
}

struct History {
    store: Store,
    servers: Vec<Server>,
    /// All addresses that have played a part.
    addresses: BTreeSet<IpAddr>,
    now: Duration,
}

impl History {
    fn new(rng: &mut Xoshiro256PlusPlus) -> Self {
        let cidrs = CIDRS.map(|cidr| ServiceCidr::parse(cidr).expect("a CIDR"));
        let server = |seed| Server {
            index: Index::new(seed),
            cidrs: Vec::new(),
            cursor: 0,
            reserved: Vec::new(),
            confirmed: Vec::new(),
            creations: Vec::new(),
        };
        let small = cidrs.iter().filter(|cidr| cidr.size() < 32);
        let addresses = small.flat_map(|cidr| (0..cidr.size()).filter_map(|offset| cidr.value_at(offset))).collect();
        // Most of the dynamic band of the one that has a static band, too.
        let dynamic = u64::from(cidrs[0].static_band())..cidrs[0].size();
        let taken = dynamic.filter(|_| below(8, rng) > 0).filter_map(|offset| cidrs[0].value_at(offset)).collect();
        let mut servers: Vec<Server> = (0..1 + below(2, rng)).map(|seed| server(seed.into())).collect();
        for server in &mut servers {
            server.index.insert_cidr(cidrs[0]);
            server.cidrs.push(cidrs[0]);
            server.index.replace(Iterator::copied(BTreeSet::iter(&taken)), 0).expect("nothing was observed before");
        }
        Self { store: Store { states: vec![taken] }, servers, addresses, now: Duration::ZERO }
    }

    fn any_address(&self, rng: &mut Xoshiro256PlusPlus) -> IpAddr {
        let at = below(self.addresses.len() as u32, rng) as usize;
        *self.addresses.iter().nth(at).expect("one of them")
    }

    fn step(&mut self, rng: &mut Xoshiro256PlusPlus, totals: &mut Totals) {
        let address = self.any_address(rng);
        let at = below(self.servers.len() as u32, rng) as usize;
        let until = self.now + Duration::from_secs(below(5, rng).into());
        let Self { store, servers, addresses, now } = self;
        let server = &mut servers[at];
        totals.steps += 1;
        match below(16, rng) {
            0 | 1 => {
                let cidr = ServiceCidr::parse(CIDRS[below(CIDRS.len() as u32, rng) as usize]).expect("a CIDR");
                let known = server.cidrs.iter().position(|other| *other == cidr);
                match known {
                    Some(known) if below(2, rng) == 0 => {
                        assert!(server.index.remove_cidr(cidr));
                        server.cidrs.remove(known);
                    }
                    Some(_) => assert!(!server.index.insert_cidr(cidr)),
                    None => {
                        assert!(!server.index.remove_cidr(cidr));
                        assert!(server.index.insert_cidr(cidr));
                        server.cidrs.push(cidr);
                    }
                }
            }
            2..=4 => {
                // Some of them, and maybe one that the index does not have.
                let mut cidrs = server.cidrs.clone();
                cidrs.retain(|_| below(4, rng) > 0);
                cidrs.push(ServiceCidr::parse(CIDRS[below(CIDRS.len() as u32, rng) as usize]).expect("a CIDR"));
                let pool = [Pool::Among(&cidrs), Pool::InOrder(&cidrs)][below(2, rng) as usize];
                let known = || cidrs.iter().filter(|cidr| server.cidrs.contains(cidr)).copied();
                let candidates: Vec<ServiceCidr> = match pool {
                    Pool::Among(_) => known().collect(),
                    Pool::InOrder(_) => known().find(|cidr| server.free(store, *cidr) > 0).into_iter().collect(),
                };
                match server.index.reserve(pool, until, rng) {
                    Ok(reservation) => {
                        let address = reservation.address;
                        let right = candidates.iter().any(|cidr| server.may_choose(store, *cidr, address));
                        assert!(right, "{address} from {pool:?}");
                        totals.reserved += 1;
                        addresses.insert(address);
                        server.reserved.push((reservation, until));
                        server.creations.push(Creation { reservation, decided: None });
                    }
                    Err(Full) => {
                        assert!(candidates.iter().all(|cidr| server.free(store, *cidr) == 0));
                        totals.full += 1;
                    }
                }
            }
            5 => {
                let is_in = server.cidrs.iter().any(|cidr| cidr.offset_of(address).is_some());
                match server.index.reserve_address(address, until) {
                    Ok(reservation) => {
                        assert!(is_in && !server.is_taken(store, address) && reservation.address == address);
                        server.reserved.push((reservation, until));
                        server.creations.push(Creation { reservation, decided: None });
                    }
                    Err(ReserveError::NotInCidr(named)) => assert!(!is_in && named == address),
                    Err(ReserveError::AlreadyAllocated(named)) => {
                        assert!(is_in && server.is_taken(store, address) && named == address);
                    }
                }
            }
            // The store decides on a request.
            6 | 7 => {
                let open: Vec<&mut Creation> =
                    server.creations.iter_mut().filter(|creation| creation.decided.is_none()).collect();
                if open.is_empty() {
                    return;
                }
                let creation = open.into_iter().nth(0).expect("one is open");
                let address = creation.reservation.address;
                let exists = store.states[store.head()].contains(&address);
                creation.decided = Some(match exists || below(8, rng) == 0 {
                    true => 0,
                    false => store.change(|objects| {
                        objects.insert(address);
                    }),
                });
            }
            // The answer arrives.
            8 | 9 => {
                let Some(at) = server.creations.iter().position(|creation| creation.decided.is_some()) else { return };
                let creation = server.creations.remove(at);
                let mine = |(reservation, _): &(Reservation, Duration)| *reservation == creation.reservation;
                let expired = !server.reserved.iter().any(mine);
                totals.late += u64::from(expired);
                match creation.decided {
                    Some(0) => {
                        totals.refused += 1;
                        server.index.abort(creation.reservation);
                        server.reserved.retain(|reserved| !mine(reserved));
                    }
                    Some(revision) => {
                        server.index.confirm(creation.reservation, revision as u64);
                        if revision > server.cursor {
                            // Whoever has reserved the address since then will be refused.
                            let address = creation.reservation.address;
                            server.reserved.retain(|(reservation, _)| reservation.address != address);
                        }
                        server.reserved.retain(|reserved| !mine(reserved));
                        server.confirmed.push((creation.reservation.address, revision));
                    }
                    None => unreachable!("it was decided"),
                }
            }
            // The answer is lost.
            10 => {
                server.creations.pop();
            }
            11 => {
                *now += Duration::from_secs(below(3, rng).into());
                let before = server.reserved.len();
                server.reserved.retain(|(_, until)| *until > *now);
                assert_eq!(server.index.expire(*now), before - server.reserved.len());
            }
            // Others create and delete.
            12 => {
                store.change(|objects| {
                    if !objects.remove(&address) {
                        objects.insert(address);
                    }
                });
            }
            13 | 14 => {
                for _ in 0..below(4, rng) {
                    if server.cursor == store.head() {
                        break;
                    }
                    let (before, after) = (&store.states[server.cursor], &store.states[server.cursor + 1]);
                    server.cursor += 1;
                    let revision = server.cursor as u64;
                    after.difference(before).for_each(|added| server.index.added(*added, revision));
                    before.difference(after).for_each(|removed| server.index.removed(*removed, revision));
                }
            }
            _ => {
                let revision = below(store.states.len() as u32, rng) as usize;
                let before = server.taken(store);
                let result = server.index.replace(store.states[revision].iter().copied(), revision as u64);
                if revision < server.cursor {
                    assert_eq!(result, Err(StaleList { list: revision as u64, observed: server.cursor as u64 }));
                    totals.stale += 1;
                    return;
                }
                totals.lists += 1;
                server.cursor = revision;
                let after = server.taken(store);
                let changes = result.expect("it is not older");
                assert_eq!(changes.added, after.difference(&before).count() as u64);
                assert_eq!(changes.removed, before.difference(&after).count() as u64);
            }
        }
    }
}

#[test]
fn histories_are_those_of_a_naive_model() {
    let histories =
        std::env::var("HISTORIES").map_or(50_000, |number| number.parse::<u64>().expect("HISTORIES is a number"));
    let mut totals = Totals::default();
    let mut seeds = seeded(20_261_123);
    for _ in 0..histories {
        let mut rng = Xoshiro256PlusPlus::from_rng(&mut seeds);
        let mut history = History::new(&mut rng);
        for _ in 0..10 + below(60, &mut rng) {
            history.step(&mut rng, &mut totals);
            for server in &history.servers {
                server.check(&history.store, &history.addresses);
            }
        }
    }
    let Totals { steps, reserved, full, refused, late, lists, stale } = totals;
    println!(
        "{histories} histories, {steps} steps, {reserved} reservations, {full} times full, {refused} refused, \
         {late} answers after the reservation expired, {lists} lists, {stale} stale ones"
    );
    for (count, floor) in [(steps, 300), (reserved, 30), (full, 5), (refused, 1), (late, 2), (lists, 10), (stale, 3)] {
        assert!(count > histories * floor / 10, "played too little");
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

const LATER: Duration = Duration::from_secs(60);

#[test]
fn a_reservation_ends_once() {
    let mut index = Index::new(1);
    index.insert_cidr(ServiceCidr::parse("10.0.0.0/24").expect("a CIDR"));
    let first = index.reserve_address(address("10.0.0.9"), LATER).expect("it is free");
    index.confirm(first, 5);
    index.abort(first);
    assert!(index.is_taken(first.address), "the object exists");

    // Its answer is lost, it expires, and a list comes. Somebody else reserves the address.
    let lost = index.reserve_address(address("10.0.0.8"), LATER).expect("it is free");
    assert_eq!(index.expire(LATER), 1);
    index.replace([first.address], 6).expect("it is not stale");
    let second = index.reserve_address(lost.address, 2 * LATER).expect("it is free");
    index.abort(lost);
    assert!(index.is_taken(second.address));
    index.abort(second);
    assert!(!index.is_taken(second.address));
}

#[test]
fn a_cidr_is_chosen_by_its_share_in_the_free_addresses() {
    let [large, small] = ["10.0.0.0/22", "10.1.0.0/24"].map(|cidr| ServiceCidr::parse(cidr).expect("a CIDR"));
    let mut index = Index::new(1);
    index.insert_cidr(small);
    index.insert_cidr(large);
    let mut rng = seeded(8);
    for _ in 0..640 {
        index.reserve(Pool::Among(&[large, small]), LATER, &mut rng).expect("half of them are free");
    }
    let used = |cidr| index.usage(cidr).map(|usage| usage.used).expect("a CIDR of the index");
    // 1,022 and 254 addresses: 512.6 and 127.4 are expected, with a deviation of 7.
    assert!((484..=541).contains(&used(large)), "{}", used(large));
    assert_eq!(used(large) + used(small), 640);
}
