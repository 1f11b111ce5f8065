//! Addresses as the reference reads them: sloppily.
//!
//! Kubernetes keeps reading addresses as Go did before 1.17 (k8s.io/utils/net `ParseIPSloppy`): leading zeros are
//! decimal (or hexadecimal in IPv6 groups) and of any number, and an IPv4-mapped IPv6 address is the IPv4 address.
//!
//! ```
//! use rangekeeper::address::parse_address;
//!
//! assert_eq!(parse_address("010.96.0.010"), parse_address("10.96.0.10"));
//! assert_eq!(parse_address("::ffff:10.96.0.10"), parse_address("10.96.0.10"));
//! assert_eq!(parse_address("10.96.0"), None);
//! ```

mod ipv4;

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

pub(crate) use ipv4::parse_ipv4;

/// ::ffff:0:0/96 as numbers: the IPv4-mapped addresses, which are IPv4 addresses.
pub(crate) const IPV4_MAPPED: Range<u128> = 0xffff_0000_0000..0x1_0000_0000_0000;

/// Reads an address sloppily; `None` if the text is not an address. Zones and surrounding space are not accepted.
///
/// An IPv4-mapped address is returned as IPv4. Cost: a few nanoseconds for IPv4.
#[inline(always)]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    parse_ipv4(text.as_bytes()).map(IpAddr::V4).or_else(|| parse_ipv6(text).map(|address| address.to_canonical()))
}

/// The address of a text in the canonical form, by which kube-apiserver looks for an IPAddress object.
pub(crate) fn parse_canonical(text: &str) -> Option<IpAddr> {
    parse_address(text).filter(|address| address.to_string() == text)
}

/// Reads an address with the standard parser, without superfluous leading zeros.
#[inline(never)]
fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if !text.contains(':') {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let group = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(group);
        let significant = digits.trim_start_matches('0');
        plain.push_str(if significant.is_empty() && !digits.is_empty() { "0" } else { significant });
        let separator = tail.chars().next().map_or(0, char::len_utf8);
        plain.push_str(&tail[..separator]);
        rest = &tail[separator..];
    }
    plain.parse().ok()
}

/// The name of an address's family as Kubernetes writes it: `IPv4` or `IPv6`.
pub fn family_name(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}
