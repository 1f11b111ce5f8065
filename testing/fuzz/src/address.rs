//! Addresses as Go read them before 1.17: leading zeros of any number, decimal in IPv4, hexadecimal in IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an address; an IPv4-mapped one is the IPv4 address.
pub fn parse(text: &str) -> Option<IpAddr> {
    ipv4(text).map(IpAddr::V4).or_else(|| {
        let groups = ipv6(text)?;
        match groups {
            [0, 0, 0, 0, 0, 0xffff, high, low] => {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                Some(Ipv4Addr::new(a, b, c, d).into())
            }
            [a, b, c, d, e, f, g, h] => Some(Ipv6Addr::new(a, b, c, d, e, f, g, h).into()),
        }
    })
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u8> = text.split('.').map(|part| number(part, 10)?.try_into().ok()).collect::<Option<_>>()?;
    let [a, b, c, d] = parts[..] else { return None };
    Some(Ipv4Addr::new(a, b, c, d))
}

fn ipv6(text: &str) -> Option<[u16; 8]> {
    let (head, tail) = match text.split_once("::") {
        Some((head, tail)) => (head, Some(tail)),
        None => (text, None),
    };
    let head = groups(head, tail.is_none())?;
    let Some(tail) = tail else { return head.try_into().ok() };
    let tail = groups(tail, true)?;
    // The gap stands for at least one group.
    let gap = 8_usize.checked_sub(head.len() + tail.len()).filter(|gap| *gap > 0)?;
    [head, vec![0; gap], tail].concat().try_into().ok()
}

/// The groups on one side of the gap; the last two of the address may be written as an IPv4 address.
fn groups(text: &str, at_end: bool) -> Option<Vec<u16>> {
    let mut groups = Vec::new();
    if text.is_empty() {
        return Some(groups);
    }
    let parts: Vec<&str> = text.split(':').collect();
    for (index, part) in parts.iter().enumerate() {
        if at_end && index + 1 == parts.len() && part.contains('.') {
            let [a, b, c, d] = ipv4(part)?.octets();
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
        } else {
            groups.push(number(part, 16)?.try_into().ok()?);
        }
    }
    Some(groups)
}

/// A number of any length, saturated.
pub fn number(digits: &str, radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut number = 0_u64;
    for digit in digits.chars() {
        number = number.saturating_mul(radix.into()).saturating_add(digit.to_digit(radix)?.into());
    }
    Some(number)
}
