//! Addresses as the reference reads them: sloppily.
//!
//! Kubernetes keeps reading addresses as Go did before 1.17 (k8s.io/utils/net `ParseIPSloppy`): leading zeros are
//! decimal (or hexadecimal in IPv6 groups) and of any number, and an IPv4-mapped IPv6 address is the IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an address sloppily; `None` if the text is none. No zones, no surrounding space.
///
/// An IPv4-mapped address comes back as IPv4. Cost: about 10 ns for IPv4.
#[inline]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    parse_ipv4(text.as_bytes()).map(IpAddr::V4).or_else(|| parse_ipv6(text).map(|address| address.to_canonical()))
}

/// Four decimal numbers up to 255 with dots between them and any number of leading zeros.
#[inline]
fn parse_ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut address = 0_u32;
    let mut part = 0_u32;
    let mut digits = 0_usize;
    let mut dots = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            part = part * 10 + u32::from(digit);
            digits += 1;
            if part > 255 {
                return None;
            }
        } else if byte == b'.' && digits > 0 && dots < 3 {
            address = address << 8 | part;
            part = 0;
            digits = 0;
            dots += 1;
        } else {
            return None;
        }
    }
    (dots == 3 && digits > 0).then(|| Ipv4Addr::from_bits(address << 8 | part))
}

/// What the standard parser takes once superfluous leading zeros are gone.
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
