//! The measured work, shared by the criterion benches and the comparison with the reference.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::{Allocator, CidrRange, PortRange, Range, Strategy};

/// An allocator with a random half of the values in use: the same values in every run.
pub fn half_full<R: Range>(range: R) -> (Allocator<R>, Xoshiro256PlusPlus) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut allocator = Allocator::new(range, Strategy::DynamicBandFirst);
    while allocator.used() < range.size() / 2 {
        let offset = (rng.next_u64() % u64::from(range.size())) as u32;
        if let Some(value) = range.value_at(offset) {
            // Fails if the value is in use; then another one is drawn.
            let _ = allocator.allocate(value);
        }
    }
    (allocator, rng)
}

/// An allocator in which only one value, in the middle, is free.
pub fn one_free<R: Range>(range: R) -> (Allocator<R>, Xoshiro256PlusPlus) {
    let mut allocator = Allocator::new(range, Strategy::DynamicBandFirst);
    for value in (0..range.size()).filter_map(|offset| range.value_at(offset)) {
        allocator.allocate(value).expect("each value is allocated once");
    }
    allocator.release(range.value_at(range.size() / 2).expect("the middle is in range"));
    (allocator, Xoshiro256PlusPlus::seed_from_u64(1))
}

/// The range of a large cluster: 1,048,574 addresses.
pub fn slash_12() -> CidrRange {
    "10.96.0.0/12".parse().expect("it is a CIDR")
}

/// The range of a medium cluster: 65,534 addresses.
pub fn slash_16() -> CidrRange {
    "10.96.0.0/16".parse().expect("it is a CIDR")
}

/// Kubernetes' default node ports: 2,768.
pub fn node_ports() -> PortRange {
    PortRange::new(30000, 32767).expect("it is in order")
}

/// The texts of `count` random addresses of a range.
pub fn cluster_ips(range: CidrRange, count: u32) -> Vec<String> {
    let mut offsets: Vec<u32> = (0..range.size()).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    for at in (1..offsets.len()).rev() {
        offsets.swap(at, (rng.next_u64() % (at as u64 + 1)) as usize);
    }
    offsets
        .iter()
        .take(count as usize)
        .filter_map(|offset| range.value_at(*offset))
        .map(|address| address.to_string())
        .collect()
}
