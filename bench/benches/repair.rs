//! A repair pass over Services in memory. Its cost must depend on the number of Services, not on the size of the range.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper::Leaks;
use rangekeeper::any::AnyRange;
use rangekeeper::audit::{RepairCounters, Report};
use rangekeeper::leak::DEFAULT_PASSES;
use rangekeeper_bench::cluster::Cluster;
use rangekeeper_bench::{node_ports, scaled, slash_12, slash_16};

/// The diff of the only bitmap.
fn diff(report: &Report) -> (u32, u32) {
    let bitmap = report.bitmap(0).expect("a bitmap");
    (bitmap.set().count(), bitmap.clear().count())
}

fn repair(c: &mut Criterion, size: &str, range: impl Into<AnyRange> + Copy, services: u32) {
    let services = (scaled(services.into()) as u32).max(2000);
    let mut group = c.benchmark_group(format!("repair/{size}/{services}"));
    group.sample_size(20).throughput(Throughput::Elements(services.into()));
    let cluster = Cluster::new(range, services);
    group.bench_function("no drift", |b| b.iter(|| diff(&cluster.audit(Leaks::CleanAtOnce))));
    let cluster = Cluster::with_drift(range, services);
    group.bench_function("drift, leaks cleaned at once", |b| b.iter(|| diff(&cluster.audit(Leaks::CleanAtOnce))));
    let mut counters = RepairCounters::new(DEFAULT_PASSES);
    group.bench_function("drift, leaks counted", |b| b.iter(|| diff(&cluster.audit(Leaks::Keep(&mut counters)))));
    group.finish();
}

fn repairs(c: &mut Criterion) {
    repair(c, "12", slash_12(), 1_000_000);
    repair(c, "12", slash_12(), 65_000);
    repair(c, "16", slash_16(), 65_000);
    repair(c, "node_ports", node_ports(), 2_700);
}

/// The second look at all Services, which says whose a value is that two have. Its cost must grow with the Services,
/// not faster.
fn claimants(c: &mut Criterion) {
    let mut group = c.benchmark_group("claimants");
    group.sample_size(20);
    for services in [16_000, 64_000] {
        let cluster = Cluster::with_duplicates(slash_12(), services);
        let report = cluster.audit(Leaks::CleanAtOnce);
        group.throughput(Throughput::Elements(services.into()));
        group.bench_function(BenchmarkId::new("each address twice", services), |b| {
            b.iter_batched_ref(
                || report.clone(),
                |report| {
                    for service in cluster.services() {
                        report.observe_claimant(&service).expect("as many as before");
                    }
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, repairs, claimants);
criterion_main!(benches);
