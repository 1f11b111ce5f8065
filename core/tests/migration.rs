//! The examples of docs/migration.md.

use std::collections::HashSet;
use std::error::Error;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::allocator::{Allocator, Strategy};
use rangekeeper::numbers::NumberRange;
use rangekeeper::ports::PortRange;

#[test]
fn from_a_bitmap() -> Result<(), Box<dyn Error>> {
    let stored = [0b101]; // big-endian, bit n is number n
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);

    let range = NumberRange::new(4096, 0).expect("a range without a static band");
    let mut ids = Allocator::new(range, Strategy::Contiguous);
    ids.restore(&range.to_string(), &stored)?;
    let next = ids.allocate_next(&mut rng)?;

    assert_eq!((next, ids.snapshot()), (1, &[0b111][..]));
    Ok(())
}

#[test]
fn from_a_hash_set() -> Result<(), Box<dyn Error>> {
    let ports_of_services = HashSet::from([30_080, 31_000]);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);

    let range: PortRange = "30000-32767".parse()?;
    let mut ports = Allocator::new(range, Strategy::DynamicBandFirst);
    for &port in &ports_of_services {
        ports.allocate(port)?; // an error names a port that two Services have
    }
    let next = ports.allocate_next(&mut rng)?;

    assert!(!ports_of_services.contains(&next) && (30_086..=32_767).contains(&next));
    assert_eq!(ports.used(), 3);
    Ok(())
}
