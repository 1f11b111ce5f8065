//! Ranges as numbers: a first value, how many of them, and the static band.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address;

/// A CIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The network address.
    pub network: u128,
    /// The family.
    pub ipv4: bool,
    /// The prefix length in the family.
    pub prefix: u32,
}

impl Cidr {
    /// Reads `ADDRESS/LENGTH` as Go read it before 1.17.
    pub fn parse(text: &str) -> Option<Self> {
        let (address_text, length) = text.split_once('/')?;
        let ipv6_form = address_text.contains(':');
        let length = address::number(length, 10)? as u128;
        let (bits, number) = match address::parse(address_text)? {
            IpAddr::V4(address) if ipv6_form => (128, u128::from(address.to_ipv6_mapped())),
            IpAddr::V4(address) => (32, u128::from(u32::from(address))),
            IpAddr::V6(address) => (128, u128::from(address)),
        };
        if length > bits {
            return None;
        }
        let (bits, length) = (bits as u32, length as u32);
        // Clears the host bits by shifting them out; a shift by all bits is none in Rust.
        let network = number.checked_shr(bits - length).unwrap_or(0).checked_shl(bits - length).unwrap_or(0);
        // What is left of a mapped address decides the family.
        if bits == 128 && network >> 32 == 0xffff {
            return Some(Self { network: network & 0xffff_ffff, ipv4: true, prefix: length.checked_sub(96)? });
        }
        Some(Self { network, ipv4: bits == 32, prefix: length })
    }

    fn host_bits(&self) -> u32 {
        if self.ipv4 { 32 - self.prefix } else { 128 - self.prefix }
    }

    /// The canonical text.
    pub fn text(&self) -> String {
        format!("{}/{}", self.address(self.network), self.prefix)
    }

    /// An address of the family.
    pub fn address(&self, number: u128) -> IpAddr {
        if self.ipv4 { Ipv4Addr::from(number as u32).into() } else { Ipv6Addr::from(number).into() }
    }

    /// Allocatable addresses where a bitmap tracks them.
    pub fn size(&self) -> u32 {
        match (self.ipv4, self.host_bits()) {
            (true, 31..) | (true, 0) | (false, 127..) => 0,
            (true, bits) => (1_u32 << bits) - 2,
            (false, bits) => (1_u32 << bits.min(16)) - 1,
        }
    }

    /// Allocatable addresses where IPAddress objects track them, saturated.
    pub fn wide_size(&self) -> u64 {
        match (self.ipv4, self.host_bits()) {
            (true, 0) => 0,
            (true, bits) => (1_u64 << bits) - 2,
            (false, 64..) => u64::MAX,
            (false, bits) => (1_u64 << bits) - 1,
        }
    }

    /// The static band of KEP-3070.
    pub fn static_band(&self) -> u32 {
        match (self.ipv4, self.host_bits()) {
            (true, 31..) | (false, 127..) => 0,
            (_, bits) if bits <= 4 => 0,
            (_, bits) => (1_u32 << (bits.min(20) - 4)).clamp(16, 256),
        }
    }
}

/// The ports of `low-high`, `low+offset` or a single one.
pub fn ports(text: &str) -> Option<(u16, u16)> {
    let text = text.trim();
    let (low, high) = match (text.find('-'), text.find('+')) {
        (Some(at), None) => (address::number(&text[..at], 10)?, address::number(&text[at + 1..], 10)?),
        (None, Some(at)) => {
            let (low, offset) = (&text[..at], &text[at + 1..]);
            let low = address::number(low, 10)?;
            (low, low.saturating_add(address::number(offset.strip_prefix('+').unwrap_or(offset), 10)?))
        }
        (None, None) => (address::number(text, 10)?, address::number(text, 10)?),
        _ => return None,
    };
    let (low, high) = (u16::try_from(low).ok()?, u16::try_from(high).ok()?);
    (low <= high).then_some((low, high))
}
