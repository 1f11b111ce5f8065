//! The index of IPAddress objects with a million addresses and nearly full, beside a compressed bitmap of 64-bit
//! offsets, which neither chooses an address nor remembers a reservation.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand_core::Rng;
use rangekeeper::index::Index;
use rangekeeper::service_cidr::ServiceCidr;
use rangekeeper_bench::{generator, scaled};
use roaring::RoaringTreemap;

const UNTIL: Duration = Duration::from_secs(60);

/// An index of one CIDR with so many addresses at random places, all observed at revision 1. In the wide one they are
/// as far from each other as those that other allocators have chosen.
fn filled(cidr: ServiceCidr, count: u64) -> (Index, Vec<IpAddr>) {
    let mut index = Index::new(7);
    index.insert_cidr(cidr);
    let mut rng = generator(42);
    let mut addresses = Vec::new();
    for _ in 0..count {
        if cidr.size() > 1 << 32 {
            let address = cidr.value_at(rng.next_u64() % cidr.size()).expect("an address");
            index.added(address, 1);
            addresses.push(address);
            continue;
        }
        let reservation = index.reserve(&[cidr], UNTIL, &mut rng).expect("a free address");
        index.confirm(reservation, 1);
        index.added(reservation.address, 1);
        addresses.push(reservation.address);
    }
    (index, addresses)
}

fn case(c: &mut Criterion, name: &str, cidr: ServiceCidr, count: u64) {
    let (mut index, addresses) = filled(cidr, count);
    let mut revision = 1;

    let mut group = c.benchmark_group(format!("index/reserve_confirm_remove/{name}"));
    let mut rng = generator(43);
    group.bench_function("rangekeeper", |b| {
        b.iter(|| {
            let reservation = index.reserve(&[cidr], UNTIL, &mut rng).expect("a free address");
            revision += 1;
            index.confirm(reservation, revision);
            revision += 1;
            index.removed(reservation.address, revision);
        });
    });
    let mut set: RoaringTreemap = addresses.iter().filter_map(|address| cidr.offset_of(*address)).collect();
    group.bench_function("roaring insert and remove", |b| {
        b.iter(|| {
            let offset = rng.next_u64() % cidr.size();
            (set.insert(offset), set.remove(offset))
        });
    });
    group.finish();

    c.bench_function(&format!("index/usage/{name}"), |b| b.iter(|| index.usage(black_box(cidr))));

    let mut group = c.benchmark_group(format!("index/list/{name}"));
    group.sample_size(10).throughput(Throughput::Elements(addresses.len() as u64));
    group.bench_function("rangekeeper", |b| b.iter(|| index.replace(addresses.iter().copied(), revision)));
    group.finish();
}

fn index(c: &mut Criterion) {
    let parse = |text: &str| text.parse::<ServiceCidr>().expect("a CIDR");
    case(c, "8/million", parse("10.0.0.0/8"), scaled(1_000_000));
    case(c, "64/million", parse("fd00::/64"), scaled(1_000_000));
    for prefix in ["16", "12", "8"] {
        let cidr = parse(&format!("10.0.0.0/{prefix}"));
        case(c, &format!("{prefix}/99.9%"), cidr, scaled(cidr.size() / 1000 * 999));
    }
}

criterion_group!(benches, index);
criterion_main!(benches);
