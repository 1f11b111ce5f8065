//! Allocation from a range, compared with a bit vector and a compressed bitmap, which search linearly.

use std::hint::black_box;

use bitvec::prelude::{BitVec, Lsb0};
use criterion::{Criterion, criterion_group, criterion_main};
use rand_core::Rng;
use rangekeeper::Range;
use rangekeeper_bench::{half_full, node_ports, one_free, slash_12, slash_16};
use roaring::RoaringBitmap;

fn pair<R: Range>(c: &mut Criterion, name: &str, range: R) {
    let (mut allocator, mut rng) = half_full(range);
    c.bench_function(name, |b| {
        b.iter(|| {
            let value = allocator.allocate_next(&mut rng).expect("half of the range is free");
            allocator.release(black_box(value))
        })
    });
}

fn allocate_next_release(c: &mut Criterion) {
    pair(c, "allocate_next_release/12/half", slash_12());
    pair(c, "allocate_next_release/16/half", slash_16());
    pair(c, "nodeport/allocate_next_release", node_ports());
    let (mut allocator, mut rng) = one_free(slash_12());
    c.bench_function("allocate_next_release/12/one_free", |b| {
        b.iter(|| {
            let value = allocator.allocate_next(&mut rng).expect("one is free");
            allocator.release(black_box(value))
        })
    });
}

fn rivals(c: &mut Criterion) {
    let (allocator, mut rng) = half_full(slash_12());
    let size = slash_12().size();
    let mut bits: BitVec<u64, Lsb0> = (0..size).map(|offset| allocator.bitmap().contains(offset)).collect();
    c.bench_function("allocate_next_release/12/half/bitvec", |b| {
        b.iter(|| {
            let start = (rng.next_u64() % u64::from(size)) as usize;
            let found = bits[start..].first_zero().map(|at| start + at).or_else(|| bits.first_zero());
            let found = found.expect("half of the range is free");
            bits.set(found, true);
            bits.set(black_box(found), false);
        })
    });
    c.bench_function("has/12/bitvec", |b| b.iter(|| bits[black_box(500_000)]));
    c.bench_function("for_each/12/half/bitvec", |b| b.iter(|| bits.iter_ones().map(black_box).count()));
    let mut compressed: RoaringBitmap = allocator.bitmap().iter().collect();
    c.bench_function("has/12/roaring", |b| b.iter(|| compressed.contains(black_box(500_000))));
    c.bench_function("for_each/12/half/roaring", |b| b.iter(|| compressed.iter().map(black_box).count()));
    c.bench_function("allocate_next_release/12/half/roaring", |b| {
        b.iter(|| {
            let start = (rng.next_u64() % u64::from(size)) as u32;
            let found = (start..size).chain(0..start).find(|offset| !compressed.contains(*offset));
            let found = found.expect("half of the range is free");
            compressed.insert(found);
            compressed.remove(black_box(found))
        })
    });
}

fn by_value(c: &mut Criterion) {
    let (mut allocator, _) = half_full(slash_12());
    let free = slash_12().value_at(allocator.bitmap().next_clear(500_000).expect("half is free")).expect("in range");
    c.bench_function("has/12", |b| b.iter(|| allocator.has(black_box(free))));
    c.bench_function("allocate_release/12", |b| {
        b.iter(|| {
            let taken = allocator.allocate(black_box(free)).is_ok();
            taken && allocator.release(black_box(free))
        })
    });
    c.bench_function("for_each/12/half", |b| b.iter(|| allocator.iter().map(black_box).count()));
}

criterion_group!(benches, allocate_next_release, rivals, by_value);
criterion_main!(benches);
