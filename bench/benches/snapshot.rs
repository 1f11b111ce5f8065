//! The stored form of a bitmap: writing it, reading it, and what has changed between two. Beside a bit vector, a
//! compressed bitmap, and a copy of the same bytes.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::{Allocator, Range, Strategy};
use rangekeeper_bench::rivals::{BitVector, Rival, Roaring};
use rangekeeper_bench::{Fill, filled, node_ports, slash_12, some_values};

/// So many values in use become free, or free ones used, between two snapshots.
const CHANGES: u32 = 100;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn memcpy(group: &mut Group<'_>, data: &[u8]) {
    let mut copy = data.to_vec();
    group.bench_function("memcpy", |b| b.iter(|| black_box(&mut copy).copy_from_slice(black_box(data))));
}

fn snapshot_rival<S: Rival>(group: &mut Group<'_>, used: &Bitmap) {
    let (set, mut stored) = (S::new(used), S::Stored::default());
    group.bench_function(S::NAME, |b| b.iter(|| black_box(&set).snapshot(black_box(&mut stored))));
}

fn snapshot(mut group: Group<'_>, allocator: &Allocator<impl Range>) {
    group.throughput(Throughput::Bytes(allocator.snapshot().len() as u64));
    let mut buffer = Vec::new();
    group.bench_function("rangekeeper", |b| {
        b.iter(|| {
            let buffer = black_box(&mut buffer);
            buffer.clear();
            buffer.extend_from_slice(black_box(allocator).snapshot());
        });
    });
    snapshot_rival::<BitVector>(&mut group, allocator.bitmap());
    snapshot_rival::<Roaring>(&mut group, allocator.bitmap());
    memcpy(&mut group, allocator.snapshot());
    group.finish();
}

fn restore_rival<S: Rival>(group: &mut Group<'_>, used: &Bitmap) {
    let mut stored = S::Stored::default();
    S::new(used).snapshot(&mut stored);
    group.bench_function(S::NAME, |b| b.iter(|| S::restore(black_box(&stored))));
}

fn restore<R: Range>(mut group: Group<'_>, allocator: &Allocator<R>) {
    group.throughput(Throughput::Bytes(allocator.snapshot().len() as u64));
    let (range, data) = (allocator.range().to_string(), allocator.snapshot());
    let mut restored = allocator.clone();
    group.bench_function("rangekeeper", |b| b.iter(|| restored.restore(&range, black_box(data))));
    restore_rival::<BitVector>(&mut group, allocator.bitmap());
    restore_rival::<Roaring>(&mut group, allocator.bitmap());
    memcpy(&mut group, data);
    group.finish();
}

fn changes_rival<S: Rival>(group: &mut Group<'_>, before: &Bitmap, after: &Bitmap) {
    let stored = [before, after].map(|used| {
        let mut stored = S::Stored::default();
        S::new(used).snapshot(&mut stored);
        stored
    });
    group.bench_function(S::NAME, |b| {
        b.iter(|| {
            let [before, after] = black_box(&stored).each_ref().map(S::restore);
            before.changes(&after)
        });
    });
}

fn changes<R: Range>(mut group: Group<'_>, before: &Allocator<R>, after: &Allocator<R>) {
    group.throughput(Throughput::Bytes((before.snapshot().len() + after.snapshot().len()) as u64));
    let (range, stored) = (before.range(), [before.snapshot(), after.snapshot()]);
    group.bench_function("rangekeeper", |b| {
        b.iter(|| {
            let [before, after] = *black_box(&stored);
            rangekeeper::snapshot::changes(range, before, after)
        });
    });
    changes_rival::<BitVector>(&mut group, before.bitmap(), after.bitmap());
    changes_rival::<Roaring>(&mut group, before.bitmap(), after.bitmap());
    group.finish();
}

fn all<R: Range>(c: &mut Criterion, size: &str, range: R) {
    for fill in [Fill::NearlyEmpty, Fill::Half] {
        let before = filled(range, Strategy::Contiguous, fill);
        let mut after = before.clone();
        for value in some_values(range, CHANGES, 3) {
            if !after.release(value) {
                after.allocate(value).expect("it is free");
            }
        }
        let name = |operation: &str| format!("{operation}/{size}/{}", fill.name());
        snapshot(c.benchmark_group(name("snapshot")), &before);
        restore(c.benchmark_group(name("restore")), &before);
        changes(c.benchmark_group(name("changes")), &before, &after);
    }
}

fn snapshots(c: &mut Criterion) {
    all(c, "12", slash_12());
    all(c, "node_ports", node_ports());
}

criterion_group!(benches, snapshots);
criterion_main!(benches);
