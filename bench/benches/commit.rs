//! The committer, with a store in memory that answers at once: all work of a server but that of etcd and the network.
//! Beside a copy of the object, of which each write makes at least one.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper::any::AnyRange;
use rangekeeper::range_allocation::Form;
use rangekeeper::{Range, Strategy};
use rangekeeper_bench::etcd::{Server, Store};
use rangekeeper_bench::{Fill, filled, node_ports, slash_12, stored};

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn allocate_release<R: Range>(group: &mut Group<'_>, name: &str, range: R, at_once: usize) {
    let mut store = Store::new(&filled(range, Strategy::RandomScan, Fill::Half));
    let mut server = Server::new(range, 3, &mut store);
    group.bench_function(name, |b| {
        b.iter(|| {
            let releases = server.allocate(&mut store, at_once);
            server.release(&mut store, releases);
        });
    });
}

/// Another server has written the key, so that the first swap loses, and the allocation is evaluated again.
fn rebase<R: Range>(group: &mut Group<'_>, name: &str, range: R) {
    let allocator = filled(range, Strategy::RandomScan, Fill::NearlyEmpty);
    let start = || {
        let mut store = Store::new(&allocator);
        let mut servers = [3, 4].map(|seed| Server::new(range, seed, &mut store));
        servers[1].allocate(&mut store, 1);
        (store, servers)
    };
    group.bench_function(name, |b| {
        b.iter_batched_ref(start, |(store, servers)| servers[0].allocate(store, 1), BatchSize::LargeInput);
    });
}

fn all<R: Range + Into<AnyRange>>(c: &mut Criterion, size: &str, range: R) {
    let value = stored(&filled(range, Strategy::RandomScan, Fill::Half), Form::Protobuf);
    let mut copy = value.clone();
    let mut memcpy = |group: &mut Group<'_>| {
        group.bench_function("memcpy", |b| b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&value))));
    };
    for at_once in [1, 64] {
        let mut group = c.benchmark_group(format!("commit/allocate_release/{size}/{at_once}_at_once"));
        group.throughput(Throughput::Elements(at_once as u64));
        allocate_release(&mut group, "rangekeeper", range, at_once);
        allocate_release::<AnyRange>(&mut group, "rangekeeper AnyRange", range.into(), at_once);
        memcpy(&mut group);
        group.finish();
    }
    let mut group = c.benchmark_group(format!("commit/allocate_after_conflict/{size}"));
    rebase(&mut group, "rangekeeper", range);
    rebase::<AnyRange>(&mut group, "rangekeeper AnyRange", range.into());
    memcpy(&mut group);
    group.finish();
}

fn commit(c: &mut Criterion) {
    all(c, "12", slash_12());
    all(c, "node_ports", node_ports());
}

criterion_group!(benches, commit);
criterion_main!(benches);
