//! CIDRs of ServiceCIDR objects (KEP-1880): which addresses there are, and in which order they are tried.
//!
//! Where each allocated address is an IPAddress object, nothing but the creation of that object allocates. So there is no
//! bitmap to be searched: what is decided here is which address somebody who wants any tries next.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnetwork::IpNetwork;

use crate::cidr::{CidrRange, ParseCidrError};
use crate::range::Range;

/// One CIDR of a ServiceCIDR object.
///
/// Other than in a [`CidrRange`], which a bitmap limits, all addresses of an IPv6 subnet of 64 bits can be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceCidr {
    range: CidrRange,
}

impl ServiceCidr {
    /// Reads one of `spec.cidrs`.
    ///
    /// # Errors
    /// If it is no CIDR.
    pub fn parse(cidr: &str) -> Result<Self, ParseCidrError> {
        Ok(Self { range: cidr.parse()? })
    }

    /// The CIDR.
    pub fn network(&self) -> IpNetwork {
        self.range.network()
    }

    /// How many addresses can be allocated: without the network address and, in IPv4, the broadcast address; at most
    /// `u64::MAX`.
    pub fn size(&self) -> u64 {
        match self.network() {
            IpNetwork::V4(network) => (1_u64 << (32 - network.prefix())).saturating_sub(2),
            IpNetwork::V6(network) if network.prefix() <= 64 => u64::MAX,
            IpNetwork::V6(network) => (1_u64 << (128 - network.prefix())) - 1,
        }
    }

    /// How many of the lowest addresses form the static band (KEP-3070); less than the size, or 0.
    pub fn static_band(&self) -> u32 {
        self.range.static_band()
    }

    /// The distance of `address` from the first allocatable one; `None` if it is never allocated.
    pub fn offset_of(&self, address: IpAddr) -> Option<u64> {
        let offset = match (self.network(), address.to_canonical()) {
            (IpNetwork::V4(network), IpAddr::V4(address)) => {
                u64::from(address.to_bits()).checked_sub(u64::from(network.ip().to_bits()) + 1)
            }
            (IpNetwork::V6(network), IpAddr::V6(address)) => {
                let offset = address.to_bits().checked_sub(network.ip().to_bits().checked_add(1)?)?;
                u64::try_from(offset).ok()
            }
            _ => None,
        };
        offset.filter(|offset| *offset < self.size())
    }

    /// The address at `offset`, or `None` past the end.
    pub fn value_at(&self, offset: u64) -> Option<IpAddr> {
        if offset >= self.size() {
            return None;
        }
        Some(match self.network() {
            // Below the size, so that neither sum leaves the network.
            IpNetwork::V4(network) => Ipv4Addr::from_bits(network.ip().to_bits() + 1 + offset as u32).into(),
            IpNetwork::V6(network) => Ipv6Addr::from_bits(network.ip().to_bits() + 1 + u128::from(offset)).into(),
        })
    }

    /// The address that is tried after `n` others were in use; `None` if there are no more.
    ///
    /// First come the addresses of the dynamic band, ascending from one that `start` picks, with wrap, then those of
    /// the static band in the same way: each address once. `start` may be any number; the remainders by the sizes of
    /// the bands count, so 0 begins at the lowest address of each. With random ones, those who search at the same time
    /// rarely try the same address.
    ///
    /// This is the order of kubernetes `pkg/registry/core/service/ipallocator/ipallocator.go`. Cost: constant.
    pub fn candidate(&self, start: u64, n: u64) -> Option<IpAddr> {
        let band = u64::from(self.static_band());
        let dynamic = self.size() - band;
        let offset = match n.checked_sub(dynamic) {
            None => band + nth_with_wrap(start, n, dynamic),
            Some(n) if n < band => nth_with_wrap(start, n, band),
            Some(_) => return None,
        };
        self.value_at(offset)
    }
}

/// Which of `len` comes after `n` others, counted from `start` modulo `len` on; `n` is below `len`.
fn nth_with_wrap(start: u64, n: u64, len: u64) -> u64 {
    let first = start % len;
    // Not by a remainder of their sum, which may be past the end of the type.
    n.checked_sub(len - first).unwrap_or_else(|| first + n)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn cidr(text: &str) -> ServiceCidr {
        ServiceCidr::parse(text).expect("a CIDR")
    }

    #[test]
    fn a_service_cidr_has_all_addresses_of_a_64_bit_subnet() {
        for (text, size, last, past) in [
            ("10.0.0.0/29", 6, "10.0.0.6", "10.0.0.7"),
            ("10.0.0.0/31", 0, "", "10.0.0.1"),
            ("0.0.0.0/0", (1 << 32) - 2, "255.255.255.254", "255.255.255.255"),
            ("fd00::/112", 65_535, "fd00::ffff", "fd00::1:0"),
            ("fd00::/64", u64::MAX, "fd00::ffff:ffff:ffff:ffff", "fd00:0:0:1::"),
            ("ffff:ffff:ffff:ffff::/64", u64::MAX, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::"),
            ("fd00::/128", 0, "", "fd00::"),
        ] {
            let cidr = cidr(text);
            assert_eq!(cidr.size(), size, "{text}");
            if let Ok(last) = last.parse() {
                assert_eq!(cidr.offset_of(last), Some(size - 1), "{text}");
                assert_eq!(cidr.value_at(size - 1), Some(last), "{text}");
            }
            assert_eq!(cidr.offset_of(past.parse().expect("an address")), None, "{text}");
            assert_eq!(cidr.offset_of(cidr.network().ip()), None, "{text}");
            assert_eq!(cidr.value_at(size), None, "{text}");
        }
    }

    /// The order of candidates, written as plainly as possible: the addresses in a list, each band turned round.
    fn naive(cidr: &ServiceCidr, start: u64) -> Vec<IpAddr> {
        let all: Vec<IpAddr> = cidr.network().iter().filter(|address| cidr.offset_of(*address).is_some()).collect();
        let (low, high) = all.split_at(cidr.static_band() as usize);
        let mut order = Vec::new();
        for band in [high, low] {
            let mut band = band.to_vec();
            if !band.is_empty() {
                let turn = (start % band.len() as u64) as usize;
                band.rotate_left(turn);
            }
            order.extend(band);
        }
        order
    }

    #[test]
    fn candidates_are_those_of_a_naive_model() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut compared = 0;
        for (base, prefixes) in [("10.1.0.0", 20..=32), ("fd00::", 116..=128)] {
            for prefix in prefixes {
                let cidr = cidr(&format!("{base}/{prefix}"));
                let size = cidr.size();
                for start in [0, 1, size / 2, size, u64::MAX, rng.next_u64(), rng.next_u64(), rng.next_u64()] {
                    let order: Vec<IpAddr> = (0..size).filter_map(|n| cidr.candidate(start, n)).collect();
                    assert_eq!(order, naive(&cidr, start), "{cidr:?} from {start}");
                    assert_eq!(order.iter().collect::<HashSet<_>>().len() as u64, size, "{cidr:?}: each one once");
                    for past in [size, size + 1, u64::MAX] {
                        assert_eq!(cidr.candidate(start, past), None, "{cidr:?} from {start}");
                    }
                    compared += order.len();
                }
            }
        }
        println!("{compared} candidates compared");
        assert!(compared > 100_000);
    }

    #[test]
    fn candidates_of_a_64_bit_subnet_do_not_overflow() {
        let cidr = cidr("fd00::/64");
        let band = u64::from(cidr.static_band());
        let dynamic = u64::MAX - band;
        let at = |start, n| cidr.offset_of(cidr.candidate(start, n)?);
        for start in [0, 1, u64::MAX / 2, dynamic - 1, dynamic, u64::MAX] {
            let first = at(start, 0);
            assert_eq!(first, Some(band + start % dynamic), "{start}");
            assert_eq!(at(start, dynamic - 1 - start % dynamic), Some(u64::MAX - 1), "{start}: the highest");
            // The last of the dynamic band is the one before the first, which may have wrapped.
            let before = first.filter(|first| *first > band).map_or(u64::MAX - 1, |first| first - 1);
            assert_eq!(at(start, dynamic - 1), Some(before), "{start}");
            assert_eq!(at(start, dynamic), Some(start % band), "{start}: the static band");
            assert_eq!(at(start, u64::MAX), None, "{start}");
        }
    }
}
