//! The index of IPAddress objects with a million addresses and nearly full, beside a roaring treemap.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::index::{Index, Pool};
use rangekeeper::service_cidr::ServiceCidr;
use roaring::RoaringTreemap;

const MILLION: u64 = 1_000_000;
const UNTIL: Duration = Duration::from_secs(60);

/// An index of one CIDR with so many addresses at random places, all observed at revision 1. In the wide one they are as
/// far from each other as those that other allocators have chosen.
fn filled(cidr: &str, count: u64) -> (Index, ServiceCidr, Vec<IpAddr>) {
    let cidr = cidr.parse::<ServiceCidr>().expect("a CIDR");
    let mut index = Index::new(7);
    index.insert_cidr(cidr);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
    let mut addresses = Vec::new();
    for _ in 0..count {
        if cidr.size() > 1 << 32 {
            let address = cidr.value_at(rng.next_u64() % cidr.size()).expect("an address");
            index.added(address, 1);
            addresses.push(address);
            continue;
        }
        let reservation = index.reserve(Pool::Among(&[cidr]), UNTIL, &mut rng).expect("a free address");
        index.confirm(reservation, 1);
        index.added(reservation.address, 1);
        addresses.push(reservation.address);
    }
    (index, cidr, addresses)
}

fn index(criterion: &mut Criterion) {
    let cases = [
        ("10.0.0.0/8", MILLION),
        ("fd00::/64", MILLION),
        ("10.0.0.0/16 of which 99.9 % are taken", (1 << 16) / 1000 * 999),
        ("10.0.0.0/12 of which 99.9 % are taken", (1 << 20) / 1000 * 999),
        ("10.0.0.0/8 of which 99.9 % are taken", (1 << 24) / 1000 * 999),
    ];
    for (name, count) in cases {
        let cidr = name.split(' ').next().expect("a CIDR");
        let (mut index, cidr, addresses) = filled(cidr, count);
        let mut group = criterion.benchmark_group(format!("index/{name}"));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(43);
        let mut revision = 1;
        group.bench_function("reserve, confirm, remove", |bencher| {
            bencher.iter(|| {
                let reservation = index.reserve(Pool::Among(&[cidr]), UNTIL, &mut rng).expect("a free address");
                revision += 1;
                index.confirm(reservation, revision);
                revision += 1;
                index.removed(reservation.address, revision);
            });
        });
        group.bench_function("counts", |bencher| bencher.iter(|| index.usage(black_box(cidr))));
        group.sample_size(10).bench_function("list", |bencher| {
            bencher.iter(|| index.replace(addresses.iter().copied(), revision));
        });
        group.finish();
    }
}

/// What the sets for wide CIDRs would cost otherwise.
fn roaring(criterion: &mut Criterion) {
    let (_, cidr, addresses) = filled("fd00::/64", MILLION);
    let mut set: RoaringTreemap = addresses.iter().filter_map(|address| cidr.offset_of(*address)).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(43);
    criterion.bench_function("roaring/fd00::/64/insert, remove", |bencher| {
        bencher.iter(|| {
            let offset = rng.next_u64();
            set.insert(offset);
            set.remove(offset)
        });
    });
}

criterion_group!(benches, index, roaring);
criterion_main!(benches);
