//! Measures the works of the comparison with the reference in Rust, and prints a JSON line `{"name", "ns"}` per work.
//!
//! `ns` is per operation. `memcpy/12/rust` copies as many bytes as `snapshot/12/rust`, and is its lower limit.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rangekeeper::allocator::Allocator;
use rangekeeper::range::Range;
use rangekeeper_bench::{half_full, node_ports, slash_12};

/// The time for which a work is measured.
const BUDGET: Duration = Duration::from_millis(300);

fn report(name: &str, batch: u64, mut work: impl FnMut()) {
    let start = Instant::now();
    let mut operations = 0;
    while start.elapsed() < BUDGET {
        for _ in 0..batch {
            work();
        }
        operations += batch;
    }
    let ns = start.elapsed().as_nanos() as f64 / operations as f64;
    println!("{}", serde_json::json!({"name": name, "ns": ns}));
}

fn allocate_next_release<R: Range>(name: &str, range: R) {
    let (mut allocator, mut rng) = half_full(range);
    report(name, 1000, || {
        let value = allocator.allocate_next(&mut rng).expect("half of the range is free");
        allocator.release(black_box(value));
    });
}

fn main() {
    allocate_next_release("allocate_next_release/12/half/rust", slash_12());
    allocate_next_release("nodeport/allocate_next_release/rust", node_ports());

    let (allocator, _) = half_full(slash_12());
    let mut buffer = vec![0; allocator.snapshot().len()];
    let copy = |allocator: &Allocator<_>, buffer: &mut Vec<u8>| {
        buffer.clear();
        buffer.extend_from_slice(allocator.snapshot());
    };
    report("snapshot/12/rust", 20, || copy(black_box(&allocator), black_box(&mut buffer)));
    let source = buffer.clone();
    report("memcpy/12/rust", 20, || black_box(&mut buffer).copy_from_slice(black_box(&source)));
}
