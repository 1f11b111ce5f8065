//! Faults of the reference (kubernetes v1.37.2, and its issue tracker), each with a test that shows the difference
//! here.

mod common;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU8;

use common::{below, seeded};
use rangekeeper::allocator::{AllocateError, Allocator, Full, Strategy};
use rangekeeper::any::AnyRange;
use rangekeeper::audit::{AddRangeError, Audit, Leaks, RepairCounters, Report, Stored};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::cidr::CidrRange;
use rangekeeper::finding::{FoundValue, Reason};
use rangekeeper::leak::DEFAULT_PASSES;
use rangekeeper::ports::PortRange;
use rangekeeper::range::Range;
use rangekeeper::service::{Service, ServicePort};
use rangekeeper::snapshot::BitsPastRange;

const STRATEGIES: [Strategy; 3] = [Strategy::Contiguous, Strategy::RandomScan, Strategy::DynamicBandFirst];

/// Nothing was cleaned.
const NONE: Vec<u32> = Vec::new();

fn cidr(text: &str) -> CidrRange {
    text.parse().expect("a CIDR")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn snapshot(len: u32, offsets: &[u32]) -> Vec<u8> {
    let mut bitmap = Bitmap::new(len);
    for offset in offsets {
        assert!(bitmap.insert(*offset));
    }
    bitmap.snapshot().to_vec()
}

/// A pass over one range of addresses and Services with one address each.
fn pass(range: CidrRange, stored: Stored<'_>, in_use: &[&str], leaks: Leaks<'_>) -> Report {
    let mut pass = Audit::new();
    pass.add_cluster_ips(range, stored).expect("the snapshot fits");
    for cluster_ip in in_use {
        pass.observe(&Service { cluster_ip, ..Service::default() });
    }
    pass.finish(leaks)
}

/// Passes over one range, with the counters between them and what is stored.
struct Series {
    range: CidrRange,
    counters: RepairCounters,
    stored: Bitmap,
}

impl Series {
    fn new(range: &str, stored: &[u32]) -> Self {
        let range = cidr(range);
        let mut bitmap = Bitmap::new(range.size());
        bitmap.restore(&snapshot(range.size(), stored)).expect("in range");
        Self { range, counters: RepairCounters::new(DEFAULT_PASSES), stored: bitmap }
    }

    /// Runs a pass, writes its outcome and returns the offsets that it cleaned.
    fn pass(&mut self, in_use: &[&str]) -> Vec<u32> {
        let text = self.range.to_string();
        let stored = Stored { range: &text, data: self.stored.snapshot() };
        let outcome = pass(self.range, stored, in_use, Leaks::Keep(&mut self.counters));
        self.stored = outcome.bitmap(0).expect("a bitmap").next().clone();
        outcome.bitmap(0).expect("a bitmap").clear().iter().collect()
    }
}

// Allocation.

/// The reference counts bits past the range, so that a range with free addresses is full and Free goes below zero.
#[test]
fn a_pass_refuses_bits_past_the_range() {
    let range = cidr("10.0.0.0/28");
    let stored = Stored { range: "10.0.0.0/28", data: &[0b100_0000, 0] };
    let error = Audit::new().add_cluster_ips(range, stored).expect_err("the range has 14 offsets");
    let source = BitsPastRange { offset: 14, size: 14, byte: 0 };
    assert_eq!(error, AddRangeError::BitsPastRange { range: AnyRange::Cidr(range), source });
    assert!(error.to_string().contains("10.0.0.0/28") && error.to_string().contains("14"), "{error}");
}

/// The reference leaves it to its callers that a static band is smaller than its range.
#[test]
fn a_static_band_always_leaves_a_dynamic_one() {
    let mut ranges = 0;
    let mut check = |range: AnyRange| {
        let (size, band) = (range.size(), range.static_band());
        assert!(band < size || band == 0, "{range}: {band} of {size}");
        ranges += 1;
    };
    for size in 1..=65_536_u32 {
        check(AnyRange::Ports(PortRange::new(0, (size - 1) as u16).expect("a range")));
    }
    for prefix in 0..=32 {
        check(AnyRange::Cidr(cidr(&format!("10.0.0.0/{prefix}"))));
    }
    for prefix in 0..=128 {
        check(AnyRange::Cidr(cidr(&format!("fd00::/{prefix}"))));
    }
    println!("{ranges} ranges");
    assert!(ranges >= 65_000);
}

/// The reference's random scan tries offset after offset; here the last free one is found at once, wherever it lies.
#[test]
fn the_last_free_value_of_a_nearly_full_range_is_found() {
    let mut rng = seeded(12);
    let mut cases = 0;
    for range in ["10.0.0.0/20", "10.0.0.0/28", "fd00::/117"].map(cidr) {
        for strategy in STRATEGIES {
            let mut allocator = Allocator::new(range, strategy);
            for _ in 0..range.size() {
                allocator.allocate_next(&mut rng).expect("not yet full");
            }
            for step in 0..500 {
                assert_eq!(allocator.allocate_next(&mut rng), Err(Full { range }));
                let band = range.static_band();
                let edges = [0, band.saturating_sub(1), band, range.size() - 1];
                let offset = edges.get(step).copied().unwrap_or_else(|| below(range.size(), &mut rng));
                let last = range.value_at(offset).expect("in range");
                assert!(allocator.release(last) && allocator.free() == 1);
                assert_eq!(allocator.allocate_next(&mut rng), Ok(last));
                cases += 1;
            }
        }
    }
    println!("{cases} values");
    assert!(cases >= 4_500);
}

/// The static band is spared to the last, and then used to the last.
#[test]
fn the_static_band_is_taken_only_when_all_else_is_in_use() {
    let mut rng = seeded(13);
    for text in ["10.0.0.0/24", "10.0.0.0/20", "fd00::/120", "10.0.0.0/28", "30000-32767", "30000-30016", "30000-30015"]
    {
        let range: AnyRange = text.parse().expect("a range");
        let (size, band) = (range.size(), range.static_band());
        let mut allocator = Allocator::new(range, Strategy::DynamicBandFirst);
        // Named values of either band are nobody's business but the caller's.
        for offset in [0, size - 1] {
            allocator.allocate(range.value_at(offset).expect("in range")).expect("free");
        }
        let named_static = u32::from(band > 0);
        let mut taken = Vec::new();
        while let Ok(value) = allocator.allocate_next(&mut rng) {
            taken.push(range.offset_of(value).expect("in range"));
        }
        let dynamic = size - band - (2 - named_static);
        assert!(taken[..dynamic as usize].iter().all(|offset| *offset >= band), "{text}");
        assert!(taken[dynamic as usize..].iter().all(|offset| *offset < band), "{text}");
        assert_eq!(taken.len() as u32, size - 2, "{text}");
        assert_eq!(allocator.free(), 0);
    }
}

/// Random allocation really is: every value of a range is somebody's first.
#[test]
fn a_random_scan_starts_anywhere() {
    let mut rng = seeded(14);
    for (strategy, low) in [(Strategy::RandomScan, 0), (Strategy::DynamicBandFirst, 16)] {
        let range = cidr("10.0.0.0/24");
        let empty = Allocator::new(range, strategy);
        let mut first = BTreeSet::new();
        for _ in 0..20_000 {
            let value = empty.dry_run().allocate_next(&mut rng).expect("empty");
            first.extend(range.offset_of(value));
        }
        assert!(first.iter().copied().eq(low..254), "{strategy:?}: {first:?}");
    }
}

/// The release of a value that is free, out of range or of another kind is no error, and frees no other value.
#[test]
fn releasing_what_is_not_allocated_changes_nothing() {
    let range = cidr("10.0.0.0/24");
    let mut allocator = Allocator::new(range, Strategy::Contiguous);
    allocator.allocate(address("10.0.0.7")).expect("free");
    let before = allocator.clone();
    for text in ["10.0.0.8", "10.0.0.0", "10.0.0.255", "10.0.1.7", "9.255.255.255", "fd00::7", "::ffff:10.0.0.8", "::7"]
    {
        for _ in 0..2 {
            assert!(!allocator.release(address(text)), "{text}");
            assert_eq!((&allocator, allocator.used(), allocator.free()), (&before, 1, 253), "{text}");
        }
    }
    assert!(allocator.release(address("10.0.0.7")) && !allocator.release(address("10.0.0.7")));
    assert_eq!((allocator.used(), allocator.free()), (0, 254));
}

/// #90115, #90213: a /64 cannot be used as a service range; here its first 65,535 addresses can, and it is full then.
#[test]
fn a_wide_ipv6_range_hands_out_its_first_addresses_and_is_full_then() {
    let mut rng = seeded(15);
    for (text, size) in [("fd00::/64", 65_535), ("fd00::/111", 65_535), ("fd00::/112", 65_535), ("fd00::/113", 32_767)]
    {
        let range = cidr(text);
        assert_eq!(range.size(), size, "{text}");
        let mut allocator = Allocator::new(range, Strategy::DynamicBandFirst);
        let mut taken = BTreeSet::new();
        while let Ok(value) = allocator.allocate_next(&mut rng) {
            assert!(taken.insert(value), "{value} was handed out twice");
        }
        let all = (1..=u128::from(size)).map(|host| IpAddr::from((0xfd00_u128 << 112 | host).to_be_bytes()));
        assert!(taken.into_iter().eq(all), "{text}");
        assert_eq!(allocator.allocate_next(&mut rng), Err(Full { range }));
        for host in ["fd00::", "fd00::1:0", "fd00::1:1", "fd00::ffff:ffff"] {
            let value = address(host);
            assert_eq!(allocator.allocate(value), Err(AllocateError::NotInRange { value, range }), "{host} in {text}");
            assert!(!allocator.has(value) && !allocator.release(value));
        }
    }
}

/// In ranges wider than /64 the reference's offsets wrap, so that it takes foreign addresses for its own.
#[test]
fn offsets_do_not_wrap_in_ranges_wider_than_64_bits() {
    for prefix in [2, 32, 47, 48, 63] {
        let range = cidr(&format!("2001:db8::/{prefix}"));
        let IpAddr::V6(network) = range.network().ip() else { panic!("{range} is IPv6") };
        let own = network.to_bits() + 5;
        assert_eq!(range.offset_of(IpAddr::from(own.to_be_bytes())), Some(4), "{range}");
        for wrapped in 64..128 - prefix {
            let foreign = IpAddr::from((own + (1 << wrapped)).to_be_bytes());
            assert!(range.contains(foreign));
            assert_eq!(range.offset_of(foreign), None, "{foreign} in {range}");
        }
    }
}

// Leaks.

/// A counter that is spent stays spent in the reference: an address that was leaked and cleaned in passes 1 to 3 and
/// reallocated before pass 6 is cleaned by pass 6 itself, perhaps before its Service is written.
#[test]
fn an_address_allocated_anew_after_its_clean_up_has_the_whole_grace() {
    let mut series = Series::new("10.0.0.0/24", &[9]);
    assert_eq!([1, 2, 3].map(|_| series.pass(&[])), [NONE, NONE, vec![9]]);
    assert_eq!([4, 5].map(|_| series.pass(&[])), [NONE, NONE]);
    assert!(series.stored.insert(9));
    assert_eq!([6, 7].map(|_| series.pass(&[])), [NONE, NONE]);
    // Its Service is written at last.
    assert_eq!(series.pass(&["10.0.0.10"]), NONE);
    assert!(series.stored.contains(9));
}

/// The same without a pass in between, where it was free.
#[test]
fn an_address_allocated_anew_right_after_its_clean_up_has_the_whole_grace() {
    let mut series = Series::new("10.0.0.0/24", &[9]);
    assert_eq!([1, 2, 3].map(|_| series.pass(&[])), [NONE, NONE, vec![9]]);
    assert!(series.stored.insert(9));
    assert_eq!([4, 5, 6].map(|_| series.pass(&[])), [NONE, NONE, vec![9]]);
}

/// Used, released and reallocated: however the leak ends, the next one counts from 1.
#[test]
fn a_leak_that_ended_counts_from_the_beginning() {
    for breaks in 0..3 {
        let mut series = Series::new("10.0.0.0/24", &[9]);
        assert_eq!([1, 2].map(|_| series.pass(&[])), [NONE, NONE]);
        match breaks {
            // A Service has it for a while.
            0 => assert_eq!(series.pass(&["10.0.0.10"]), NONE),
            // Released, and allocated after the next pass.
            1 => {
                assert!(series.stored.remove(9));
                assert_eq!(series.pass(&[]), NONE);
                assert!(series.stored.insert(9));
            }
            // Used though not recorded: repair records it.
            _ => {
                assert!(series.stored.remove(9));
                assert_eq!(series.pass(&["10.0.0.10"]), NONE);
                assert!(series.stored.contains(9));
            }
        }
        assert_eq!([3, 4, 5].map(|_| series.pass(&[])), [NONE, NONE, vec![9]], "break {breaks}");
    }
}

/// #37488, #39206: repair between "address reserved" and "Service written" must not free the address.
#[test]
fn an_address_reserved_before_its_service_is_written_survives_two_passes() {
    let mut series = Series::new("10.0.0.0/24", &[]);
    assert_eq!(series.pass(&[]), NONE);
    assert!(series.stored.insert(0));
    assert_eq!([2, 3].map(|_| series.pass(&[])), [NONE, NONE]);
    for _ in 4..10 {
        assert_eq!(series.pass(&["10.0.0.1"]), NONE);
        assert!(series.stored.contains(0));
    }
}

/// #136475: an address of the static band that no Service has is refused as allocated. It is a leak, and is cleaned.
#[test]
fn a_leak_in_the_static_band_is_cleaned_too() {
    let mut series = Series::new("10.0.0.0/24", &[9]);
    assert!(series.range.static_band() > 9);
    assert_eq!([1, 2, 3].map(|_| series.pass(&[])), [NONE, NONE, vec![9]]);
    let mut allocator = Allocator::new(series.range, Strategy::Contiguous);
    allocator.restore("10.0.0.0/24", series.stored.snapshot()).expect("its own snapshot");
    assert_eq!(allocator.allocate(address("10.0.0.10")), Ok(()));
}

/// Counters belong to a range: after a change of the configuration they start again, as the offsets mean others.
#[test]
fn a_changed_range_keeps_what_both_have_and_starts_the_grace_again() {
    let mut counters = RepairCounters::new(DEFAULT_PASSES);
    let old = cidr("10.0.0.0/24");
    // 10.0.0.1, .40, .100 and .200.
    let data = snapshot(old.size(), &[0, 39, 99, 199]);
    let stored = Stored { range: "10.0.0.0/24", data: &data };
    for _ in 0..2 {
        assert!(
            pass(old, stored, &["10.0.0.1"], Leaks::Keep(&mut counters))
                .bitmap(0)
                .expect("a bitmap")
                .clear()
                .is_empty()
        );
    }
    // 10.0.0.33 to .62, so 40 is offset 7.
    let new = cidr("10.0.0.32/27");
    let outcome = pass(new, stored, &["10.0.0.1"], Leaks::Keep(&mut counters));
    let range = outcome.bitmap(0).expect("a bitmap");
    assert_eq!((range.stored().iter().collect::<Vec<_>>(), range.dropped()), (vec![7], 3));
    assert_eq!((range.next().iter().collect::<Vec<_>>(), range.clear().count()), (vec![7], 0));
    assert_eq!(outcome.findings.len(), 1);
    assert_eq!(
        (outcome.findings[0].reason, outcome.findings[0].valid.map(|valid| valid.to_string())),
        (Reason::ClusterIpOutOfRange, Some("10.0.0.32/27".to_owned()))
    );
    assert_eq!(counters.of(AnyRange::Cidr(new)).count(7), 1);
    assert_eq!(counters.of(AnyRange::Cidr(old)).count(39), 0);
    let data = range.next().snapshot().to_vec();
    let stored = Stored { range: "10.0.0.32/27", data: &data };
    assert!(pass(new, stored, &[], Leaks::Keep(&mut counters)).bitmap(0).expect("a bitmap").clear().is_empty());
    assert_eq!(
        pass(new, stored, &[], Leaks::Keep(&mut counters))
            .bitmap(0)
            .expect("a bitmap")
            .clear()
            .iter()
            .collect::<Vec<_>>(),
        [7]
    );
}

// The pass.

/// In the reference each retry after a conflict is a whole pass, so two conflicts spend the grace in under 100 ms. Here
/// the outcome is a diff that fits a newer snapshot, too: others keep what they allocated, nothing is counted twice.
#[test]
fn a_diff_applies_to_a_snapshot_that_others_changed_meanwhile() {
    let range = cidr("10.0.0.0/24");
    let data = snapshot(range.size(), &[0, 50, 51]);
    let mut counters = RepairCounters::new(NonZeroU8::new(2).expect("not zero"));
    let in_use = ["10.0.0.1", "10.0.0.3"];
    let stored = Stored { range: "10.0.0.0/24", data: &data };
    let _ = pass(range, stored, &in_use, Leaks::Keep(&mut counters));
    let outcome = pass(range, stored, &in_use, Leaks::Keep(&mut counters));
    // Meanwhile: 10.0.0.9 was allocated, 10.0.0.52 released.
    let mut newer = Bitmap::new(range.size());
    newer.restore(&snapshot(range.size(), &[0, 8, 50])).expect("in range");
    newer.union_with(&outcome.bitmap(0).expect("a bitmap").set());
    newer.difference_with(&outcome.bitmap(0).expect("a bitmap").clear());
    assert_eq!(newer.iter().collect::<Vec<_>>(), [0, 2, 8]);
}

/// #64466: deleting one of two Services that share a port frees it. The next pass records it again.
#[test]
fn a_port_that_another_service_still_uses_is_recorded_again() {
    let range: PortRange = "30000-30100".parse().expect("a port range");
    let ports = [ServicePort { protocol: "TCP", node_port: 30_007 }];
    let service = Service { ports: &ports, ..Service::default() };
    let mut data = snapshot(range.size(), &[7]);
    let mut reasons = Vec::new();
    for services in [2, 1] {
        let mut pass = Audit::new();
        pass.add_node_ports(range, Stored { range: "30000-30100", data: &data }).expect("fits");
        for _ in 0..services {
            pass.observe(&service);
        }
        let outcome = pass.finish(Leaks::CleanAtOnce);
        reasons.push(outcome.findings.iter().map(|finding| finding.reason).collect::<Vec<_>>());
        assert!(outcome.bitmap(0).expect("a bitmap").next().contains(7));
        // One of the two is deleted, and its release frees the port.
        data = snapshot(range.size(), &[]);
    }
    assert_eq!(reasons, [[Reason::PortAlreadyAllocated], [Reason::PortNotAllocated]]);
}

/// The reference has this reason, and code that reports it cannot be reached.
#[test]
fn a_range_without_addresses_is_reported_for_each_service() {
    for text in ["10.0.0.0/31", "10.0.0.1/32", "0.0.0.0/0", "0.0.0.0/1"] {
        let outcome = pass(cidr(text), Stored::default(), &["10.0.0.1", "192.0.2.1", "10.0.0.1"], Leaks::CleanAtOnce);
        let inside = if text == "0.0.0.0/0" { Reason::ServiceCidrFull } else { Reason::ClusterIpOutOfRange };
        let reasons: Vec<_> = outcome.findings.iter().map(|finding| finding.reason).collect();
        assert_eq!(reasons, [Reason::ServiceCidrFull, inside, Reason::ServiceCidrFull], "{text}");
        assert_eq!((outcome.bitmap(0).expect("a bitmap").next().len(), outcome.services), (0, 3));
    }
}

/// The reference's message for a ClusterIP that is not an address says `<nil>`.
#[test]
fn the_message_for_an_invalid_address_shows_its_text() {
    let outcome = pass(cidr("10.0.0.0/24"), Stored::default(), &["10.0.0.999", "fd00::1"], Leaks::CleanAtOnce);
    assert!(outcome.findings.iter().all(|finding| finding.reason == Reason::ClusterIpNotValid));
    assert_eq!(outcome.findings[0].value, FoundValue::Text("10.0.0.999".into()));
    assert_eq!(outcome.findings[1].value, FoundValue::Address(address("fd00::1")));
    let messages: Vec<String> = outcome.findings.iter().map(ToString::to_string).collect();
    assert!(messages[0].contains("\"10.0.0.999\"") && messages[1].contains("fd00::1"), "{messages:?}");
}
