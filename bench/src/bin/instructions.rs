//! The work whose instructions `bench/instructions.sh` counts under callgrind.
//!
//! - `hot` prints the names of the hottest operations, `hot NAME` performs one and prints how often it was measured.
//! - `growth` prints the names of operations on an input that has a size, `growth NAME` performs one with an input of
//!   one size, of twice, and of four times that.
//!
//! Only [`measured`] is counted, so the set-up is not.

use std::hint::black_box;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use rangekeeper::allocator::Request;
use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::audit::{RepairCounters, RepairOutcome, Report};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{Diff, Finished, Operation, Outcome, ServiceList, View};
use rangekeeper::index::Index;
use rangekeeper::ipaddress::{ALLOCATOR, IpAddressObject};
use rangekeeper::leak::{DEFAULT_PASSES, LeakCounters};
use rangekeeper::range_allocation::Form;
use rangekeeper::service_cidr::ServiceCidr;
use rangekeeper::snapshot::changes;
use rangekeeper::{Allocator, Audit, CidrRange, Leaks, Range, RangeAllocation, Strategy};
use rangekeeper_bench::cluster::{Cluster, Objects};
use rangekeeper_bench::etcd::{Server, Store};
use rangekeeper_bench::{Fill, filled, generator, node_ports, slash_12, slash_16, some_values, stored};

/// How often a short operation is measured, each time with another value.
const SHORT: u32 = 1000;
/// How often an operation on a whole range is.
const LONG: u32 = 10;
const UNTIL: Duration = Duration::from_secs(60);

/// The work that callgrind counts: it knows this function by its name.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// An operation, and what performs it and returns how often it was measured.
type Hot = (&'static str, fn() -> u32);

const HOT: [Hot; 14] = [
    ("allocate_next, release", || allocate_next_release(slash_12())),
    ("allocate_next, release, AnyRange", || allocate_next_release(AnyRange::from(slash_12()))),
    ("has", has),
    ("release, allocate", release_allocate),
    ("restore", restore),
    ("snapshot changes", snapshot_changes),
    ("leak counters", leak_counters),
    ("audit of 1,000 Services", audit),
    ("commit of an allocation", commit),
    ("allocation after a conflict", conflict),
    ("index: reserve, confirm, remove", || index("10.0.0.0/8")),
    ("index of a /64: reserve, confirm, remove", || index("fd00::/64")),
    ("decode, encode, protobuf", || decode_encode(Form::Protobuf)),
    ("decode, encode, JSON", || decode_encode(Form::Json)),
];

fn half<R: Range>(range: R) -> Allocator<R> {
    filled(range, Strategy::RandomScan, Fill::Half)
}

fn allocate_next_release<R: Range>(range: R) -> u32 {
    let (mut allocator, mut rng) = (half(range), generator(3));
    measured(|| {
        for _ in 0..SHORT {
            let value = allocator.allocate_next(&mut rng).expect("half is free");
            allocator.release(black_box(value));
        }
    });
    SHORT
}

fn has() -> u32 {
    let (allocator, values) = (half(slash_12()), some_values(slash_12(), SHORT, 3));
    measured(|| values.iter().filter(|value| allocator.has(**value)).count());
    SHORT
}

fn release_allocate() -> u32 {
    let (mut allocator, values) = (half(slash_12()), some_values(slash_12(), SHORT, 3));
    measured(|| {
        for value in &values {
            allocator.release(*value);
            allocator.allocate(*value).expect("it was released");
        }
    });
    SHORT
}

fn restore() -> u32 {
    let mut allocator = half(slash_12());
    let (range, data) = (slash_12().to_string(), allocator.snapshot().to_vec());
    measured(|| {
        for _ in 0..LONG {
            allocator.restore(&range, &data).expect("it is a snapshot of the range");
        }
    });
    LONG
}

/// The snapshots before and after a hundred changes.
fn two_snapshots(range: CidrRange) -> [Vec<u8>; 2] {
    let before = half(range);
    let mut after = before.clone();
    for value in some_values(range, 100, 3) {
        if !after.release(value) {
            after.allocate(value).expect("it is free");
        }
    }
    [before, after].map(|allocator| allocator.snapshot().to_vec())
}

fn snapshot_changes() -> u32 {
    let [before, after] = two_snapshots(slash_12());
    measured(|| {
        for _ in 0..LONG {
            drop(black_box(changes(slash_12(), &before, &after).expect("snapshots of the range")));
        }
    });
    LONG
}

fn leak_counters() -> u32 {
    let leaked = filled(slash_12(), Strategy::Contiguous, Fill::Half).bitmap().clone();
    let mut counters = LeakCounters::new(leaked.len(), DEFAULT_PASSES);
    let mut passes: Vec<Bitmap> = (0..LONG).map(|_| leaked.clone()).collect();
    measured(|| passes.iter_mut().for_each(|leaked| counters.advance(leaked)));
    LONG
}

fn audit() -> u32 {
    let cluster = Cluster::with_drift(slash_16(), 1000);
    let mut counters = RepairCounters::new(DEFAULT_PASSES);
    measured(|| {
        for _ in 0..LONG {
            drop(black_box(cluster.audit(Leaks::Keep(&mut counters))));
        }
    });
    LONG
}

fn commit() -> u32 {
    let mut store = Store::new(&half(slash_12()));
    let mut server = Server::new(slash_12(), 3, &mut store);
    server.allocate(&mut store, 1);
    measured(|| {
        for _ in 0..LONG {
            server.allocate(&mut store, 1);
        }
    });
    LONG
}

/// Two servers allocate in turn, so that the first swap of each allocation loses.
fn conflict() -> u32 {
    let mut store = Store::new(&half(slash_12()));
    let mut servers = [3, 4].map(|seed| Server::new(slash_12(), seed, &mut store));
    servers.iter_mut().for_each(|server| _ = server.allocate(&mut store, 1));
    measured(|| {
        for at in 0..LONG as usize {
            servers[at % 2].allocate(&mut store, 1);
        }
    });
    LONG
}

fn cidr(text: &str) -> ServiceCidr {
    text.parse().expect("a CIDR")
}

/// An index with so many addresses, reserved and confirmed.
fn indexed(cidr: ServiceCidr, count: u32) -> (Index, Vec<IpAddr>) {
    let (mut index, mut rng) = (Index::new(7), generator(3));
    index.insert_cidr(cidr);
    let mut reserve = |_| {
        let reservation = index.reserve(&[cidr], UNTIL, &mut rng).expect("a free address");
        index.confirm(reservation, 1);
        index.added(reservation.address, 1);
        reservation.address
    };
    let addresses = (0..count).map(&mut reserve).collect();
    (index, addresses)
}

fn index(text: &str) -> u32 {
    let cidr = cidr(text);
    let ((mut index, _), mut rng) = (indexed(cidr, 10_000), generator(4));
    measured(|| {
        for at in 0..SHORT {
            let reservation = index.reserve(&[cidr], UNTIL, &mut rng).expect("a free address");
            let revision = 2 + 2 * u64::from(at);
            index.confirm(reservation, revision);
            index.removed(reservation.address, revision + 1);
        }
    });
    SHORT
}

fn decode_encode(form: Form) -> u32 {
    let (stored, mut out) = (stored(&half(slash_12()), form), Vec::new());
    measured(|| {
        for _ in 0..LONG {
            RangeAllocation::decode(&stored).expect("it was just encoded").encode_into(&mut out);
        }
    });
    LONG
}

/// An operation, the size of its smallest input, and what performs it with an input of that size.
type Growth = (&'static str, u32, fn(u32));

const GROWTH: [Growth; 27] = [
    ("allocate_batch of n", 4000, allocate_batch),
    ("iteration over n", 16_000, iterate),
    ("restore of n", 1 << 18, restore_of),
    ("snapshot changes of n", 1 << 18, changes_of),
    ("leak counters of n", 1 << 18, leak_counters_of),
    ("decode of n, protobuf", 1 << 18, |size| decode_of(size, Form::Protobuf)),
    ("decode of n, JSON", 1 << 18, |size| decode_of(size, Form::Json)),
    ("audit of n Services", 8000, audit_of_services),
    ("audit of n Services with node ports", 600, audit_of_ports),
    ("audit of n Services without ranges", 4000, audit_without_ranges),
    ("audit of n IPAddress objects", 4000, audit_of_objects),
    ("claimants of n Services", 4000, claimants),
    ("findings of n Services", 8000, |size| findings(&services_report(size))),
    ("findings of n IPAddress objects", 4000, |size| findings(&objects_report(size))),
    ("findings of n IPAddress objects that are misnamed", 1000, |size| findings(&misnamed_report(size))),
    ("leaks and repairs of n IPAddress objects", 4000, leaks_and_repairs),
    ("record of a repair of n", 4000, record_repair),
    ("occupancy of a bitmap, n cells", 4096, |size| occupancy(&services_report(8000), size)),
    ("occupancy of IPAddress objects, n cells", 4096, |size| occupancy(&objects_report(4000), size)),
    ("index: list of n", 4000, |size| index_list(size, "10.0.0.0/8")),
    ("index of a /64: list of n", 4000, |size| index_list(size, "fd00::/64")),
    ("index: CIDR over n known addresses", 4000, index_insert_cidr),
    ("index: expiry of n reservations", 4000, index_expire),
    ("index of a /64: removal of the CIDR of n", 4000, index_remove_cidr),
    ("commit of a repair of n", 1 << 15, repair_of),
    ("commit of n allocations at once", 1000, commit_of),
    ("commit of n releases at once", 1000, release_of),
];

/// A range of about so many values.
fn range_of(size: u32) -> CidrRange {
    format!("10.0.0.0/{}", 32 - size.ilog2()).parse().expect("a CIDR")
}

fn allocate_batch(size: u32) {
    let (mut allocator, mut rng) = (half(slash_12()), generator(3));
    let requests = vec![Request::Any; size as usize];
    drop(measured(|| allocator.allocate_batch(&requests, &mut rng)).expect("so many are free"));
}

fn iterate(size: u32) {
    let mut allocator = Allocator::new(slash_12(), Strategy::Contiguous);
    some_values(slash_12(), size, 3).iter().for_each(|value| _ = allocator.allocate(*value));
    measured(|| allocator.iter().map(black_box).count());
}

fn restore_of(size: u32) {
    let range = range_of(size);
    let mut allocator = half(range);
    let (text, data) = (range.to_string(), allocator.snapshot().to_vec());
    measured(|| allocator.restore(&text, &data)).expect("it is a snapshot of the range");
}

fn changes_of(size: u32) {
    let [before, after] = two_snapshots(range_of(size));
    drop(measured(|| changes(range_of(size), &before, &after)).expect("snapshots of the range"));
}

fn leak_counters_of(size: u32) {
    let mut leaked = half(range_of(size)).bitmap().clone();
    let mut counters = LeakCounters::new(leaked.len(), DEFAULT_PASSES);
    measured(|| counters.advance(&mut leaked));
}

fn decode_of(size: u32, form: Form) {
    let stored = stored(&half(range_of(size)), form);
    drop(measured(|| RangeAllocation::decode(&stored)).expect("it was just encoded"));
}

fn audit_of_services(size: u32) {
    let cluster = Cluster::with_drift(slash_16(), size);
    drop(measured(|| cluster.audit(Leaks::CleanAtOnce)));
}

fn audit_of_ports(size: u32) {
    let cluster = Cluster::with_drift(node_ports(), size);
    drop(measured(|| cluster.audit(Leaks::CleanAtOnce)));
}

fn audit_without_ranges(size: u32) {
    let cluster = Cluster::with_duplicates(slash_16(), size);
    drop(measured(|| {
        let mut audit = Audit::new();
        audit.without_cluster_ip_ranges();
        cluster.services().for_each(|service| audit.observe(&service));
        audit.finish(Leaks::CleanAtOnce)
    }));
}

fn objects(size: u32) -> Objects {
    let addresses: Vec<IpAddr> = some_values(slash_16(), size, 2);
    Objects::with_drift(cidr("10.96.0.0/16"), &addresses)
}

fn audit_of_objects(size: u32) {
    let cluster = objects(size);
    drop(measured(|| cluster.audit()));
}

fn claimants(size: u32) {
    let cluster = Cluster::with_duplicates(slash_16(), size);
    let mut report = cluster.audit(Leaks::CleanAtOnce);
    measured(|| {
        for service in cluster.services() {
            report.observe_claimant(&service).expect("as many as before");
        }
        report.findings.iter().map(|finding| report.claimants(finding).len()).sum::<usize>()
    });
}

/// A report with a finding about every second Service.
fn services_report(size: u32) -> Report {
    Cluster::with_duplicates(slash_16(), size).audit(Leaks::CleanAtOnce)
}

/// A report with a finding about most IPAddress objects.
fn objects_report(size: u32) -> Report {
    objects(size).audit()
}

/// A report of data at rest: the names of the objects are not the canonical texts of their addresses, so each is
/// removed.
fn misnamed_report(size: u32) -> Report {
    let mut audit = Audit::of_ip_addresses(None);
    audit.add_service_cidr(ServiceCidr::new(slash_16().network()), true).expect("it is the first one");
    for address in some_values(slash_16(), size, 2) {
        let name = format!("::ffff:{address}");
        let object = IpAddressObject { name: &name, managed_by: ALLOCATOR, ..IpAddressObject::default() };
        audit.observe_ip_address(&object).expect("no Service was observed yet");
    }
    let report = audit.finish(Leaks::CleanAtOnce);
    assert_eq!((report.findings.len(), report.object_repairs().count()), (size as usize, size as usize));
    report
}

fn findings(report: &Report) {
    measured(|| {
        for finding in &report.findings {
            black_box((report.remedy(finding), report.stays(finding)));
        }
    });
}

fn leaks_and_repairs(size: u32) {
    let report = objects_report(size);
    measured(|| {
        report.leaks().for_each(|leak| _ = black_box(leak));
        report.object_repairs().for_each(|repair| _ = black_box(repair));
    });
}

fn record_repair(size: u32) {
    let mut report = services_report(size);
    let set: Vec<AnyValue> = some_values(AnyRange::from(slash_16()), size, 3);
    measured(|| report.record_repair(0, RepairOutcome::Done { set: &set, cleared: &set }))
        .expect("values of the range");
}

fn occupancy(report: &Report, cells: u32) {
    measured(|| report.ranges[0].occupancy(cells).map(|cell| cell.in_use).sum::<u64>());
}

fn index_list(size: u32, text: &str) {
    let (mut index, addresses) = indexed(cidr(text), size);
    // A half is gone, and as many are new.
    let half = addresses.len() / 2;
    let others = some_values(slash_16(), half as u32, 3);
    let listed = addresses[..half].iter().copied().chain(others);
    measured(|| index.replace(listed, 2)).expect("a later list");
}

fn index_insert_cidr(size: u32) {
    let mut index = Index::new(7);
    index.replace(some_values(slash_16(), size, 3), 1).expect("the first list");
    measured(|| index.insert_cidr(cidr("10.96.0.0/16")));
}

fn index_remove_cidr(size: u32) {
    let cidr = cidr("fd00::/64");
    let (mut index, _) = indexed(cidr, size);
    measured(|| index.remove_cidr(cidr));
}

fn index_expire(size: u32) {
    let (cidr, mut index, mut rng) = (cidr("10.0.0.0/8"), Index::new(7), generator(3));
    index.insert_cidr(cidr);
    (0..size).for_each(|_| _ = index.reserve(&[cidr], UNTIL, &mut rng).expect("a free address"));
    measured(|| index.expire(UNTIL));
}

/// A repair that sets the free values of a half-full range, and clears the others.
fn repair_of(size: u32) {
    let range = range_of(size);
    let clear = half(range).bitmap().clone();
    let mut set = filled(range, Strategy::Contiguous, Fill::OneFree).bitmap().clone();
    set.difference_with(&clear);
    let mut store = Store::new(&half(range));
    let mut server = Server::new(range, 3, &mut store);
    let [Finished { outcome: Outcome::Read(View { revision, .. }), .. }] = server.commit(&mut store, [Operation::Read])
    else {
        panic!("the read has failed");
    };
    let (read, listed) = (*revision, ServiceList::Elsewhere);
    let diff = Box::new(Diff { read, set, clear, duplicates: Vec::new(), outside: 0, listed, look: None });
    let finished = measured(|| server.commit(&mut store, [Operation::Repair(diff)]));
    assert!(matches!(&finished[0].outcome, Outcome::Repaired(repaired) if repaired.changed == 0), "{finished:?}");
}

fn commit_of(size: u32) {
    let mut store = Store::new(&half(slash_16()));
    let mut server = Server::new(slash_16(), 3, &mut store);
    drop(measured(|| server.allocate(&mut store, size as usize)));
}

fn release_of(size: u32) {
    let mut store = Store::new(&half(slash_16()));
    let mut server = Server::new(slash_16(), 3, &mut store);
    let releases = server.allocate(&mut store, size as usize);
    measured(|| server.release(&mut store, releases));
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["hot"] => HOT.iter().for_each(|(name, _)| println!("{name}")),
        ["growth"] => GROWTH.iter().for_each(|(name, ..)| println!("{name}")),
        ["hot", name] if let Some((_, run)) = HOT.iter().find(|(known, _)| known == name) => println!("{}", run()),
        ["growth", name] if let Some((_, size, run)) = GROWTH.iter().find(|(known, ..)| known == name) => {
            [1, 2, 4].iter().for_each(|times| run(size * times));
        }
        _ => {
            eprintln!("usage: instructions hot [NAME] | growth [NAME]");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
