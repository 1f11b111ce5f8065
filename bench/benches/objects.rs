//! The audit of IPAddress objects, and the sets of offsets in its report: sorted lists, beside compressed bitmaps of
//! 64-bit offsets.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand_core::Rng;
use rangekeeper::service_cidr::ServiceCidr;
use rangekeeper_bench::cluster::Objects;
use rangekeeper_bench::{generator, print_memory, scaled, some_offsets};
use roaring::RoaringTreemap;

/// The cells of an occupancy map.
const CELLS: u64 = 4096;

/// Random offsets, unordered.
fn offsets(cidr: &ServiceCidr, count: u64) -> Vec<u64> {
    if let Ok(size) = u32::try_from(cidr.size()) {
        return some_offsets(size, count as u32, 1).into_iter().map(u64::from).collect();
    }
    let mut rng = generator(1);
    (0..count).map(|_| rng.next_u64() % cidr.size()).collect()
}

fn sorted(offsets: &[u64]) -> Vec<u64> {
    let mut sorted = offsets.to_vec();
    sorted.sort_unstable();
    sorted
}

fn sets(c: &mut Criterion, name: &str, cidr: ServiceCidr) {
    let offsets = offsets(&cidr, scaled(1_000_000));
    print_memory(&format!("objects/{name}/list"), || sorted(&offsets));
    print_memory(&format!("objects/{name}/roaring"), || offsets.iter().copied().collect::<RoaringTreemap>());

    let mut group = c.benchmark_group(format!("objects/build/{name}"));
    group.sample_size(10).throughput(Throughput::Elements(offsets.len() as u64));
    group.bench_function("list", |b| b.iter_with_large_drop(|| sorted(black_box(&offsets))));
    group.bench_function("roaring", |b| {
        b.iter_with_large_drop(|| black_box(&offsets).iter().copied().collect::<RoaringTreemap>());
    });
    group.finish();

    let list = sorted(&offsets);
    let compressed: RoaringTreemap = list.iter().copied().collect();
    let cell = cidr.size() / CELLS;
    let count =
        |below: &dyn Fn(u64) -> u64| (0..CELLS).map(|at| below((at + 1) * cell) - below(at * cell)).sum::<u64>();
    let mut group = c.benchmark_group(format!("objects/cells/{name}"));
    group.sample_size(10).throughput(Throughput::Elements(CELLS));
    group.bench_function("list", |b| b.iter(|| count(&|end| list.partition_point(|at| *at < end) as u64)));
    group.bench_function("roaring", |b| {
        b.iter(|| count(&|end| compressed.rank(end) - u64::from(compressed.contains(end))));
    });
    group.finish();
}

fn audit(c: &mut Criterion, name: &str, cidr: ServiceCidr) {
    let offsets = offsets(&cidr, scaled(100_000));
    let addresses: Vec<IpAddr> = offsets.iter().filter_map(|offset| cidr.value_at(*offset)).collect();
    let mut group = c.benchmark_group(format!("objects/audit/{name}"));
    group.sample_size(10).throughput(Throughput::Elements(addresses.len() as u64));
    let cluster = Objects::new(cidr, &addresses);
    group.bench_function("no drift", |b| b.iter_with_large_drop(|| cluster.audit()));
    let cluster = Objects::with_drift(cidr, &addresses);
    group.bench_function("drift", |b| b.iter_with_large_drop(|| cluster.audit()));
    group.finish();
}

fn objects(c: &mut Criterion) {
    for name in ["108", "64"] {
        let cidr = format!("fd00::/{name}").parse::<ServiceCidr>().expect("a CIDR");
        sets(c, name, cidr);
        audit(c, name, cidr);
    }
}

criterion_group!(benches, objects);
criterion_main!(benches);
