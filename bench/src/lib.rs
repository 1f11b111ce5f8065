//! The measured work, shared by the criterion benches, the instruction counts and the comparison with the reference.

pub mod cluster;
pub mod etcd;
mod memory;
pub mod rivals;

pub use memory::print_memory;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::range_allocation::Form;
use rangekeeper::{Allocator, CidrRange, PortRange, Range, RangeAllocation, Strategy};

/// The number of accesses after which a bench repeats them: too many for a processor to predict.
pub const ACCESSES: u32 = 4096;

/// How many values of a range are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// One in 1,024, at random places.
    NearlyEmpty,
    /// About half, at random places.
    Half,
    /// All but one in the middle.
    OneFree,
}

impl Fill {
    /// The name in benches.
    pub fn name(self) -> &'static str {
        match self {
            Self::NearlyEmpty => "nearly_empty",
            Self::Half => "half",
            Self::OneFree => "one_free",
        }
    }
}

/// A generator of random numbers that are the same in every run.
pub fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// A random number below `limit`, drawn as an allocator does.
pub fn below(limit: u32, rng: &mut impl Rng) -> u32 {
    ((u128::from(rng.next_u64()) * u128::from(limit)) >> 64) as u32
}

/// An allocator of which so many values are in use: the same values in every run, and for every type of range.
pub fn filled<R: Range>(range: R, strategy: Strategy, fill: Fill) -> Allocator<R> {
    let mut rng = generator(1);
    let mut allocator = Allocator::new(range, strategy);
    let mut snapshot = match fill {
        Fill::NearlyEmpty => {
            for value in some_values(range, range.size() / 1024, 1) {
                allocator.allocate(value).expect("they are distinct");
            }
            return allocator;
        }
        Fill::Half => vec![0; range.size() as usize / 8],
        Fill::OneFree => vec![0xff; range.size() as usize / 8],
    };
    if fill == Fill::Half {
        snapshot.as_chunks_mut().0.iter_mut().for_each(|bytes: &mut [u8; 8]| *bytes = rng.next_u64().to_be_bytes());
    }
    allocator.restore(&range.to_string(), &snapshot).expect("it has no bits past the range");
    if fill == Fill::OneFree {
        let rest = (range.size() / 8 * 8..range.size()).filter_map(|offset| range.value_at(offset));
        rest.for_each(|value| allocator.allocate(value).expect("it was not in the snapshot"));
        allocator.release(range.value_at(range.size() / 2).expect("the middle is in range"));
    }
    // The first count and the first search after a restore may take a pass over the bitmap.
    assert!(allocator.used() > 0);
    for _ in 0..1000 {
        let value = allocator.allocate_next(&mut rng).expect("one is free");
        allocator.release(value);
    }
    allocator
}

/// A half-full allocator as kube-apiserver has it, and a generator for its choices.
pub fn half_full<R: Range>(range: R) -> (Allocator<R>, Xoshiro256PlusPlus) {
    (filled(range, Strategy::DynamicBandFirst, Fill::Half), generator(1))
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

/// Distinct random offsets below `size`, at most `size`.
pub fn some_offsets(size: u32, count: u32, seed: u64) -> Vec<u32> {
    let mut rng = generator(seed);
    let mut offsets: Vec<u32> = (0..size).collect();
    let count = count.min(size);
    for at in 0..count {
        offsets.swap(at as usize, (at + below(size - at, &mut rng)) as usize);
    }
    offsets.truncate(count as usize);
    offsets
}

/// Distinct random values of a range, at most all.
pub fn some_values<R: Range>(range: R, count: u32, seed: u64) -> Vec<R::Value> {
    let offsets = some_offsets(range.size(), count, seed).into_iter();
    offsets.filter_map(|offset| range.value_at(offset)).collect()
}

/// A RangeAllocation as it is stored, with the values of an allocator.
pub fn stored<R: Range>(allocator: &Allocator<R>, form: Form) -> Vec<u8> {
    let mut stored = Vec::new();
    RangeAllocation::new(form).encode_with(&allocator.range().to_string(), allocator.snapshot(), &mut stored);
    stored
}

/// As many as a bench needs. Criterion's test mode, which only looks whether a bench works, takes a hundredth.
pub fn scaled(count: u64) -> u64 {
    if std::env::args().any(|argument| argument == "--test") { count / 100 } else { count }
}
