//! CIDRs of ServiceCIDR objects (KEP-1880) and their addresses. [`index`](crate::index) knows which of them are free.
//!
//! ```
//! use rangekeeper::service_cidr::ServiceCidr;
//!
//! let cidr: ServiceCidr = "10.96.0.0/27".parse()?;
//! assert_eq!((cidr.size(), cidr.static_band()), (30, 16));
//! assert_eq!(cidr.value_at(29), Some("10.96.0.30".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

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
    /// The CIDR of `network`; host bits in it are cleared.
    pub fn new(network: IpNetwork) -> Self {
        Self { range: CidrRange::new(network) }
    }

    /// The CIDR.
    pub fn network(&self) -> IpNetwork {
        self.range.network()
    }

    /// The number of allocatable addresses, which the network address and, in IPv4, the broadcast address are not; at
    /// most `u64::MAX`.
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
}

/// Writes the network, without host bits.
impl Display for ServiceCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.range, f)
    }
}

/// Reads one of `spec.cidrs`, as a [`CidrRange`] is read.
impl FromStr for ServiceCidr {
    type Err = ParseCidrError;

    fn from_str(cidr: &str) -> Result<Self, ParseCidrError> {
        Ok(Self { range: cidr.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> ServiceCidr {
        text.parse::<ServiceCidr>().expect("a CIDR")
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
}
