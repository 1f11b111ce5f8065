//! The index of IPAddress objects against a naive model: servers that lag behind, answers that are late or lost, lists,
//! CIDRs that come and go.

#[path = "common/cases.rs"]
mod cases;
mod common;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use cases::cases;
use common::{below, seeded};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::index::{Full, Index, Reservation, ReserveError, StaleList};
use rangekeeper::service_cidr::ServiceCidr;

/// Small ones that are soon full, some of which overlap, and ones too wide for a bitmap.
const CIDRS: [&str; 15] = [
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
    "10.0.3.0/31",
    "10.0.3.1/32",
    "fd00::/127",
    "fd00::1/128",
    "ffff:ffff:ffff:ffff::/64",
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
    address: IpAddr,
    /// `None` for a request without one.
    reservation: Option<Reservation>,
    /// `None` until the store has decided.
    decided: Option<Decision>,
}

#[derive(Clone, Copy)]
enum Decision {
    CreatedAt(usize),
    AlreadyExists,
    Refused,
}

/// A reservation that was neither confirmed nor aborted and has not expired.
struct Reserved {
    reservation: Reservation,
    until: Duration,
    /// Whether the object exists, by the last event since the reservation.
    seen: Option<bool>,
    /// The API server has said that it exists.
    already_exists: bool,
}

/// One API server.
struct Server {
    index: Index,
    cidrs: Vec<ServiceCidr>,
    /// The revision up to which it has observed the store.
    cursor: usize,
    reserved: Vec<Reserved>,
    /// Creations whose answer says so.
    confirmed: Vec<(IpAddr, usize)>,
    /// Requests whose answer has not arrived.
    creations: Vec<Creation>,
}

impl Server {
    fn is_taken(&self, store: &Store, address: IpAddr) -> bool {
        store.states[self.cursor].contains(&address)
            || self.reserved.iter().any(|reserved| reserved.reservation.address == address)
            || self.confirmed.iter().any(|(confirmed, revision)| *confirmed == address && *revision > self.cursor)
    }

    /// All addresses that the model takes for taken.
    fn taken(&self, store: &Store) -> BTreeSet<IpAddr> {
        let mut taken = store.states[self.cursor].clone();
        taken.extend(self.reserved.iter().map(|reserved| reserved.reservation.address));
        taken
            .extend(self.confirmed.iter().filter(|(_, revision)| *revision > self.cursor).map(|(address, _)| *address));
        taken
    }

    /// Any creation on which the store has decided, or has not.
    fn any_creation(&self, decided: bool, rng: &mut Xoshiro256PlusPlus) -> Option<usize> {
        let mut all: Vec<usize> = (0..self.creations.len()).collect();
        all.retain(|at| self.creations[*at].decided.is_some() == decided);
        (!all.is_empty()).then(|| all[below(all.len() as u32, rng) as usize])
    }

    fn free(&self, store: &Store, cidr: ServiceCidr) -> u64 {
        cidr.size() - self.taken(store).iter().filter(|address| cidr.offset_of(**address).is_some()).count() as u64
    }

    /// Whether an address could be chosen from these CIDRs now: of a static band only if all dynamic bands are full.
    fn may_choose(&self, store: &Store, cidrs: &[ServiceCidr], address: IpAddr) -> bool {
        let taken = self.taken(store);
        let is_dynamic = |cidr: &ServiceCidr, offset: &u64| *offset >= cidr.static_band().into();
        let is_full = |cidr: &ServiceCidr| {
            let used =
                taken.iter().filter_map(|taken| cidr.offset_of(*taken)).filter(|offset| is_dynamic(cidr, offset));
            used.count() as u64 == cidr.size() - u64::from(cidr.static_band())
        };
        let is_any_dynamic =
            |cidr: &ServiceCidr| cidr.offset_of(address).is_some_and(|offset| is_dynamic(cidr, &offset));
        let is_in = |cidr: &ServiceCidr| cidr.offset_of(address).is_some();
        let all_full = cidrs.iter().all(is_full);
        !taken.contains(&address)
            && cidrs.iter().any(if all_full { &is_in as &dyn Fn(&_) -> _ } else { &is_any_dynamic })
    }

    /// The server observes whether an address has an object.
    fn see(&mut self, address: IpAddr, exists: bool) {
        for reserved in self.reserved.iter_mut().filter(|reserved| reserved.reservation.address == address) {
            reserved.seen = Some(exists);
        }
        self.end_those_of_others();
    }

    fn end_those_of_others(&mut self) {
        self.reserved.retain(|reserved| !(reserved.already_exists && reserved.seen == Some(true)));
    }

    fn check(&self, store: &Store, addresses: &BTreeSet<IpAddr>) {
        for address in addresses {
            assert_eq!(self.index.is_taken(*address), self.is_taken(store, *address), "{address}");
        }

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
    others: u64,
    late: u64,
    unreserved: u64,
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
        let cidrs = CIDRS.map(|cidr| cidr.parse::<ServiceCidr>().expect("a CIDR"));
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
                let cidr = CIDRS[below(CIDRS.len() as u32, rng) as usize].parse::<ServiceCidr>().expect("a CIDR");
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
                cidrs.push(CIDRS[below(CIDRS.len() as u32, rng) as usize].parse::<ServiceCidr>().expect("a CIDR"));
                let candidates: Vec<ServiceCidr> =
                    cidrs.iter().filter(|cidr| server.cidrs.contains(cidr)).copied().collect();
                match server.index.reserve(&cidrs, until, rng) {
                    Ok(reservation) => {
                        let address = reservation.address;
                        assert!(server.may_choose(store, &candidates, address), "{address} from {cidrs:?}");
                        totals.reserved += 1;
                        addresses.insert(address);
                        server.reserved.push(Reserved { reservation, until, seen: None, already_exists: false });
                        server.creations.push(Creation {
                            address: reservation.address,
                            reservation: Some(reservation),
                            decided: None,
                        });
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
                        server.reserved.push(Reserved { reservation, until, seen: None, already_exists: false });
                        server.creations.push(Creation {
                            address: reservation.address,
                            reservation: Some(reservation),
                            decided: None,
                        });
                    }
                    Err(ReserveError::NotInCidr(named)) => assert!(!is_in && named == address),
                    Err(ReserveError::AlreadyAllocated(named)) => {
                        assert!(is_in && server.is_taken(store, address) && named == address);
                        // The API server may know better.
                        totals.unreserved += 1;
                        server.creations.push(Creation { address, reservation: None, decided: None });
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            // The store decides on a request.
            6 | 7 => {
                let Some(creation) = server.any_creation(false, rng).map(|at| &mut server.creations[at]) else {
                    return;
                };
                let address = creation.address;
                let exists = store.states[store.head()].contains(&address);
                creation.decided = Some(match exists {
                    true => Decision::AlreadyExists,
                    false if below(8, rng) == 0 => Decision::Refused,
                    false => Decision::CreatedAt(store.change(|objects| {
                        objects.insert(address);
                    })),
                });
            }
            // The answer arrives.
            8 | 9 => {
                let Some(at) = server.any_creation(true, rng) else { return };
                let creation = server.creations.remove(at);
                let mine = |reserved: &Reserved| Some(reserved.reservation) == creation.reservation;
                let expired = creation.reservation.is_some() && !server.reserved.iter().any(mine);
                totals.late += u64::from(expired);
                match creation.decided {
                    Some(Decision::AlreadyExists) => {
                        totals.others += 1;
                        if let Some(reservation) = creation.reservation {
                            server.index.already_exists(reservation);
                        }
                        for reserved in server.reserved.iter_mut().filter(|reserved| mine(reserved)) {
                            reserved.already_exists = true;
                        }
                        server.end_those_of_others();
                    }
                    Some(Decision::Refused) => {
                        totals.refused += 1;
                        if let Some(reservation) = creation.reservation {
                            server.index.abort(reservation);
                        }
                        server.reserved.retain(|reserved| !mine(reserved));
                    }
                    Some(Decision::CreatedAt(revision)) => {
                        match creation.reservation {
                            Some(reservation) => server.index.confirm(reservation, revision as u64),
                            None => server.index.created(creation.address, revision as u64),
                        }
                        server.reserved.retain(|reserved| !mine(reserved));
                        server.confirmed.push((creation.address, revision));
                    }
                    None => unreachable!("it was decided"),
                }
            }
            // The answer is lost.
            10 => {
                if !server.creations.is_empty() {
                    server.creations.swap_remove(below(server.creations.len() as u32, rng) as usize);
                }
            }
            11 => {
                *now += Duration::from_secs(below(3, rng).into());
                let before = server.reserved.len();
                server.reserved.retain(|reserved| reserved.until > *now);
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
                    for added in after.difference(before) {
                        server.index.added(*added, revision);
                        server.see(*added, true);
                    }
                    for removed in before.difference(after) {
                        server.index.removed(*removed, revision);
                        server.see(*removed, false);
                    }
                }
            }
            _ => {
                let revision = below(store.states.len() as u32, rng) as usize;
                let before = server.taken(store);
                let listed = &store.states[revision];
                // Two of them are listed twice.
                let result = server.index.replace(listed.iter().chain(listed.iter().take(2)).copied(), revision as u64);
                if revision < server.cursor {
                    assert_eq!(result, Err(StaleList { list: revision as u64, observed: server.cursor as u64 }));
                    totals.stale += 1;
                    return;
                }
                totals.lists += 1;
                server.cursor = revision;
                for reserved in &mut server.reserved {
                    reserved.seen = Some(store.states[revision].contains(&reserved.reservation.address));
                }
                server.end_those_of_others();
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
    let histories: u64 = cases(10_000);
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
    let Totals { steps, reserved, full, refused, others, late, unreserved, lists, stale } = totals;
    println!(
        "{histories} histories, {steps} steps, {reserved} reservations, {full} times full, {refused} refused, {others} allocated elsewhere, \
         {late} answers after the reservation expired, {unreserved} creations without one, {lists} lists, \
         {stale} stale ones"
    );
    let floors = [
        (steps, 300),
        (reserved, 30),
        (full, 5),
        (refused, 1),
        (others, 1),
        (late, 2),
        (unreserved, 1),
        (lists, 10),
        (stale, 3),
    ];
    for (count, floor) in floors {
        assert!(count > histories * floor / 10, "played too little");
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

const LATER: Duration = Duration::from_secs(60);

#[test]
fn an_address_allocated_elsewhere_is_free_after_its_removal() {
    let mut index = Index::new(1);
    index.insert_cidr("10.0.0.0/24".parse::<ServiceCidr>().expect("a CIDR"));
    let ours = index.reserve_address(address("10.0.0.9"), LATER).expect("it is free");
    index.already_exists(ours);
    index.removed(ours.address, 3);
    assert!(index.is_taken(ours.address), "the removal may be that of an earlier object");
    index.added(ours.address, 5);
    index.removed(ours.address, 6);
    assert!(!index.is_taken(ours.address));
    assert_eq!(index.expire(LATER), 0);
}

/// An index of some CIDRs.
fn with(cidrs: &[&str]) -> (Index, Vec<ServiceCidr>) {
    let cidrs: Vec<ServiceCidr> = cidrs.iter().map(|cidr| cidr.parse::<ServiceCidr>().expect("a CIDR")).collect();
    let mut index = Index::new(1);
    cidrs.iter().for_each(|cidr| assert!(index.insert_cidr(*cidr)));
    (index, cidrs)
}

#[test]
fn a_reservation_ends_once() {
    let (mut index, _) = with(&["10.0.0.0/24"]);
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
    let (mut index, cidrs) = with(&["10.1.0.0/24", "10.0.0.0/22"]);
    let (small, large) = (cidrs[0], cidrs[1]);
    let mut rng = seeded(8);
    for _ in 0..640 {
        index.reserve(&[large, small], LATER, &mut rng).expect("half of them are free");
    }
    let used = |cidr| index.usage(cidr).map(|usage| usage.used).expect("a CIDR of the index");
    // 958 and 238 addresses in their dynamic bands: 512.6 and 127.4 are expected, with a deviation of 7.
    assert!((484..=541).contains(&used(large)), "{}", used(large));
    assert_eq!(used(large) + used(small), 640);
}

#[test]
fn static_bands_come_last_whichever_cidr_has_them() {
    // Without dynamic addresses, the first one would be chosen for 16 of 30 addresses.
    let (mut index, cidrs) = with(&["10.0.0.0/27", "10.1.0.0/27"]);
    let mut rng = seeded(9);
    for offset in u64::from(cidrs[0].static_band())..cidrs[0].size() {
        index.added(cidrs[0].value_at(offset).expect("an address"), 1);
    }
    for _ in u64::from(cidrs[1].static_band())..cidrs[1].size() {
        let chosen = index.reserve(&cidrs, LATER, &mut rng).expect("a free address").address;
        assert!(cidrs[1].offset_of(chosen) >= Some(cidrs[1].static_band().into()), "{chosen}");
    }
    for _ in 0..32 {
        index.reserve(&cidrs, LATER, &mut rng).expect("a free address");
    }
    assert_eq!(index.reserve(&cidrs, LATER, &mut rng), Err(Full));
}

#[test]
fn reservations_in_a_wide_cidr_stay_in_a_region() {
    const REGION: u64 = 4096;
    let (mut index, cidrs) = with(&["fd00::/64"]);
    let cidr = cidrs[0];
    let mut rng = seeded(11);
    let mut choose = |index: &mut Index| {
        let reservation = index.reserve(&cidrs, LATER, &mut rng).expect("a free address");
        cidr.offset_of(reservation.address).expect("an address of the CIDR")
    };
    let mut last = 0;
    for _ in 0..100 {
        let first = choose(&mut index);
        assert!(first.abs_diff(last) > REGION, "the same region again: {first} after {last}");
        let region: Vec<u64> = (1..REGION / 4).map(|_| choose(&mut index)).chain([first]).collect();
        let (low, high) = (*region.iter().min().expect("one"), *region.iter().max().expect("one"));
        assert!(high - low < REGION && high - low > REGION * 9 / 10, "from {low} to {high}");
        last = first;
    }
    // Other clients take all of a region.
    let first = choose(&mut index);
    for offset in first.saturating_sub(REGION)..first + REGION {
        index.added(cidr.value_at(offset).expect("an address"), 1);
    }
    for _ in 1..REGION / 4 {
        assert!(choose(&mut index).abs_diff(first) > REGION);
    }
}

/// Such addresses are IPv4 addresses, which no IPv6 CIDR has.
#[test]
fn ipv4_mapped_addresses_are_in_no_ipv6_cidr() {
    let (mut index, cidrs) = with(&["::/0", "::fffe:0:0/95"]);
    let free = |index: &Index| cidrs.iter().map(|cidr| index.usage(*cidr).expect("a CIDR").free).collect::<Vec<_>>();
    assert_eq!(free(&index), cidrs.iter().map(|cidr| cidr.size() - (1 << 32)).collect::<Vec<_>>());
    let mapped = address("10.0.0.18");
    assert_eq!(index.reserve_address(mapped, LATER), Err(ReserveError::NotInCidr(mapped)));
    let before = free(&index);
    index.added(mapped, 1);
    assert!(index.is_taken(mapped));
    assert_eq!(free(&index), before);
    let mut rng = seeded(12);
    for _ in 0..10_000 {
        let chosen = index.reserve(&cidrs[1..], LATER, &mut rng).expect("a free address").address;
        assert!(chosen.is_ipv6() && chosen < address("::ffff:0:0"), "{chosen}");
    }
}

#[test]
fn an_older_answer_does_not_end_the_wait_for_a_newer_creation() {
    let (mut index, _) = with(&["10.0.0.0/24"]);
    let one = address("10.0.0.9");
    let late = index.reserve_address(one, Duration::ZERO).expect("it is free");
    index.expire(Duration::ZERO);
    let second = index.reserve_address(one, LATER).expect("it is free");
    // The first was created at 10 and removed at 11, the second created at 12.
    index.confirm(second, 12);
    index.confirm(late, 10);
    index.added(one, 10);
    index.removed(one, 11);
    assert!(index.is_taken(one), "created at 12");
    index.added(one, 12);
    index.removed(one, 13);
    assert!(!index.is_taken(one));
}

#[test]
fn a_late_answer_does_not_end_the_reservation_of_another() {
    let (mut index, _) = with(&["10.0.0.0/24"]);
    let one = address("10.0.0.9");
    let late = index.reserve_address(one, Duration::ZERO).expect("it is free");
    index.expire(Duration::ZERO);
    let second = index.reserve_address(one, LATER).expect("it is free");
    index.confirm(late, 10);
    index.added(one, 10);
    index.removed(one, 11);
    assert!(index.is_taken(one), "its creation may be on its way");
    index.abort(second);
    assert!(!index.is_taken(one));
}

/// After a watch gap, an informer reports the differences in any order, with the revisions of the objects.
#[test]
fn events_of_other_addresses_do_not_hide_a_creation() {
    let (mut index, _) = with(&["10.0.0.0/24"]);
    let one = index.reserve_address(address("10.0.0.9"), LATER).expect("it is free");
    index.added(address("10.0.0.10"), 200);
    index.confirm(one, 150);
    assert!(index.is_taken(one.address), "its creation was not observed");
    index.added(one.address, 150);
    assert!(index.is_taken(one.address));
    // Removed in another gap: the informer only knows the revision of the creation.
    index.removed(one.address, 150);
    assert!(!index.is_taken(one.address));
}

#[test]
fn an_object_that_came_and_went_in_a_watch_gap_is_given_up_in_time() {
    let (mut index, _) = with(&["10.0.0.0/24"]);
    let one = index.reserve_address(address("10.0.0.9"), LATER).expect("it is free");
    index.confirm(one, 150);
    index.expire(LATER);
    assert!(index.is_taken(one.address), "nothing later was observed");
    index.added(address("10.0.0.10"), 200);
    index.expire(LATER - Duration::from_nanos(1));
    assert!(index.is_taken(one.address), "not all may have been observed");
    assert_eq!(index.expire(LATER), 0, "it was confirmed");
    assert!(!index.is_taken(one.address));
}

#[test]
fn all_addresses_of_odd_cidrs_are_offered_once() {
    let cases = [
        ("10.0.0.0/32", 0),
        ("10.0.0.0/31", 0),
        ("10.0.0.0/30", 2),
        ("255.255.255.0/24", 254),
        ("fd00::/128", 0),
        ("fd00::/127", 1),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120", 255),
        // An IPv4-mapped CIDR is an IPv4 CIDR.
        ("::ffff:10.0.0.0/120", 254),
    ];
    for (text, size) in cases {
        let (mut index, cidrs) = with(&[text]);
        let mut rng = seeded(10);
        let mut chosen = BTreeSet::new();
        while let Ok(reservation) = index.reserve(&cidrs, LATER, &mut rng) {
            assert!(chosen.insert(reservation.address), "{text}: {} again", reservation.address);
            assert!(index.is_taken(reservation.address));
        }
        assert_eq!(chosen.len(), size, "{text}");
        assert_eq!(index.usage(cidrs[0]).map(|usage| (usage.used, usage.free)), Some((size as u64, 0)), "{text}");
    }
}

#[test]
fn an_object_that_was_observed_stays_taken_when_a_creation_is_given_up() {
    let (mut index, _) = with(&["10.0.0.0/24"]);
    let one = address("10.0.0.9");
    index.added(one, 5);
    // The API server has removed the object and created another one, and an informer reports other addresses first.
    index.created(one, 150);
    index.added(address("10.0.0.10"), 200);
    index.expire(LATER);
    assert!(index.is_taken(one));
    index.removed(one, 150);
    assert!(!index.is_taken(one));
}

#[test]
fn an_answer_that_is_older_than_the_reservation_of_another_changes_nothing() {
    let (mut index, _) = with(&["10.0.0.0/24"]);
    let one = address("10.0.0.9");
    let late = index.reserve_address(one, Duration::ZERO).expect("it is free");
    index.expire(Duration::ZERO);
    index.added(one, 10);
    index.removed(one, 11);
    let second = index.reserve_address(one, LATER).expect("it is free");
    index.confirm(late, 10);
    index.abort(second);
    assert!(!index.is_taken(one), "the object of the first was removed");
}
