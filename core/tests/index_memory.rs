//! The memory of an index follows the addresses that are taken. A process of its own: its resident memory is measured.
#![cfg(target_os = "linux")]

use std::net::IpAddr;
use std::time::Duration;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::index::Index;
use rangekeeper::service_cidr::ServiceCidr;

const MILLION: u64 = 1_000_000;

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel writes it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_million_addresses_of_a_64_bit_subnet_take_4_mebibytes_until_they_are_removed() {
    let cidr = "fd00::/64".parse::<ServiceCidr>().expect("a CIDR");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    let mut index = Index::new(1);
    index.insert_cidr(cidr);
    // Enough for all of them, so that only the index counts.
    let mut addresses = vec![IpAddr::from([255; 16]); MILLION as usize];
    let mut late = vec![IpAddr::from([255; 16]); MILLION as usize / 10];
    let before = resident();

    for address in &mut addresses {
        let reservation = index.reserve(&[cidr], Duration::MAX, &mut rng).expect("a free address");
        index.confirm(reservation, 1);
        index.added(reservation.address, 1);
        *address = reservation.address;
    }
    let full = resident().saturating_sub(before);
    println!("{full} KiB with {MILLION} addresses");
    assert_eq!(index.usage(cidr).map(|usage| usage.used), Some(MILLION));
    assert!((1024..=4 * 1024).contains(&full), "{full} KiB");

    // A watch that stands still, and an end of that.
    for address in &mut late {
        let reservation = index.reserve(&[cidr], Duration::MAX, &mut rng).expect("a free address");
        index.confirm(reservation, 2);
        *address = reservation.address;
    }
    addresses.iter().chain(&late).for_each(|address| index.removed(*address, 3));
    assert_eq!(index.usage(cidr).map(|usage| usage.used), Some(0));
    let empty = resident().saturating_sub(before);
    println!("{empty} KiB after their removal");
    assert!(empty <= 4 * 1024, "{empty} KiB");
}
