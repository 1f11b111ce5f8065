//! Seeded randomness for the tests.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A generator from a fixed seed, which is printed.
pub(crate) fn seeded(seed: u64) -> Xoshiro256PlusPlus {
    println!("seed {seed}");
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// A number in `0..limit`.
pub(crate) fn below(limit: u32, rng: &mut Xoshiro256PlusPlus) -> u32 {
    (rng.next_u64() % u64::from(limit)) as u32
}
