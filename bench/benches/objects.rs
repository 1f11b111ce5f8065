//! The audit of 1,000,000 IPAddress objects, and the sets of offsets in its report: sorted lists, compared with compressed
//! bitmaps of 64-bit offsets.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::ipaddress::{ALLOCATOR, IpAddressObject};
use rangekeeper::service_cidr::ServiceCidr;
use rangekeeper::{Audit, Leaks, Service};
use roaring::RoaringTreemap;

const OBJECTS: usize = 1_000_000;
/// The cells of an occupancy map.
const CELLS: u64 = 4096;

/// Distinct random offsets, unordered.
fn offsets(cidr: &ServiceCidr) -> Vec<u64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut offsets: Vec<u64> = if cidr.size() < 4 * OBJECTS as u64 {
        (0..cidr.size()).collect()
    } else {
        (0..OBJECTS).map(|_| rng.next_u64() % cidr.size()).collect()
    };
    for at in (1..offsets.len()).rev() {
        offsets.swap(at, (rng.next_u64() % (at as u64 + 1)) as usize);
    }
    offsets.truncate(OBJECTS);
    offsets
}

fn sorted(offsets: &[u64]) -> Vec<u64> {
    let mut sorted = offsets.to_vec();
    sorted.sort_unstable();
    sorted
}

fn audit(cidr: ServiceCidr, addresses: &[IpAddr]) -> usize {
    let mut audit = Audit::of_ip_addresses(None);
    audit.add_service_cidr(cidr, true).expect("an audit of IPAddress objects");
    for address in addresses {
        let name = address.to_string();
        let object = IpAddressObject {
            name: &name,
            managed_by: ALLOCATOR,
            parent_resource: "services",
            parent_namespace: "default",
            parent_name: &name,
            ..IpAddressObject::default()
        };
        audit.observe_ip_address(&object).expect("an audit of IPAddress objects");
        audit.observe(&Service { namespace: "default", name: &name, cluster_ip: &name, ..Service::default() });
    }
    audit.finish(Leaks::CleanAtOnce).findings.len()
}

/// The memory of the process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it names the memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn print_memory<T>(name: &str, make: impl FnOnce() -> T) {
    let before = resident();
    let made = black_box(make());
    println!("{name}: {} KiB", resident().saturating_sub(before));
    drop(made);
}

fn objects(c: &mut Criterion) {
    let mut group = c.benchmark_group("objects");
    group.sample_size(10);
    for prefix in ["fd00::/108", "fd00::/64"] {
        let cidr = prefix.parse::<ServiceCidr>().expect("a CIDR");
        let name = prefix.trim_start_matches("fd00::/");
        let offsets = offsets(&cidr);
        print_memory(&format!("{name}/list"), || sorted(&offsets));
        print_memory(&format!("{name}/roaring"), || offsets.iter().copied().collect::<RoaringTreemap>());

        group.bench_function(format!("{name}/list/build"), |b| b.iter(|| sorted(black_box(&offsets))));
        group.bench_function(format!("{name}/roaring/build"), |b| {
            b.iter(|| black_box(&offsets).iter().copied().collect::<RoaringTreemap>())
        });
        let list = sorted(&offsets);
        let compressed = RoaringTreemap::from_sorted_iter(list.iter().copied()).expect("they ascend");
        let cell = cidr.size() / CELLS;
        group.bench_function(format!("{name}/list/cells"), |b| {
            b.iter(|| {
                let below = |end: u64| list.partition_point(|at| *at < end) as u64;
                (0..CELLS).map(|at| below((at + 1) * cell) - below(at * cell)).sum::<u64>()
            })
        });
        group.bench_function(format!("{name}/roaring/cells"), |b| {
            b.iter(|| {
                let below = |end: u64| compressed.rank(end) - u64::from(compressed.contains(end));
                (0..CELLS).map(|at| below((at + 1) * cell) - below(at * cell)).sum::<u64>()
            })
        });
        let addresses: Vec<IpAddr> = offsets.iter().filter_map(|offset| cidr.value_at(*offset)).collect();
        // It takes seconds, too long for criterion's samples.
        let start = Instant::now();
        black_box(audit(cidr, &addresses));
        println!("{name}/audit: {:?}", start.elapsed());
    }
    group.finish();
}

criterion_group!(benches, objects);
criterion_main!(benches);
