//! A repair pass over Services in memory. Its cost must depend on the number of Services, not on the size of the range.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper::{Allocator, Audit, CidrRange, Leaks, Service, Stored, Strategy};
use rangekeeper_bench::{cluster_ips, slash_12};

fn stored(range: CidrRange, addresses: &[String]) -> Allocator<CidrRange> {
    let mut allocator = Allocator::new(range, Strategy::Contiguous);
    for address in addresses {
        allocator.allocate(address.parse().expect("an address")).expect("each address comes once");
    }
    allocator
}

fn pass(range: CidrRange, stored: &Allocator<CidrRange>, addresses: &[String]) -> usize {
    let mut pass = Audit::new();
    pass.add_cluster_ips(range, Stored { range: "", data: stored.snapshot() }).expect("the snapshot fits");
    for address in addresses {
        pass.observe(&Service { cluster_ip: address, ..Service::default() });
    }
    pass.finish(Leaks::CleanAtOnce).findings.len()
}

fn repair(c: &mut Criterion) {
    let mut group = c.benchmark_group("repair");
    group.sample_size(20);
    for count in [65_000, 1_000_000] {
        let addresses = cluster_ips(slash_12(), count);
        let stored = stored(slash_12(), &addresses);
        group.bench_function(BenchmarkId::new("12", count), |b| b.iter(|| pass(slash_12(), &stored, &addresses)));
    }
    let sixteen: CidrRange = "10.96.0.0/16".parse().expect("it is a CIDR");
    let addresses = cluster_ips(sixteen, 65_000);
    let stored = stored(sixteen, &addresses);
    group.bench_function(BenchmarkId::new("16", 65_000), |b| b.iter(|| pass(sixteen, &stored, &addresses)));
    group.finish();
}

/// The second look at all Services, which says whose a value is that two have. Its cost must grow with the Services, not faster.
fn claimants(c: &mut Criterion) {
    let mut group = c.benchmark_group("claimants");
    group.sample_size(20);
    for count in [16_000, 64_000] {
        let addresses = cluster_ips(slash_12(), count / 2);
        let twice: Vec<_> = addresses.iter().chain(&addresses).map(String::as_str).collect();
        let mut audit = Audit::new();
        audit.add_cluster_ips(slash_12(), Stored::default()).expect("nothing is stored");
        twice.iter().for_each(|address| audit.observe(&Service { cluster_ip: address, ..Service::default() }));
        let report = audit.finish(Leaks::CleanAtOnce);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("each address twice", count), |b| {
            b.iter_batched_ref(
                || report.clone(),
                |report| {
                    for address in &twice {
                        let service = Service { cluster_ip: address, ..Service::default() };
                        report.observe_claimant(&service).expect("as many as before");
                    }
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, repair, claimants);
criterion_main!(benches);
