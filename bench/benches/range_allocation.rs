//! Encoding and decoding of the RangeAllocation object, beside a copy of the stored bytes.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper::range_allocation::Form;
use rangekeeper::{Range, RangeAllocation};
use rangekeeper_bench::{half_full, node_ports, slash_12, stored};

fn both(c: &mut Criterion, size: &str, range: impl Range) {
    let (allocator, _) = half_full(range);
    let text = range.to_string();
    for (name, form) in [("protobuf", Form::Protobuf), ("json", Form::Json)] {
        let object = RangeAllocation::new(form);
        let bytes = stored(&allocator, form);
        let mut buffer = bytes.clone();
        for operation in ["encode", "decode"] {
            let mut group = c.benchmark_group(format!("{operation}/{size}/{name}"));
            group.throughput(Throughput::Bytes(bytes.len() as u64));
            if operation == "encode" {
                group.bench_function("rangekeeper", |b| {
                    b.iter(|| object.encode_with(&text, allocator.snapshot(), black_box(&mut buffer)));
                });
            } else {
                group.bench_function("rangekeeper", |b| {
                    b.iter(|| RangeAllocation::decode(black_box(&bytes)));
                });
            }
            group.bench_function("memcpy", |b| b.iter(|| black_box(&mut buffer).copy_from_slice(black_box(&bytes))));
            group.finish();
        }
    }
}

fn range_allocation(c: &mut Criterion) {
    both(c, "12", slash_12());
    both(c, "node_ports", node_ports());
}

criterion_group!(benches, range_allocation);
criterion_main!(benches);
