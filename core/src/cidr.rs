//! Ranges of ClusterIPs.
//!
//! What can be allocated follows kubernetes `pkg/registry/core/service/ipallocator/bitmap.go`: never the network
//! address; in IPv4 never the broadcast address; in IPv6 at most the first 65,536 addresses are tracked. So offset 0
//! is the network address plus one.
//!
//! ```
//! use rangekeeper::cidr::CidrRange;
//! use rangekeeper::range::Range;
//!
//! let range: CidrRange = "10.96.0.0/12".parse()?;
//! assert_eq!(range.size(), 1_048_574);
//! assert_eq!(range.value_at(0), Some("10.96.0.1".parse()?));
//! assert_eq!(range.offset_of("10.96.0.0".parse()?), None, "the network address");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnetwork::{IpNetwork, Ipv4Network, Ipv6Network};

use crate::address::parse_address;
use crate::range::{Range, static_band};

/// How many addresses of an IPv6 range are tracked, the network address counted.
const IPV6_TRACKED: u64 = 65_536;

/// A CIDR and the offsets of its allocatable addresses.
///
/// Size: 2^(32 - prefix) - 2 for IPv4, min(2^(128 - prefix), 65,536) - 1 for IPv6, never below 0; ranges with 31 or
/// more IPv4 or 127 or more IPv6 host bits have size 0, as in the reference (k8s.io/utils/net `RangeSize`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CidrRange {
    network: IpNetwork,
    size: u32,
    static_band: u32,
}

/// Why a text is not a CIDR.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseCidrError {
    /// There is no `/`.
    #[error("CIDR {text:?} has no prefix length: expected ADDRESS/LENGTH")]
    NoPrefixLength {
        /// The input.
        text: String,
    },
    /// The part before the `/` is not an address.
    #[error("CIDR {text:?}: {address:?} is not an IPv4 or IPv6 address")]
    Address {
        /// The input.
        text: String,
        /// The part before the `/`.
        address: String,
    },
    /// The part after the `/` is not a number, or too large for the IP family.
    #[error("CIDR {text:?}: prefix length {length:?} is not a number from 0 to {max}")]
    PrefixLength {
        /// The input.
        text: String,
        /// The part after the `/`.
        length: String,
        /// The longest prefix of the address's family: 32 or 128.
        max: u8,
    },
}

impl CidrRange {
    /// The range of `network`; host bits in it are cleared.
    pub fn new(network: IpNetwork) -> Self {
        let network = IpNetwork::new(network.network(), network.prefix()).unwrap_or(network);
        let (host_bits, unlimited) = match network {
            IpNetwork::V4(network) => (32 - network.prefix(), 31),
            IpNetwork::V6(network) => (128 - network.prefix(), 127),
        };
        // Wider ranges saturate: the band has reached its limit long before.
        let total = if host_bits >= unlimited { 0 } else { 1_u64 << host_bits.min(62) };
        let size = match network {
            IpNetwork::V4(_) => total.saturating_sub(2),
            IpNetwork::V6(_) => total.min(IPV6_TRACKED).saturating_sub(1),
        };
        Self { network, size: size as u32, static_band: static_band(total, 16, 256) }
    }

    /// The network, without host bits.
    pub fn network(&self) -> IpNetwork {
        self.network
    }

    /// Whether the addresses are IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.network.is_ipv4()
    }

    /// Whether `address` lies in the CIDR, allocatable or not. An IPv4-mapped address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.network.contains(address.to_canonical())
    }
}

impl Range for CidrRange {
    type Value = IpAddr;

    #[inline]
    fn size(&self) -> u32 {
        self.size
    }

    #[inline]
    fn static_band(&self) -> u32 {
        self.static_band
    }

    #[inline(always)]
    fn offset_of(&self, address: IpAddr) -> Option<u32> {
        match (self.network, address.to_canonical()) {
            (IpNetwork::V4(network), IpAddr::V4(address)) => {
                let first = network.ip().to_bits().wrapping_add(1);
                let offset = address.to_bits().wrapping_sub(first);
                (offset < self.size).then_some(offset)
            }
            (IpNetwork::V6(network), IpAddr::V6(address)) => {
                let first = network.ip().to_bits().wrapping_add(1);
                let offset = address.to_bits().wrapping_sub(first);
                (offset < u128::from(self.size)).then_some(offset as u32)
            }
            _ => None,
        }
    }

    #[inline]
    fn value_at(&self, offset: u32) -> Option<IpAddr> {
        if offset >= self.size {
            return None;
        }
        Some(match self.network {
            IpNetwork::V4(network) => Ipv4Addr::from_bits(network.ip().to_bits() + 1 + offset).into(),
            IpNetwork::V6(network) => Ipv6Addr::from_bits(network.ip().to_bits() + 1 + u128::from(offset)).into(),
        })
    }
}

impl Display for CidrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.network, f)
    }
}

/// Reads `ADDRESS/LENGTH`, the address sloppily (see [`parse_address`]); host bits are cleared.
///
/// An IPv4-mapped CIDR with a prefix of at least 96 is the IPv4 CIDR that it covers, as in the reference.
impl FromStr for CidrRange {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let Some((address_text, length_text)) = text.split_once('/') else {
            return Err(ParseCidrError::NoPrefixLength { text: text.into() });
        };
        let Some(address) = parse_address(address_text) else {
            return Err(ParseCidrError::Address { text: text.into(), address: address_text.into() });
        };
        // With a colon the address is IPv4-mapped, written in IPv6 form, so its length counts 96 bits more.
        let written_as_ipv6 = address_text.contains(':');
        let max = if written_as_ipv6 { 128 } else { 32 };
        let length = Some(length_text)
            .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            .map(|text| text.bytes().fold(0_u32, |number, digit| (number * 10 + u32::from(digit - b'0')).min(1000)))
            .filter(|length| *length <= u32::from(max))
            .map(|length| length as u8);
        let Some(length) = length else {
            return Err(ParseCidrError::PrefixLength { text: text.into(), length: length_text.into(), max });
        };
        let network = match address {
            IpAddr::V4(address) if !written_as_ipv6 => Ipv4Network::new(address, length).map(IpNetwork::V4),
            IpAddr::V4(address) if length >= 96 => Ipv4Network::new(address, length - 96).map(IpNetwork::V4),
            IpAddr::V4(address) => Ipv6Network::new(address.to_ipv6_mapped(), length).map(IpNetwork::V6),
            IpAddr::V6(address) => Ipv6Network::new(address, length).map(IpNetwork::V6),
        };
        network.map(Self::new).map_err(|_| ParseCidrError::PrefixLength {
            text: text.into(),
            length: length_text.into(),
            max,
        })
    }
}
