//! A sequence of repair passes against sets of values. In every outcome the new bitmap is the stored one with the diff
//! applied, and a second repair finds nothing new.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU8;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::audit::{AddRangeError, Audit, Leaks, RepairCounters, RepairOutcome, Report, Stored};
use rangekeeper::finding::{FoundValue, Reason, Subject};
use rangekeeper::range::Range;
use rangekeeper_fuzz::service::OwnedService;
use rangekeeper_fuzz::{address, bits};

/// Configured ranges: place 0 stands for none, the last one of the CIDRs has no allocatable address.
const IPV4: [&str; 4] = ["", "10.0.0.0/27", "10.0.0.16/28", "10.0.0.8/31"];
const IPV6: [&str; 4] = ["", "fd00::/123", "fd00::10/124", "fd00::8/128"];
const PORTS: [&str; 3] = ["", "30000-30031", "30010-30010"];
/// Ranges that may be stored, of the same kind or not.
const STORED: [&str; 8] =
    ["", "10.0.0.0/26", "10.0.0.0/28", "fd00::/122", "fd00::/124", "30000-30015", "29990-30031", "no range"];

#[derive(Arbitrary, Debug)]
struct Input {
    passes: u8,
    ipv6_first: bool,
    rounds: Vec<Round>,
}

#[derive(Arbitrary, Debug)]
struct Round {
    ipv4: u8,
    ipv6: u8,
    ports: u8,
    /// The stored object of each range: another range or the configured one, and the bits. `None`: the result of the
    /// pass before.
    stored: [Option<(u8, [u8; 5])>; 3],
    services: Vec<OwnedService>,
    clean_at_once: bool,
}

/// One range of a pass, by values instead of offsets.
struct Part {
    range: AnyRange,
    values: Vec<AnyValue>,
    stored: BTreeSet<AnyValue>,
    dropped: u32,
    in_use: BTreeSet<AnyValue>,
    duplicates: BTreeSet<AnyValue>,
}

type Found = (Reason, usize, u64, FoundValue, Option<String>);

fuzz_target!(|input: Input| {
    let passes = NonZeroU8::MIN.saturating_add(input.passes % 5);
    let mut counters = RepairCounters::new(passes);
    // Range, value and number of passes in a row.
    let mut counts: BTreeMap<String, BTreeMap<AnyValue, u8>> = BTreeMap::new();
    let mut left: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for round in input.rounds.iter().take(8) {
        let mut pass = Audit::new();
        let mut parts = Vec::new();
        let [ipv4, ipv6] = [(IPV4, round.ipv4), (IPV6, round.ipv6)].map(|(all, at)| all[usize::from(at) % all.len()]);
        let ports = PORTS[usize::from(round.ports) % PORTS.len()];
        let order = if input.ipv6_first { [ports, ipv6, ipv4] } else { [ipv4, ipv6, ports] };
        for (configured, stored) in
            order.into_iter().zip(&round.stored).filter(|(configured, _)| !configured.is_empty())
        {
            let left = left.get(configured).cloned().unwrap_or_default();
            let (range, data) = match stored {
                Some((range, data)) => (STORED[usize::from(*range) % STORED.len()], data.to_vec()),
                None => (configured, left),
            };
            parts.extend(add(&mut pass, configured, range, &data));
        }
        let expected = observe(&mut pass, &mut parts, &round.services);

        let leaks = if round.clean_at_once { Leaks::CleanAtOnce } else { Leaks::Keep(&mut counters) };
        let outcome = pass.finish(leaks);
        assert_eq!(outcome.services, round.services.len() as u64);
        assert_eq!(found(&outcome), expected);
        assert_eq!(outcome.ranges.len(), parts.len());
        if !round.clean_at_once {
            counts.retain(|range, _| parts.iter().any(|part| part.range.to_string() == *range));
        }
        for (index, part) in parts.iter().enumerate() {
            let leaked: BTreeSet<AnyValue> = part.stored.difference(&part.in_use).copied().collect();
            let mut next = part.in_use.clone();
            if !round.clean_at_once {
                let counts = counts.entry(part.range.to_string()).or_default();
                counts.retain(|value, _| leaked.contains(value));
                for value in &leaked {
                    let count = counts.entry(*value).or_insert(0);
                    *count += 1;
                    if *count < passes.get() {
                        next.insert(*value);
                    } else {
                        counts.remove(value);
                    }
                }
            }
            compare(&outcome, index, part, &leaked, &next);
            left.insert(part.range.to_string(), outcome.bitmap(index).expect("a bitmap").next().snapshot().to_vec());
        }
        for text in [&IPV4[1..], &IPV6[1..], &PORTS[1..]].concat() {
            let range: AnyRange = text.parse().expect("a configured range");
            let model = counts.get(text);
            for offset in 0..range.size() {
                let value = range.value_at(offset).expect("in range");
                let expected = model.and_then(|counts| counts.get(&value)).copied().unwrap_or(0);
                assert_eq!(counters.of(range).count(offset), expected, "{value} of {range}");
            }
        }
        recorded(&outcome);
        again(&outcome, &round.services);
    }
});

/// Adds a range. Returns the expected range of the pass; `None` if the pass must refuse it.
fn add(pass: &mut Audit, configured: &str, stored_text: &str, data: &[u8]) -> Option<Part> {
    let range: AnyRange = configured.parse().expect("a configured range");
    let stored = Stored { range: stored_text, data };
    let result = pass.add_bitmap(range, stored);
    let stored_range = if stored_text.is_empty() { Ok(range) } else { stored_text.parse::<AnyRange>() };
    let Ok(stored_range) = stored_range else {
        assert!(matches!(result, Err(AddRangeError::StoredRange(_))), "{result:?}");
        return None;
    };
    if std::mem::discriminant(&range) != std::mem::discriminant(&stored_range) {
        assert!(matches!(result, Err(AddRangeError::StoredKind { .. })), "{result:?}");
        return None;
    }
    let offsets = bits::offsets(data);
    if offsets.last().is_some_and(|highest| *highest >= u64::from(stored_range.size())) {
        assert!(matches!(result, Err(AddRangeError::BitsPastRange { .. })), "{result:?}");
        return None;
    }
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(pass.add_bitmap(range, stored), Err(AddRangeError::SameKind { .. })), "a range may be added once");
    let values: Vec<AnyValue> = (0..range.size()).filter_map(|offset| range.value_at(offset)).collect();
    let all: Vec<AnyValue> = offsets.iter().filter_map(|offset| stored_range.value_at(*offset as u32)).collect();
    let stored: BTreeSet<AnyValue> = all.iter().filter(|value| values.contains(value)).copied().collect();
    let dropped = (all.len() - stored.len()) as u32;
    Some(Part { range, values, stored, dropped, in_use: BTreeSet::new(), duplicates: BTreeSet::new() })
}

/// Observes the Services. Returns the expected findings.
fn observe(pass: &mut Audit, parts: &mut [Part], services: &[OwnedService]) -> Vec<Found> {
    let first_cidr = parts.iter().position(|part| matches!(part.range, AnyRange::Cidr(_)));
    let mut found = Vec::new();
    for (subject, service) in services.iter().enumerate() {
        service.with(|service| pass.observe(service));
        let subject = subject as u64;
        if let Some(first_cidr) = first_cidr {
            for text in service.claimed_addresses() {
                let Some(address) = address::parse(text) else {
                    found.push((Reason::ClusterIpNotValid, first_cidr, subject, FoundValue::Text(text.into()), None));
                    continue;
                };
                let value = FoundValue::Address(address);
                let of_family =
                    |part: &Part| matches!(part.range, AnyRange::Cidr(range) if range.is_ipv4() == address.is_ipv4());
                match parts.iter().position(of_family) {
                    None => found.push((Reason::ClusterIpNotValid, first_cidr, subject, value, None)),
                    Some(index) => {
                        let reason = claim(&mut parts[index], AnyValue::Address(address));
                        let valid = Some(parts[index].range.to_string());
                        found.extend(reason.map(|reason| (reason, index, subject, value, valid)));
                    }
                }
            }
        }
        if let Some(index) = parts.iter().position(|part| matches!(part.range, AnyRange::Ports(_))) {
            for port in service.claimed_ports() {
                let reason = match u16::try_from(port) {
                    Ok(port) => claim(&mut parts[index], AnyValue::Port(port)),
                    Err(_) => Some(Reason::PortOutOfRange),
                };
                let valid = Some(parts[index].range.to_string());
                found.extend(reason.map(|reason| (reason, index, subject, FoundValue::Port(port), valid)));
            }
        }
    }
    found
}

fn claim(part: &mut Part, value: AnyValue) -> Option<Reason> {
    let is_port = matches!(value, AnyValue::Port(_));
    let reason = |port, cluster_ip| Some(if is_port { port } else { cluster_ip });
    if !part.values.contains(&value) {
        // Only a CIDR can be without allocatable values; it still contains addresses.
        return match (part.range, value) {
            (AnyRange::Cidr(range), AnyValue::Address(address))
                if part.values.is_empty() && holds(range.network(), address) =>
            {
                Some(Reason::ServiceCidrFull)
            }
            _ => reason(Reason::PortOutOfRange, Reason::ClusterIpOutOfRange),
        };
    }
    if !part.in_use.insert(value) {
        part.duplicates.insert(value);
        return reason(Reason::PortAlreadyAllocated, Reason::ClusterIpAlreadyAllocated);
    }
    if part.stored.contains(&value) { None } else { reason(Reason::PortNotAllocated, Reason::ClusterIpNotAllocated) }
}

fn holds(network: impl ToString, address: IpAddr) -> bool {
    let cidr = rangekeeper_fuzz::range::Cidr::parse(&network.to_string()).expect("a canonical CIDR");
    (0..2).any(|distance| cidr.address(cidr.network + distance) == address && (distance == 0 || cidr.prefix == 31))
}

fn found(outcome: &Report) -> Vec<Found> {
    let found = outcome.findings.iter().map(|finding| {
        assert!(!finding.to_string().is_empty());
        let Subject::Service(subject) = finding.subject else { panic!("{finding:?} is not about a Service") };
        let valid = finding.valid.map(|valid| valid.to_string());
        (finding.reason, finding.range.expect("a range"), subject, finding.value.clone(), valid)
    });
    found.collect()
}

fn compare(outcome: &Report, index: usize, part: &Part, leaked: &BTreeSet<AnyValue>, next: &BTreeSet<AnyValue>) {
    let real = outcome.bitmap(index).expect("a bitmap");
    assert_eq!((real.range(), real.dropped()), (part.range, part.dropped));
    let values = |offsets: Vec<u32>| -> BTreeSet<AnyValue> {
        offsets.into_iter().map(|offset| part.values[offset as usize]).collect()
    };
    assert_eq!(values(real.stored().iter().collect()), part.stored);
    assert_eq!(values(real.in_use().iter().collect()), part.in_use);
    assert_eq!(values(real.leaked().iter().collect()), *leaked);
    assert_eq!(values(real.next().iter().collect()), *next);
    assert_eq!(values(real.duplicates().to_vec()), part.duplicates);
    assert!(real.duplicates().is_sorted_by(|one, other| one < other));

    let mut applied = real.stored().clone();
    let (set, clear) = (real.set(), real.clear());
    assert!(set.iter().all(|offset| applied.insert(offset)), "the diff sets what is stored");
    assert!(clear.iter().all(|offset| applied.remove(offset)), "the diff clears what is not stored");
    assert_eq!(applied, *real.next());

    for value in &part.values {
        let state = real.state_of(*value).expect("a value of the range");
        let expected = [&part.stored, &part.in_use, &part.duplicates, next].map(|set| set.contains(value));
        assert_eq!([state.stored, state.in_use, state.duplicate, state.next], expected, "{value}");
    }
    for count in [0, 1, 3, 100] {
        let cells: Vec<_> = real.occupancy(count).collect();
        assert!(cells.len() as u64 <= u64::from(count));
        if count == 0 {
            continue;
        }
        let total = |number: fn(&rangekeeper::audit::Cell) -> u64| cells.iter().map(number).sum::<u64>() as usize;
        assert_eq!(total(|cell| cell.len), part.values.len());
        assert_eq!(total(|cell| cell.in_use), part.in_use.len());
        assert_eq!(total(|cell| cell.leaked), leaked.len());
        assert_eq!(total(|cell| cell.lost), part.in_use.difference(&part.stored).count());
        assert_eq!(total(|cell| cell.duplicate), part.duplicates.len());
    }
}

/// The repair of every other value is done: only that is left of the diff, and of the findings that it repairs.
fn recorded(outcome: &Report) {
    let mut report = outcome.clone();
    let mut expected = found(outcome);
    for (index, bitmap) in outcome.bitmaps() {
        let half = |offsets: &rangekeeper::bitmap::Bitmap| -> Vec<AnyValue> {
            offsets.iter().step_by(2).filter_map(|offset| bitmap.range().value_at(offset)).collect()
        };
        let (set, cleared) = (half(&bitmap.set()), half(&bitmap.clear()));
        report.record_repair(index, RepairOutcome::Failed).expect("a bitmap");
        assert_eq!(found(&report), expected);
        report.record_repair(index, RepairOutcome::Done { set: &set, cleared: &cleared }).expect("values of the range");
        let was_set = |value: &FoundValue| set.iter().any(|set| set.to_string() == value.to_string());
        expected.retain(|(reason, range, _, value, _)| *range != index || !reason.is_repairable() || was_set(value));
        assert_eq!(found(&report), expected);
        let real = report.bitmap(index).expect("a bitmap");
        let values = |offsets: rangekeeper::bitmap::Bitmap| -> Vec<AnyValue> {
            offsets.iter().filter_map(|offset| bitmap.range().value_at(offset)).collect()
        };
        assert_eq!((values(real.set()), values(real.clear())), (set, cleared.clone()));
        assert_eq!(real.leaked(), bitmap.leaked());
        for leak in report.leaks().filter(|leak| leak.range == Some(index)) {
            assert_eq!(leak.stays, !cleared.contains(&leak.value), "{leak:?}");
        }
    }
}

/// A second repair of the result: leaks are cleaned, and only findings remain that need the owners of Services.
fn again(outcome: &Report, services: &[OwnedService]) {
    let mut pass = Audit::new();
    for (_, range) in outcome.bitmaps() {
        let (text, data) = (range.range().to_string(), range.next().snapshot());
        let stored = Stored { range: &text, data };
        pass.add_bitmap(range.range(), stored).expect("what was stored");
    }
    services.iter().for_each(|service| service.with(|service| pass.observe(service)));
    let second = pass.finish(Leaks::CleanAtOnce);
    let mut expected = found(outcome);
    expected.retain(|(reason, ..)| !matches!(reason, Reason::ClusterIpNotAllocated | Reason::PortNotAllocated));
    assert_eq!(found(&second), expected);
    for ((_, range), (_, before)) in second.bitmaps().zip(outcome.bitmaps()) {
        assert!(range.set().is_empty(), "{} is set once more", range.range());
        assert_eq!(range.next(), before.in_use());
        assert_eq!(range.dropped(), 0);
    }
}
