//! Allocation in memory, beside a bit vector and a compressed bitmap.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper::allocator::Request;
use rangekeeper::any::AnyRange;
use rangekeeper::bitmap::Bitmap;
use rangekeeper::{Range, Strategy};
use rangekeeper_bench::rivals::{BitVector, Rival, Roaring};
use rangekeeper_bench::{
    ACCESSES, Fill, below, filled, generator, node_ports, slash_12, slash_16, some_offsets, some_values,
};

/// The requests of one batch.
const BATCH: usize = 64;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn allocate_next_release_ours<R: Range>(group: &mut Group<'_>, name: &str, range: R, fill: Fill) {
    let (mut allocator, mut rng) = (filled(range, Strategy::RandomScan, fill), generator(3));
    group.bench_function(name, |b| {
        b.iter(|| {
            let value = allocator.allocate_next(&mut rng).expect("one is free");
            allocator.release(black_box(value))
        });
    });
}

fn allocate_next_release_rival<S: Rival>(group: &mut Group<'_>, range: impl Range, fill: Fill) {
    let mut set = S::new(filled(range, Strategy::RandomScan, fill).bitmap());
    let mut rng = generator(3);
    group.bench_function(S::NAME, |b| {
        b.iter(|| {
            let offset = set.allocate_next(below(range.size(), &mut rng));
            set.release(black_box(offset))
        });
    });
}

fn allocate_next_release<R: Range + Into<AnyRange>>(c: &mut Criterion, size: &str, range: R, fills: &[Fill]) {
    for fill in fills {
        let mut group = c.benchmark_group(format!("allocate_next_release/{size}/{}", fill.name()));
        allocate_next_release_ours(&mut group, "rangekeeper", range, *fill);
        allocate_next_release_ours::<AnyRange>(&mut group, "rangekeeper AnyRange", range.into(), *fill);
        allocate_next_release_rival::<BitVector>(&mut group, range, *fill);
        allocate_next_release_rival::<Roaring>(&mut group, range, *fill);
        group.finish();
    }
}

/// Does the work with one value after the other.
fn walk<V: Copy, T>(group: &mut Group<'_>, name: &str, values: &[V], mut work: impl FnMut(V) -> T) {
    let mut values = values.iter().copied().cycle();
    group.bench_function(name, |b| b.iter(|| work(values.next().expect("it is endless"))));
}

fn by_value<R: Range + Into<AnyRange>>(c: &mut Criterion, size: &str, range: R) {
    let mut ours = filled(range, Strategy::RandomScan, Fill::Half);
    let mut any = filled::<AnyRange>(range.into(), Strategy::RandomScan, Fill::Half);
    let (mut bits, mut roaring) = (BitVector::new(ours.bitmap()), Roaring::new(ours.bitmap()));
    let offsets = some_offsets(range.size(), ACCESSES, 3);
    let values = some_values(range, ACCESSES, 3);
    let any_values = some_values::<AnyRange>(range.into(), ACCESSES, 3);

    let mut group = c.benchmark_group(format!("has/{size}/half"));
    walk(&mut group, "rangekeeper", &values, |value| ours.has(value));
    walk(&mut group, "rangekeeper AnyRange", &any_values, |value| any.has(value));
    walk(&mut group, BitVector::NAME, &offsets, |offset| bits.has(offset));
    walk(&mut group, Roaring::NAME, &offsets, |offset| roaring.has(offset));
    group.finish();

    let mut group = c.benchmark_group(format!("for_each/{size}/half"));
    group.throughput(Throughput::Elements(ours.used().into()));
    group.bench_function("rangekeeper", |b| b.iter(|| ours.iter().for_each(|value| _ = black_box(value))));
    group.bench_function("rangekeeper AnyRange", |b| b.iter(|| any.iter().for_each(|value| _ = black_box(value))));
    group.bench_function(BitVector::NAME, |b| b.iter(|| bits.for_each(|offset| _ = black_box(offset))));
    group.bench_function(Roaring::NAME, |b| b.iter(|| roaring.for_each(|offset| _ = black_box(offset))));
    group.finish();

    let mut group = c.benchmark_group(format!("release_allocate/{size}/half"));
    walk(&mut group, "rangekeeper", &values, |value| (ours.release(value), ours.allocate(value).is_ok()));
    walk(&mut group, "rangekeeper AnyRange", &any_values, |value| (any.release(value), any.allocate(value).is_ok()));
    walk(&mut group, BitVector::NAME, &offsets, |offset| (bits.release(offset), bits.allocate(offset)));
    walk(&mut group, Roaring::NAME, &offsets, |offset| (roaring.release(offset), roaring.allocate(offset)));
    group.finish();
}

fn allocate_batch_ours<R: Range>(group: &mut Group<'_>, name: &str, range: R) {
    let (mut allocator, mut rng) = (filled(range, Strategy::RandomScan, Fill::Half), generator(3));
    let requests = [Request::Any; BATCH];
    group.bench_function(name, |b| {
        b.iter(|| {
            let values = allocator.allocate_batch(black_box(&requests), &mut rng).expect("half of the range is free");
            values.iter().filter(|value| allocator.release(**value)).count()
        });
    });
}

fn allocate_batch<R: Range + Into<AnyRange>>(c: &mut Criterion, size: &str, range: R) {
    let mut group = c.benchmark_group(format!("allocate_batch_release/{size}/half/{BATCH}"));
    group.throughput(Throughput::Elements(BATCH as u64));
    allocate_batch_ours(&mut group, "rangekeeper", range);
    allocate_batch_ours::<AnyRange>(&mut group, "rangekeeper AnyRange", range.into());
    group.finish();
}

fn dry_run_rival<S: Rival>(group: &mut Group<'_>, used: &Bitmap) {
    let set = S::new(used);
    group.bench_function(S::NAME, |b| b.iter(|| black_box(&set).clone()));
}

fn dry_run(c: &mut Criterion, size: &str, range: impl Range) {
    let allocator = filled(range, Strategy::RandomScan, Fill::Half);
    let bytes = allocator.snapshot().to_vec();
    let mut group = c.benchmark_group(format!("dry_run/{size}/half"));
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("rangekeeper", |b| b.iter(|| black_box(&allocator).dry_run()));
    dry_run_rival::<BitVector>(&mut group, allocator.bitmap());
    dry_run_rival::<Roaring>(&mut group, allocator.bitmap());
    group.bench_function("memcpy", |b| b.iter(|| black_box(&bytes).clone()));
    group.finish();
}

fn allocator(c: &mut Criterion) {
    let all = [Fill::NearlyEmpty, Fill::Half, Fill::OneFree];
    allocate_next_release(c, "12", slash_12(), &all);
    allocate_next_release(c, "16", slash_16(), &[Fill::Half]);
    allocate_next_release(c, "node_ports", node_ports(), &all);
    by_value(c, "12", slash_12());
    by_value(c, "node_ports", node_ports());
    allocate_batch(c, "12", slash_12());
    allocate_batch(c, "node_ports", node_ports());
    dry_run(c, "12", slash_12());
    dry_run(c, "node_ports", node_ports());
}

criterion_group!(benches, allocator);
criterion_main!(benches);
