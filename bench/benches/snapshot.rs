//! Writing and reading the stored bitmap and the object around it, beside a plain copy of the same bytes.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use rangekeeper::envelope::{Form, RangeAllocation};
use rangekeeper_bench::{half_full, slash_12};

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

fn envelope(c: &mut Criterion) {
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

criterion_group!(benches, snapshot, envelope);
criterion_main!(benches);
