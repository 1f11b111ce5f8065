//! The ledger: runs in a nearly full /16, integers of 2^64 with a million in use beside a compressed bitmap and a
//! sorted list of them, and what a ledger with owners costs to open and to encode.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use rand_core::Rng;
use rangekeeper::ledger::{Choice, Ledger, LedgerValue, Pool, Want};
use rangekeeper_bench::{generator, print_memory, scaled};
use roaring::RoaringTreemap;

const NOW: Duration = Duration::ZERO;

fn pool(range: &str, choice: Choice) -> Pool {
    Pool::new(range.parse().expect("a range"), choice)
}

/// A /16 of which 99% is in use at random places, and the last free run of 16 begins at its offset 65,000.
fn nearly_full() -> Ledger {
    let mut ledger = Ledger::new(pool("10.0.0.0/16", Choice::Lowest), 1);
    let range = ledger.pool().range();
    let mut rng = generator(1);
    for offset in 0..=range.last() {
        if !(65_000..65_016).contains(&offset)
            && (!rng.next_u64().is_multiple_of(100) || (64_900..65_100).contains(&offset))
        {
            let value = range.value_at(offset).expect("a value");
            ledger.allocate(Want::Value(value), None, NOW, &mut rng).expect("free");
        }
    }
    ledger
}

fn runs(c: &mut Criterion) {
    let mut ledger = nearly_full();
    let mut rng = generator(2);
    let mut group = c.benchmark_group("ledger/run in a /16 at 99%");
    for len in [8, 16] {
        group.bench_function(format!("allocate {len} and release them"), |b| {
            b.iter(|| {
                ledger.allocate(Want::Run(len), Some("owner"), NOW, &mut rng).expect("free");
                ledger.release_owner("owner", NOW)
            });
        });
    }
    group.bench_function("find no 17", |b| {
        b.iter(|| ledger.allocate(Want::Run(17), None, NOW, &mut rng).expect_err("full"));
    });
    group.bench_function("find no aligned 16", |b| {
        b.iter(|| ledger.allocate(Want::Block(4), None, NOW, &mut rng).expect_err("full"));
    });
    group.finish();
}

fn integers(c: &mut Criterion) {
    let count = scaled(1_000_000);
    let mut group = c.benchmark_group(format!("ledger/next integer of 2^64 with {count} in use, and release"));
    for (name, choice) in [("random", Choice::Random), ("next fit", Choice::NextFit), ("lowest", Choice::Lowest)] {
        let filled = || {
            let mut ledger = Ledger::new(pool("0-18446744073709551615", choice), 1);
            let mut rng = generator(3);
            for _ in 0..count {
                ledger.allocate(Want::Any, None, NOW, &mut rng).expect("free");
            }
            ledger
        };
        print_memory(&format!("ledger/{name}"), filled);
        let (mut ledger, mut rng) = (filled(), generator(4));
        group.bench_function(name, |b| {
            b.iter(|| {
                let given = ledger.allocate(Want::Any, None, NOW, &mut rng).expect("free");
                ledger.release(given.first, NOW)
            });
        });
    }

    let mut rng = generator(3);
    let numbers: Vec<u64> = (0..count).map(|_| rng.next_u64()).collect();
    print_memory("ledger/roaring", || numbers.iter().copied().collect::<RoaringTreemap>());
    let mut treemap: RoaringTreemap = numbers.iter().copied().collect();
    group.bench_function("roaring, random", |b| {
        b.iter(|| {
            let number = rng.next_u64();
            (treemap.insert(number), treemap.remove(number))
        });
    });
    let mut list = numbers;
    list.sort_unstable();
    group.bench_function("sorted list, random", |b| {
        b.iter(|| {
            let at = list.partition_point(|number| *number < rng.next_u64());
            list.insert(at, 0);
            list.remove(at)
        });
    });
    group.finish();
}

fn stored(c: &mut Criterion) {
    let count = scaled(100_000);
    let mut group = c.benchmark_group(format!("ledger/{count} owners"));
    group.sample_size(10);
    for (name, range) in [("bitmap", "0-999999"), ("wide", "0-18446744073709551615")] {
        let mut ledger = Ledger::new(pool(range, Choice::Random), 1);
        let mut rng = generator(5);
        for owner in 0..count {
            ledger.allocate(Want::Any, Some(&format!("namespace/owner-{owner}")), NOW, &mut rng).expect("free");
        }
        group.bench_function(format!("encode, {name}"), |b| b.iter_with_large_drop(|| black_box(&ledger).encode()));
        let stored = ledger.encode();
        println!("ledger/{count} owners, {name}: {} bytes are stored", stored.len());
        group.bench_function(format!("open, {name}"), |b| {
            b.iter_with_large_drop(|| Ledger::open(pool(range, Choice::Random), &stored, 1).expect("what was encoded"));
        });
        group.bench_function(format!("allocate and release, {name}"), |b| {
            b.iter(|| {
                ledger.allocate(Want::Any, Some("namespace/another"), NOW, &mut rng).expect("free");
                ledger.release_owner("namespace/another", NOW)
            });
        });
        let value = LedgerValue::Integer(7);
        group.bench_function(format!("owner of, {name}"), |b| b.iter(|| ledger.owner_of(black_box(value)).is_some()));
    }
    group.finish();
}

criterion_group!(benches, runs, integers, stored);
criterion_main!(benches);
