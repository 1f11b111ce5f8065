//! The repair pass on random clusters against a naive one, which knows sets of numbers and nothing of bitmaps.
//!
//! The naive pass is written from what kube-apiserver does, not from the pass under test: which reason a Service's
//! address or port gets, which of them count, what is leaked and when it goes.

#[path = "common/cases.rs"]
mod cases;
mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;

use cases::cases;
use common::{below, seeded};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::any::{AnyRange, AnyValue, ParseRangeError};
use rangekeeper::audit::{AddRangeError, Audit, BitmapReport, Leaks, OffsetState, RepairCounters, Report, Stored};
use rangekeeper::finding::{FoundValue, Reason, Subject};
use rangekeeper::range::{Band, Range};
use rangekeeper::service::{Service, ServicePort};

const CLUSTERS: u32 = 4_000;

// Ranges as plain numbers.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    IPv4,
    IPv6,
    Ports,
}

/// A range: the numbers from `base` to `last` belong to it, `size` of them from `first` on can be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    kind: Kind,
    base: u128,
    last: u128,
    first: u128,
    size: u128,
    /// How many of the lowest ones dynamic allocation spares.
    band: u128,
}

impl Numbers {
    fn cidr(kind: Kind, base: u128, prefix: u32) -> Self {
        let width = if kind == Kind::IPv4 { 32 } else { 128 };
        let host_bits = width - prefix;
        let hosts = if host_bits == 128 { u128::MAX } else { (1 << host_bits) - 1 };
        let base = base & !hosts;
        // Neither the network's own address nor, in IPv4, the broadcast address; of IPv6 the first 65,536 are tracked.
        let allocatable = match kind {
            _ if prefix <= 1 => 0,
            Kind::IPv4 => hosts.saturating_sub(1),
            _ => hosts.min(65_535),
        };
        let total = if prefix <= 1 { 0 } else { hosts.saturating_add(1) };
        let band = if total <= 16 { 0 } else { (total / 16).clamp(16, 256) };
        Self { kind, base, last: base + hosts, first: base.saturating_add(1), size: allocatable, band }
    }

    fn ports(low: u16, high: u16) -> Self {
        let size = u128::from(high - low) + 1;
        let band = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
        Self { kind: Kind::Ports, base: low.into(), last: high.into(), first: low.into(), size, band }
    }

    fn offset(&self, number: u128) -> Option<u32> {
        let offset = number.checked_sub(self.first)?;
        (offset < self.size).then_some(offset as u32)
    }

    fn text(&self) -> String {
        let length = (self.last - self.base).count_ones();
        match self.kind {
            Kind::IPv4 => format!("{}/{}", Ipv4Addr::from_bits(self.base as u32), 32 - length),
            Kind::IPv6 => format!("{}/{}", Ipv6Addr::from_bits(self.base), 128 - length),
            Kind::Ports => format!("{}-{}", self.base, self.last),
        }
    }

    fn address(&self, number: u128) -> IpAddr {
        match self.kind {
            Kind::IPv4 => Ipv4Addr::from_bits(number as u32).into(),
            _ => Ipv6Addr::from_bits(number).into(),
        }
    }
}

fn number_of(address: IpAddr) -> (Kind, u128) {
    match address {
        IpAddr::V4(address) => (Kind::IPv4, address.to_bits().into()),
        IpAddr::V6(address) => (Kind::IPv6, address.to_bits()),
    }
}

/// Bit n of one big-endian integer, for each n of `offsets`.
fn bytes_of(offsets: &BTreeSet<u32>) -> Vec<u8> {
    let mut bytes = vec![0_u8; offsets.last().map_or(0, |highest| *highest as usize / 8 + 1)];
    for offset in offsets {
        let from_the_end = *offset as usize / 8;
        let at = bytes.len() - 1 - from_the_end;
        bytes[at] |= 1 << (offset % 8);
    }
    bytes
}

// Clusters.

/// What stands in a Service where an address belongs, and what it means.
#[derive(Clone, Debug)]
struct Claim {
    text: String,
    address: Option<IpAddr>,
}

#[derive(Clone, Debug)]
struct Workload {
    cluster_ip: Claim,
    cluster_ips: Vec<Claim>,
    ports: Vec<(&'static str, i32)>,
    health: i32,
}

/// One range of a cluster: the configured one, and what is stored for it.
#[derive(Clone, Debug)]
struct Entry {
    range: Numbers,
    /// The stored range, or `None` if its text is empty: not initialised.
    stored_range: Option<Numbers>,
    stored: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
struct Cluster {
    /// In the order in which they join the pass.
    entries: Vec<Entry>,
    services: Vec<Workload>,
}

fn some_range(kind: Kind, rng: &mut Xoshiro256PlusPlus) -> Numbers {
    match kind {
        Kind::Ports if below(5, rng) == 0 => Numbers::ports(30_000, 32_767),
        Kind::Ports => {
            let low = [0, 1, 29_990, 30_000, 65_400, 65_535][below(6, rng) as usize];
            Numbers::ports(low, low.saturating_add(below(150, rng) as u16))
        }
        Kind::IPv4 => {
            let prefix = match below(40, rng) {
                0 => below(2, rng),
                1 => 18 + below(4, rng),
                2..=5 => 29 + below(4, rng),
                _ => 24 + below(5, rng),
            };
            let base = [0, 0x0a60_0000, 0x0a60_0100, 0x0a60_0040, 0xffff_ffff][below(5, rng) as usize];
            Numbers::cidr(kind, base, prefix)
        }
        Kind::IPv6 => {
            let prefix = match below(40, rng) {
                0 => below(2, rng),
                1 => [48, 64, 108, 111, 112, 113][below(6, rng) as usize],
                2..=5 => 125 + below(4, rng),
                _ => 120 + below(6, rng),
            };
            let base = [0xfd00 << 112, (0xfd00 << 112) + 0x100, u128::MAX][below(3, rng) as usize];
            Numbers::cidr(kind, base, prefix)
        }
    }
}

/// What may be stored in `range`: nothing, some or nearly everything.
fn some_stored(range: &Numbers, rng: &mut Xoshiro256PlusPlus) -> BTreeSet<u32> {
    let size = range.size as u32;
    if size == 0 || below(12, rng) == 0 {
        return BTreeSet::new();
    }
    if size < 300 && below(6, rng) == 0 {
        return (0..size).filter(|_| below(10, rng) != 0).collect();
    }
    (0..below(40, rng)).map(|_| some_offset(size, rng)).collect()
}

/// An offset, mostly one of few, so that different draws meet.
fn some_offset(size: u32, rng: &mut Xoshiro256PlusPlus) -> u32 {
    match below(8, rng) {
        0 => size - 1,
        1 => below(size, rng),
        _ => below(size.min(48), rng),
    }
}

fn some_entry(kind: Kind, rng: &mut Xoshiro256PlusPlus) -> Entry {
    let range = some_range(kind, rng);
    let stored_range = match below(10, rng) {
        0 => None,
        1 | 2 => Some(some_range(kind, rng)),
        _ => Some(range),
    };
    let stored = some_stored(&stored_range.unwrap_or(range), rng);
    Entry { range, stored_range, stored }
}

/// A number in or near `range`.
fn some_number(range: &Numbers, rng: &mut Xoshiro256PlusPlus) -> u128 {
    let most = match range.kind {
        Kind::IPv4 => u32::MAX.into(),
        Kind::IPv6 => u128::MAX,
        Kind::Ports => u16::MAX.into(),
    };
    match below(16, rng) {
        0 => range.base,
        1 => range.last,
        2 => range.base.saturating_sub(1),
        3 => range.last.saturating_add(1).min(most),
        // Behind the last one that is tracked.
        4 => range.first.saturating_add(range.size).min(most),
        _ if range.size == 0 => range.base,
        _ => range.first + u128::from(some_offset(range.size as u32, rng)),
    }
}

fn some_claim(entries: &[Entry], rng: &mut Xoshiro256PlusPlus) -> Claim {
    const GARBAGE: [&str; 10] =
        ["", "None", "10.96.0", "10.96.0.256", "10.96.0.1 ", "fd00::1%eth0", "fd00:::1", "x", "10.96.0.1.1", "é"];
    if below(30, rng) == 0 {
        return Claim { text: GARBAGE[below(10, rng) as usize].into(), address: None };
    }
    let ranges: Vec<Numbers> =
        entries.iter().map(|entry| entry.range).filter(|range| range.kind != Kind::Ports).collect();
    let range = match ranges.len() {
        // An address of a family that no range has.
        0 => some_range(Kind::IPv4, rng),
        _ if below(25, rng) == 0 => some_range([Kind::IPv4, Kind::IPv6][below(2, rng) as usize], rng),
        len => ranges[below(len as u32, rng) as usize],
    };
    let address = range.address(some_number(&range, rng));
    // The reference reads addresses sloppily; what it reads counts.
    let text = match (address, below(8, rng)) {
        (IpAddr::V4(v4), 0) => v4.octets().map(|octet| format!("{octet:03}")).join("."),
        (IpAddr::V4(v4), 1) => format!("::ffff:{v4}"),
        (IpAddr::V6(v6), 0) => v6.segments().map(|group| format!("{group:06x}")).join(":"),
        (IpAddr::V6(v6), 1) => v6.to_string().to_uppercase(),
        _ => address.to_string(),
    };
    // Within ::ffff:0:0/96 lie IPv4 addresses, which is not what is meant here.
    let address = Some(address).filter(|address| address.to_canonical() == *address);
    if address.is_none() {
        return Claim { text: "x".into(), address };
    }
    Claim { text, address }
}

fn some_service(entries: &[Entry], rng: &mut Xoshiro256PlusPlus) -> Workload {
    let nothing = |text: &str| Claim { text: text.into(), address: None };
    let cluster_ip = match below(12, rng) {
        0 => nothing("None"),
        1 => nothing(""),
        _ => some_claim(entries, rng),
    };
    let mut cluster_ips = Vec::new();
    match below(4, rng) {
        0 => {}
        1 => cluster_ips.push(cluster_ip.clone()),
        2 => cluster_ips.extend([cluster_ip.clone(), some_claim(entries, rng)]),
        // The list counts, whatever the first field says.
        _ => cluster_ips.extend((0..below(4, rng)).map(|_| some_claim(entries, rng))),
    }
    let range = entries.iter().map(|entry| entry.range).find(|range| range.kind == Kind::Ports);
    let range = range.unwrap_or_else(|| some_range(Kind::Ports, rng));
    let mut ports: Vec<(&str, i32)> = Vec::new();
    for _ in 0..below(5, rng) {
        let port = match (below(20, rng), ports.last()) {
            (0, _) => [-1, i32::MIN, i32::MAX, 65_536][below(4, rng) as usize],
            (1..=3, _) => 0,
            (4..=10, Some((_, port))) => *port,
            _ => some_number(&range, rng) as i32,
        };
        ports.push((["TCP", "UDP", "SCTP"][below(3, rng) as usize], port));
    }
    let health = match (below(5, rng), ports.first()) {
        (0, Some((_, port))) => *port,
        (1, _) => some_number(&range, rng) as i32,
        _ => 0,
    };
    Workload { cluster_ip, cluster_ips, ports, health }
}

fn some_cluster(rng: &mut Xoshiro256PlusPlus) -> Cluster {
    let mut kinds: Vec<Kind> =
        [Kind::IPv4, Kind::IPv6, Kind::Ports].into_iter().filter(|_| below(4, rng) != 0).collect();
    shuffle(&mut kinds, rng);
    let entries: Vec<Entry> = kinds.into_iter().map(|kind| some_entry(kind, rng)).collect();
    let services = (0..below(30, rng)).map(|_| some_service(&entries, rng)).collect();
    Cluster { entries, services }
}

fn shuffle<T>(items: &mut [T], rng: &mut Xoshiro256PlusPlus) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last as u32 + 1, rng) as usize);
    }
}

// The naive pass.

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    reason: Reason,
    range: usize,
    value: FoundValue,
    /// The range that the message names.
    valid: Option<String>,
    service: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Expected {
    stored: BTreeSet<u32>,
    dropped: u32,
    in_use: BTreeSet<u32>,
    duplicates: BTreeSet<u32>,
    leaked: BTreeSet<u32>,
    next: BTreeSet<u32>,
}

/// Leak counters: by the text of the range, and offset.
type Counts = BTreeMap<(String, u32), u8>;

/// The node ports of a Service, as kube-apiserver collects them.
fn collected_ports(service: &Workload) -> Vec<i32> {
    let mut protocols: HashMap<i32, BTreeSet<&str>> = HashMap::new();
    let mut collected = Vec::new();
    for &(protocol, port) in &service.ports {
        let known = protocols.entry(port).or_default();
        let first = known.is_empty();
        let again = !known.insert(protocol);
        if port != 0 && (first || again) {
            collected.push(port);
        }
    }
    let at_health = protocols.get(&service.health);
    if service.health != 0 && at_health.is_none_or(|protocols| protocols.contains("TCP")) {
        collected.push(service.health);
    }
    collected
}

/// `online` holds the number of passes and the counters of the pass before.
fn naive_pass(cluster: &Cluster, online: Option<(u8, &mut Counts)>) -> (Vec<Found>, Vec<Expected>) {
    let mut expected: Vec<Expected> = cluster.entries.iter().map(stored_in_configured_range).collect();
    let mut left: Vec<BTreeSet<u32>> = expected.iter().map(|range| range.stored.clone()).collect();
    let mut found = Vec::new();
    let first_cidr = cluster.entries.iter().position(|entry| entry.range.kind != Kind::Ports);
    let at = |kind: Kind| cluster.entries.iter().position(|entry| entry.range.kind == kind);
    for (index, service) in cluster.services.iter().enumerate() {
        let subject = index as u64;
        let mut claims: Vec<(Option<usize>, Option<u128>, FoundValue)> = Vec::new();
        if first_cidr.is_some() && !["", "None"].contains(&service.cluster_ip.text.as_str()) {
            let own = std::slice::from_ref(&service.cluster_ip);
            for claim in if service.cluster_ips.is_empty() { own } else { &service.cluster_ips } {
                claims.push(match claim.address {
                    None => (None, None, FoundValue::Text(claim.text.clone())),
                    Some(address) => {
                        let (kind, number) = number_of(address);
                        (at(kind), Some(number), FoundValue::Address(address))
                    }
                });
            }
        }
        if at(Kind::Ports).is_some() {
            for port in collected_ports(service) {
                claims.push((at(Kind::Ports), u128::try_from(port).ok(), FoundValue::Port(port)));
            }
        }
        for (place, number, value) in claims {
            let Some(place) = place else {
                let range = first_cidr.expect("there is one, else no address counts");
                found.push(Found { reason: Reason::ClusterIpNotValid, range, value, valid: None, service: subject });
                continue;
            };
            let (range, state) = (&cluster.entries[place].range, &mut expected[place]);
            let is_port = range.kind == Kind::Ports;
            let reason = match number.and_then(|number| range.offset(number)) {
                None if is_port => Reason::PortOutOfRange,
                // Inside, but the range has nothing to give: it is full from the beginning.
                None if range.size == 0 && number.is_some_and(|n| (range.base..=range.last).contains(&n)) => {
                    Reason::ServiceCidrFull
                }
                None => Reason::ClusterIpOutOfRange,
                Some(offset) if !state.in_use.insert(offset) => {
                    state.duplicates.insert(offset);
                    if is_port { Reason::PortAlreadyAllocated } else { Reason::ClusterIpAlreadyAllocated }
                }
                Some(offset) if left[place].remove(&offset) => continue,
                Some(_) if is_port => Reason::PortNotAllocated,
                Some(_) => Reason::ClusterIpNotAllocated,
            };
            found.push(Found { reason, range: place, value, valid: Some(range.text()), service: subject });
        }
    }
    let (passes, mut before) = match online {
        Some((passes, counts)) => (passes, Some(counts)),
        None => (1, None),
    };
    let mut counts = Counts::new();
    for ((entry, state), leaked) in cluster.entries.iter().zip(&mut expected).zip(left) {
        state.next = state.in_use.clone();
        for &offset in &leaked {
            let key = (entry.range.text(), offset);
            let seen = before.as_ref().and_then(|counts| counts.get(&key)).copied().unwrap_or(0) + 1;
            if seen < passes {
                state.next.insert(offset);
                counts.insert(key, seen);
            }
        }
        state.leaked = leaked;
    }
    if let Some(before) = &mut before {
        **before = counts;
    }
    (found, expected)
}

/// What is stored, as offsets of the configured range.
fn stored_in_configured_range(entry: &Entry) -> Expected {
    let stored_range = entry.stored_range.unwrap_or(entry.range);
    let numbers = entry.stored.iter().map(|offset| stored_range.first + u128::from(*offset));
    let stored: BTreeSet<u32> = numbers.filter_map(|number| entry.range.offset(number)).collect();
    Expected { dropped: (entry.stored.len() - stored.len()) as u32, stored, ..Expected::default() }
}

// The real pass, and the comparison.

fn real_pass(cluster: &Cluster, leaks: Leaks<'_>, rng: &mut Xoshiro256PlusPlus) -> Report {
    let mut pass = Audit::new();
    for entry in &cluster.entries {
        let text = entry.stored_range.map(|range| range.text()).unwrap_or_default();
        // Leading zero bytes say nothing.
        let mut data = vec![0; (below(4, rng) * below(9, rng)) as usize];
        data.extend(bytes_of(&entry.stored));
        let stored = Stored { range: &text, data: &data };
        let configured = entry.range.text();
        let added = match entry.range.kind {
            Kind::Ports => pass.add_node_ports(configured.parse().expect("a port range"), stored),
            _ => pass.add_cluster_ips(configured.parse().expect("a CIDR"), stored),
        };
        added.unwrap_or_else(|error| panic!("{configured}: {error}"));
    }
    for service in &cluster.services {
        let cluster_ips: Vec<&str> = service.cluster_ips.iter().map(|claim| claim.text.as_str()).collect();
        let ports: Vec<_> =
            service.ports.iter().map(|&(protocol, node_port)| ServicePort { protocol, node_port }).collect();
        pass.observe(&Service {
            cluster_ip: &service.cluster_ip.text,
            cluster_ips: &cluster_ips,
            ports: &ports,
            health_check_node_port: service.health,
            ..Service::default()
        });
    }
    pass.finish(leaks)
}

fn found(outcome: &Report) -> Vec<Found> {
    let found = outcome.findings.iter().map(|finding| {
        let Subject::Service(service) = finding.subject else { panic!("{finding:?} is about no Service") };
        let (value, valid) = (finding.value.clone(), finding.valid.map(|valid| valid.to_string()));
        let message = finding.to_string();
        assert!(message.contains(value.to_string().escape_debug().to_string().as_str()), "{message}");
        Found { reason: finding.reason, range: finding.range.expect("a range"), value, valid, service }
    });
    found.collect()
}

fn bits(bitmap: &rangekeeper::bitmap::Bitmap) -> BTreeSet<u32> {
    let bits: BTreeSet<u32> = bitmap.iter().collect();
    assert_eq!(bits.len(), bitmap.count() as usize);
    bits
}

fn len(set: &BTreeSet<u32>) -> u64 {
    set.len() as u64
}

/// Compares one pass with the naive one.
fn compare(cluster: &Cluster, outcome: &Report, expected: &(Vec<Found>, Vec<Expected>), rng: &mut Xoshiro256PlusPlus) {
    assert_eq!(found(outcome), expected.0, "{cluster:?}");
    assert_eq!(outcome.services, cluster.services.len() as u64);
    assert_eq!(outcome.ranges.len(), cluster.entries.len());
    for (((index, range), entry), expected) in outcome.bitmaps().zip(&cluster.entries).zip(&expected.1) {
        assert_eq!(range.range().to_string(), entry.range.text());
        let duplicates: BTreeSet<u32> = range.duplicates().iter().copied().collect();
        assert!(range.duplicates().is_sorted_by(|low, high| low < high));
        let seen = Expected {
            stored: bits(range.stored()),
            dropped: range.dropped(),
            in_use: bits(range.in_use()),
            duplicates,
            leaked: bits(&range.leaked()),
            next: bits(range.next()),
        };
        assert_eq!(seen, *expected, "{} of {cluster:?}", entry.range.text());
        let (set, clear) = (bits(&range.set()), bits(&range.clear()));
        assert_eq!(set, &expected.next - &expected.stored);
        assert_eq!(clear, &expected.stored - &expected.next);
        assert_eq!(expected.next, &(&expected.stored | &set) - &clear);
        assert!(set.is_disjoint(&clear));
        assert_eq!(range.next().snapshot(), bytes_of(&expected.next));
        compare_details(range, entry, expected, rng);
        let counts = outcome.ranges[index].counts();
        assert_eq!(
            (counts.stored, counts.in_use, counts.leaked),
            (len(&expected.stored), len(&expected.in_use), len(&expected.leaked))
        );
        assert_eq!((counts.next, counts.set, counts.clear), (len(&expected.next), len(&set), len(&clear)));
        assert_eq!((counts.duplicates, counts.dropped), (len(&expected.duplicates), expected.dropped));
        let leaks = outcome.leaks().filter(|leak| leak.range == Some(index));
        let leaked: Vec<_> = expected.leaked.iter().map(|offset| range.range().value_at(*offset)).collect();
        assert_eq!(leaks.map(|leak| Some(leak.value)).collect::<Vec<_>>(), leaked);
    }
}

/// Single values, and the counts of an occupancy map.
fn compare_details(range: &BitmapReport, entry: &Entry, expected: &Expected, rng: &mut Xoshiro256PlusPlus) {
    for _ in 0..4 {
        let number = some_number(&entry.range, rng);
        let value = match entry.range.kind {
            Kind::Ports => AnyValue::Port(number as u16),
            _ => AnyValue::Address(entry.range.address(number)),
        };
        let state = entry.range.offset(number).map(|offset| OffsetState {
            band: if u128::from(offset) < entry.range.band { Band::Static } else { Band::Dynamic },
            stored: expected.stored.contains(&offset),
            in_use: expected.in_use.contains(&offset),
            duplicate: expected.duplicates.contains(&offset),
            next: expected.next.contains(&offset),
        });
        // An IPv4 address that is written as IPv6 is still IPv4.
        if !matches!(value, AnyValue::Address(address) if address.to_canonical() != address) {
            assert_eq!(range.state_of(value), state, "{value}");
        }
    }
    assert_eq!(range.occupancy(0).count(), 0);
    let count = 1 + below(100, rng);
    let cells: Vec<_> = range.occupancy(count).collect();
    assert!(cells.len() <= count as usize);
    let mut from = 0;
    for cell in &cells {
        assert!(cell.first == from && cell.len > 0);
        let stretch = from as u32..(from + cell.len) as u32;
        let within = |set: &BTreeSet<u32>| set.range(stretch.clone()).count() as u64;
        let lost = within(&(&expected.in_use - &expected.stored));
        let seen = (cell.in_use, cell.leaked, cell.lost, cell.duplicate);
        assert_eq!(seen, (within(&expected.in_use), within(&expected.leaked), lost, within(&expected.duplicates)));
        from += cell.len;
    }
    assert_eq!(u128::from(from), entry.range.size);
}

/// The findings without their Services: what must not depend on the order of the Services.
fn without_services(found: &[Found]) -> Vec<Found> {
    let mut found: Vec<_> = found.iter().map(|found| Found { service: 0, ..found.clone() }).collect();
    found.sort();
    found
}

/// What the next pass reads once the outcome of this one is written.
fn written(cluster: &Cluster, expected: &[Expected]) -> Cluster {
    let mut cluster = cluster.clone();
    for (entry, expected) in cluster.entries.iter_mut().zip(expected) {
        entry.stored_range = Some(entry.range);
        entry.stored = expected.next.clone();
    }
    cluster
}

#[test]
fn one_pass_on_random_clusters_agrees_with_the_naive_one() {
    let mut rng = seeded(8);
    let mut reasons: BTreeMap<Reason, u32> = BTreeMap::new();
    let (mut services, mut leaks, mut dropped, mut left) = (0, 0, 0, 0);
    let clusters = cases(CLUSTERS);
    for _ in 0..clusters {
        let cluster = some_cluster(&mut rng);
        let expected = naive_pass(&cluster, None);
        let outcome = real_pass(&cluster, Leaks::CleanAtOnce, &mut rng);
        compare(&cluster, &outcome, &expected, &mut rng);
        for found in &expected.0 {
            *reasons.entry(found.reason).or_default() += 1;
        }
        services += cluster.services.len();
        leaks += expected.1.iter().map(|range| range.leaked.len()).sum::<usize>();
        dropped += expected.1.iter().map(|range| range.dropped).sum::<u32>();

        // A second pass finds only what an owner must repair, and changes nothing.
        let again = real_pass(&written(&cluster, &expected.1), Leaks::CleanAtOnce, &mut rng);
        let owners: Vec<Found> = expected.0.iter().filter(|found| !found.reason.is_repairable()).cloned().collect();
        assert_eq!(found(&again), owners);
        left += owners.len();
        for ((_, range), (_, before)) in again.bitmaps().zip(outcome.bitmaps()) {
            assert!(range.set().is_empty() && range.clear().is_empty() && range.leaked().is_empty());
            assert_eq!((range.dropped(), range.next()), (0, before.next()));
        }

        // Another order of the Services names other Services in pairs of duplicates, and nothing else.
        let mut shuffled = cluster.clone();
        shuffle(&mut shuffled.services, &mut rng);
        let other = real_pass(&shuffled, Leaks::CleanAtOnce, &mut rng);
        assert_eq!(without_services(&found(&other)), without_services(&expected.0));
        for ((_, range), (_, other)) in outcome.bitmaps().zip(other.bitmaps()) {
            assert_eq!((range.next(), range.set(), range.clear()), (other.next(), other.set(), other.clear()));
            assert_eq!((range.duplicates(), range.leaked()), (other.duplicates(), other.leaked()));
        }
    }
    println!("{clusters} clusters, {services} Services, {leaks} leaks, {dropped} dropped, {left} left to owners");
    println!("{reasons:?}");
    assert!(services >= cases(50_000) && leaks >= cases(20_000), "the mix has shifted");
    assert!(dropped >= cases(1_000) && left >= cases(10_000), "the mix has shifted");
    let often = |reason| reasons.get(&reason).is_some_and(|count| *count >= cases(100));
    let repairs = [Reason::ClusterIpNotAllocated, Reason::PortNotAllocated, Reason::ServiceCidrFull];
    let twice = [Reason::ClusterIpAlreadyAllocated, Reason::PortAlreadyAllocated];
    let outside = [Reason::ClusterIpNotValid, Reason::ClusterIpOutOfRange, Reason::PortOutOfRange];
    assert!(repairs.into_iter().chain(twice).chain(outside).all(often), "the mix of reasons has shifted");
}

#[test]
fn a_series_of_passes_keeps_the_grace_as_the_naive_ones_do() {
    let mut rng = seeded(9);
    let (mut series, mut passes_run, mut kept, mut cleaned, mut moved) = (0, 0, 0, 0, 0);
    for _ in 0..cases::<u32>(CLUSTERS / 4) {
        let passes = 1 + below(5, &mut rng) as u8;
        let mut counters = RepairCounters::new(NonZeroU8::new(passes).expect("at least 1"));
        let mut counts = Counts::new();
        let mut cluster = some_cluster(&mut rng);
        for _ in 0..2 + below(7, &mut rng) {
            let expected = naive_pass(&cluster, Some((passes, &mut counts)));
            let outcome = real_pass(&cluster, Leaks::Keep(&mut counters), &mut rng);
            compare(&cluster, &outcome, &expected, &mut rng);
            for (_, range) in outcome.bitmaps() {
                let text = range.range().to_string();
                for offset in &range.leaked() {
                    let count = counts.get(&(text.clone(), offset)).copied().unwrap_or(0);
                    assert_eq!(counters.of(range.range()).count(offset), count, "{offset} of {text}");
                }
                kept += range.leaked().count() - range.clear().count();
                cleaned += range.clear().count();
            }
            passes_run += 1;
            // A pass that sees what this one leaves has the rest of the leaks to clean, and nothing else to do.
            let again = real_pass(&written(&cluster, &expected.1), Leaks::CleanAtOnce, &mut rng);
            for ((_, range), expected) in again.bitmaps().zip(&expected.1) {
                assert!(range.set().is_empty());
                assert_eq!(bits(&range.clear()), &expected.next - &expected.in_use);
            }
            moved += u32::from(live(&mut cluster, &expected.1, &mut rng));
        }
        series += 1;
    }
    println!("{series} series, {passes_run} passes, {kept} leaks kept, {cleaned} cleaned, {moved} changes of a range");
    assert!(series >= cases(1_000) && passes_run >= cases(4_800), "too few passes");
    assert!(kept >= cases(40_000) && cleaned >= cases(20_000) && moved >= cases(200), "the mix has shifted");
}

/// What may happen between two passes. Says whether a range was changed or left out.
fn live(cluster: &mut Cluster, expected: &[Expected], rng: &mut Xoshiro256PlusPlus) -> bool {
    // Now and then the write of the last pass was lost.
    if below(8, rng) != 0 {
        *cluster = written(cluster, expected);
    }
    // Others allocate and release meanwhile.
    for entry in &mut cluster.entries {
        let size = entry.stored_range.unwrap_or(entry.range).size as u32;
        for _ in 0..if size == 0 { 0 } else { below(6, rng) } {
            let offset = some_offset(size, rng);
            if !entry.stored.remove(&offset) {
                entry.stored.insert(offset);
            }
        }
    }
    let entries = cluster.entries.clone();
    for _ in 0..below(4, rng) {
        if below(2, rng) == 0 && !cluster.services.is_empty() {
            let at = below(cluster.services.len() as u32, rng) as usize;
            cluster.services.remove(at);
        } else {
            cluster.services.push(some_service(&entries, rng));
        }
    }
    // The configuration changes.
    if entries.is_empty() || below(10, rng) != 0 {
        return false;
    }
    let at = below(entries.len() as u32, rng) as usize;
    let range = some_range(entries[at].range.kind, rng);
    let changed = range != entries[at].range;
    let entry = &mut cluster.entries[at];
    entry.stored_range.get_or_insert(entry.range);
    entry.range = range;
    changed
}

#[test]
fn a_range_that_a_pass_leaves_out_starts_to_count_anew() {
    let mut rng = seeded(10);
    let mut cases = 0;
    for _ in 0..500 {
        let mut cluster = some_cluster(&mut rng);
        cluster.services.clear();
        for entry in &mut cluster.entries {
            entry.stored_range = None;
            entry.stored = some_stored(&entry.range, &mut rng);
        }
        let Some(left_out) = cluster.entries.iter().position(|entry| !entry.stored.is_empty()) else { continue };
        let mut counters = RepairCounters::new(NonZeroU8::new(3).expect("not zero"));
        let mut clear = |cluster: &Cluster| -> Vec<u32> {
            let outcome = real_pass(cluster, Leaks::Keep(&mut counters), &mut rng);
            outcome.bitmaps().map(|(_, range)| range.clear().count()).collect()
        };
        let all = cluster.clone();
        assert!(clear(&all).iter().chain(&clear(&all)).all(|count| *count == 0));
        cluster.entries.remove(left_out);
        let cleaned = clear(&cluster);
        assert!(cleaned.iter().zip(&cluster.entries).all(|(count, entry)| *count as usize == entry.stored.len()));
        assert_eq!(clear(&all)[left_out], 0);
        assert_eq!(clear(&all)[left_out], 0);
        assert_eq!(clear(&all)[left_out] as usize, all.entries[left_out].stored.len());
        cases += 1;
    }
    println!("{cases} clusters");
    assert!(cases >= 400);
}

#[test]
fn what_is_stored_must_fit_its_range() {
    let cidr = |text: &str| text.parse().expect("a CIDR");
    let ports = |text: &str| text.parse().expect("a port range");
    let any = |text: &str| -> AnyRange { text.parse().expect("a range") };
    let mut rng = seeded(11);
    let mut cases = 0;
    for kind in [Kind::IPv4, Kind::IPv6, Kind::Ports] {
        for _ in 0..400 {
            // The stored range says what fits, not the configured one.
            let (configured, stored) = (some_range(kind, &mut rng).text(), some_range(kind, &mut rng));
            let offset = stored.size as u32 + below(200, &mut rng);
            let data = bytes_of(&BTreeSet::from([offset]));
            let text = stored.text();
            let mut pass = Audit::new();
            let mut add = |stored: Stored<'_>| match kind {
                Kind::Ports => pass.add_node_ports(ports(&configured), stored),
                _ => pass.add_cluster_ips(cidr(&configured), stored),
            };
            match add(Stored { range: &text, data: &data }) {
                Err(AddRangeError::BitsPastRange { range, source }) => {
                    assert_eq!((range, source.size), (any(&text), stored.size as u32));
                    assert_eq!((source.offset, source.byte), (u64::from(offset), 0));
                }
                other => panic!("{text}, offset {offset}: {other:?}"),
            }
            let other_kind = if kind == Kind::Ports { "10.0.0.0/24" } else { "1-2" };
            assert_eq!(
                add(Stored { range: other_kind, data: &[] }),
                Err(AddRangeError::StoredKind { configured: any(&configured), stored: any(other_kind) })
            );
            let uid_blocks = "1000-1999/10"; // of OpenShift
            for (text, data) in [("10.0.0.0/33", &[][..]), ("1-", &[1]), ("x", &[]), (" ", &[]), (uid_blocks, &[])] {
                match add(Stored { range: text, data }) {
                    Err(AddRangeError::StoredRange(error)) => {
                        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
                        assert!(matches!(error, ParseRangeError::Cidr(_) | ParseRangeError::Ports(_)));
                    }
                    other => panic!("{text}: {other:?}"),
                }
            }
            // Nothing of this has joined the pass; the next one does, and no other of its kind beside it.
            assert_eq!(add(Stored::default()), Ok(()));
            let again = some_range(kind, &mut rng).text();
            let twice = match kind {
                Kind::Ports => pass.add_node_ports(ports(&again), Stored::default()),
                _ => pass.add_cluster_ips(cidr(&again), Stored::default()),
            };
            assert_eq!(twice, Err(AddRangeError::SameKind { added: any(&again), present: any(&configured) }));
            let outcome = pass.finish(Leaks::CleanAtOnce);
            assert_eq!(outcome.ranges.len(), 1);
            assert!(outcome.bitmap(0).expect("a bitmap").next().is_empty() && outcome.findings.is_empty());
            cases += 1;
        }
    }
    println!("{cases} stored objects");
    assert!(cases >= 1_200);
}
