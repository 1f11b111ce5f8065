//! CIDRs of ServiceCIDR objects (KEP-1880): their addresses, and the order in which those are tried.
//!
//! Creating the IPAddress object is the allocation, so there is no bitmap. This module only orders the candidates.
//!
//! ```
//! use rangekeeper::service_cidr::ServiceCidr;
//!
//! let cidr = ServiceCidr::parse("10.96.0.0/27")?;
//! assert_eq!((cidr.size(), cidr.static_band()), (30, 16));
//! // The caller tries to create an IPAddress object for one candidate after another.
//! let candidates: Vec<_> = (0..).map_while(|n| cidr.candidate(5, n)).collect();
//! assert_eq!(candidates.len(), 30);
//! assert_eq!(candidates[0].to_string(), "10.96.0.22");
//! # Ok::<(), rangekeeper::cidr::ParseCidrError>(())
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnetwork::IpNetwork;

use crate::cidr::{CidrRange, ParseCidrError};
use crate::range::Range;

/// One CIDR of a ServiceCIDR object.
///
/// Unlike in a [`CidrRange`], which a bitmap limits, all addresses of an IPv6 /64 can be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceCidr {
    range: CidrRange,
}

impl ServiceCidr {
    /// Reads one of `spec.cidrs`.
    ///
    /// # Errors
    /// If the text is not a CIDR.
    pub fn parse(cidr: &str) -> Result<Self, ParseCidrError> {
        Ok(Self { range: cidr.parse()? })
    }

    /// The CIDR.
    pub fn network(&self) -> IpNetwork {
        self.range.network()
    }

    /// The number of allocatable addresses, which the network address and, in IPv4, the broadcast address are not; at most
    /// `u64::MAX`.
    pub fn size(&self) -> u64 {
        match self.network() {
            IpNetwork::V4(network) => (1_u64 << (32 - network.prefix())).saturating_sub(2),
            IpNetwork::V6(network) if network.prefix() <= 64 => u64::MAX,
            IpNetwork::V6(network) => (1_u64 << (128 - network.prefix())) - 1,
        }
    }

    /// The number of addresses in the static band, the lowest ones (KEP-3070); less than the size, or 0.
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
            // The offset is below the size, so both sums stay in the network.
            IpNetwork::V4(network) => Ipv4Addr::from_bits(network.ip().to_bits() + 1 + offset as u32).into(),
            IpNetwork::V6(network) => Ipv6Addr::from_bits(network.ip().to_bits() + 1 + u128::from(offset)).into(),
        })
    }

    /// The candidate after `n` others; `None` if there are no more.
    ///
    /// The addresses of the dynamic band come first, ascending from the one at `start` modulo the band's size, and after
    /// its end from its beginning; then those of the static band in the same way. Each address comes once. With random
    /// starts, concurrent callers rarely try the same address.
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

/// `(start + n) % len` without overflow; `n` is below `len`.
fn nth_with_wrap(start: u64, n: u64, len: u64) -> u64 {
    let first = start % len;
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

    /// The order of candidates, written as plainly as possible: the addresses in a list, each band rotated.
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
