//! Writing and reading the stored bitmap and the RangeAllocation object, compared with a copy of the same bytes.

use std::hint::black_box;

use bitvec::prelude::{BitVec, Lsb0};
use criterion::{Criterion, criterion_group, criterion_main};
use rangekeeper::range_allocation::Form;
use rangekeeper::{Range, RangeAllocation};
use rangekeeper_bench::{half_full, slash_12};
use roaring::RoaringBitmap;

fn snapshot(c: &mut Criterion) {
    let (mut allocator, _) = half_full(slash_12());
    let data = allocator.snapshot().to_vec();
    let mut buffer = Vec::with_capacity(data.len());
    c.bench_function("snapshot/12", |b| {
        b.iter(|| {
            buffer.clear();
            buffer.extend_from_slice(black_box(&allocator).snapshot());
            black_box(&buffer).len()
        })
    });
    let mut copy = data.clone();
    c.bench_function("memcpy/12", |b| b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&data))));
    c.bench_function("restore/12", |b| b.iter(|| allocator.restore("10.96.0.0/12", black_box(&data))));
}

/// The same bits in the stored forms of a bit vector (its words) and of Roaring (its portable format).
fn rivals(c: &mut Criterion) {
    let (allocator, _) = half_full(slash_12());
    let offsets: Vec<u32> = allocator.bitmap().iter().collect();
    let mut bits: BitVec<u64, Lsb0> = BitVec::repeat(false, slash_12().size() as usize);
    offsets.iter().for_each(|offset| bits.set(*offset as usize, true));
    let mut words = Vec::new();
    c.bench_function("snapshot/12/bitvec", |b| {
        b.iter(|| {
            words.clear();
            words.extend_from_slice(black_box(&bits).as_raw_slice());
        })
    });
    c.bench_function("restore/12/bitvec", |b| b.iter(|| BitVec::<u64, Lsb0>::from_slice(black_box(&words))));
    let compressed = RoaringBitmap::from_sorted_iter(offsets).expect("they ascend");
    let mut bytes = Vec::new();
    c.bench_function("snapshot/12/roaring", |b| {
        b.iter(|| {
            bytes.clear();
            black_box(&compressed).serialize_into(&mut bytes)
        })
    });
    c.bench_function("restore/12/roaring", |b| b.iter(|| RoaringBitmap::deserialize_from(black_box(&*bytes))));
}

fn range_allocation(c: &mut Criterion) {
    let (allocator, _) = half_full(slash_12());
    for (name, form) in [("protobuf", Form::Protobuf), ("json", Form::Json)] {
        let object = RangeAllocation::new(form);
        let mut stored = Vec::new();
        c.bench_function(&format!("encode/12/{name}"), |b| {
            b.iter(|| object.encode_with("10.96.0.0/12", allocator.snapshot(), black_box(&mut stored)))
        });
        c.bench_function(&format!("decode/12/{name}"), |b| b.iter(|| RangeAllocation::decode(black_box(&stored))));
    }
}

criterion_group!(benches, snapshot, rivals, range_allocation);
criterion_main!(benches);
