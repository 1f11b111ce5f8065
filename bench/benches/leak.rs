//! A pass of the leak counters.

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::leak::{DEFAULT_PASSES, LeakCounters};
use rangekeeper::{Range, Strategy};
use rangekeeper_bench::{Fill, filled, node_ports, slash_12, some_offsets};

/// A pass that sees these leaks in turn.
fn pass(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, leaks: &[Bitmap]) {
    let len = leaks[0].len();
    let mut counters = LeakCounters::new(len, DEFAULT_PASSES);
    let mut turn = leaks.iter().cycle();
    group.bench_function(name, |b| {
        b.iter_batched_ref(
            || turn.next().expect("it is endless").clone(),
            |leaked| counters.advance(leaked),
            BatchSize::LargeInput,
        );
    });
}

/// A restart of the counters of values that were not leaked without a break.
fn restart(group: &mut BenchmarkGroup<'_, WallTime>, leaked: &Bitmap) {
    let mut counters = LeakCounters::new(leaked.len(), DEFAULT_PASSES);
    counters.advance(&mut leaked.clone());
    let mut broken = Bitmap::new(leaked.len());
    some_offsets(leaked.len(), 100, 3).iter().for_each(|offset| _ = broken.insert(*offset));
    group.bench_function("restart of 100", |b| b.iter(|| counters.restart(&broken)));
}

fn leak_counters<R: Range>(c: &mut Criterion, size: &str, range: R) {
    let leaked = |fill| filled(range, Strategy::Contiguous, fill).bitmap().clone();
    let (few, half, mut other) = (leaked(Fill::NearlyEmpty), leaked(Fill::Half), leaked(Fill::OneFree));
    other.difference_with(&half);
    let mut group = c.benchmark_group(format!("leak_counters/{size}"));
    group.throughput(Throughput::Elements(range.size().into()));
    pass(&mut group, "no leak", &[Bitmap::new(range.size())]);
    pass(&mut group, "few leaks, the same", std::slice::from_ref(&few));
    pass(&mut group, "half leaked, the same", std::slice::from_ref(&half));
    pass(&mut group, "half leaked, others", &[half, other]);
    restart(&mut group, &few);
    group.finish();
}

fn leak(c: &mut Criterion) {
    leak_counters(c, "12", slash_12());
    leak_counters(c, "node_ports", node_ports());
}

criterion_group!(benches, leak);
criterion_main!(benches);
