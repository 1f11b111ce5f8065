//! The text of CIDRs and port ranges against plain readings of the same rules, and their arithmetic against wide
//! numbers.

#![no_main]

use std::fmt::Debug;
use std::net::IpAddr;
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use rangekeeper::any::AnyRange;
use rangekeeper::cidr::CidrRange;
use rangekeeper::ports::PortRange;
use rangekeeper::range::{Band, Range};
use rangekeeper::service_cidr::ServiceCidr;
use rangekeeper_fuzz::range::{Cidr, ports};

fuzz_target!(|text: &str| {
    cidr(text);
    port_range(text);

    let any = text.parse::<AnyRange>().ok();
    let expected = if text.contains(['.', ':']) {
        text.parse().ok().map(AnyRange::Cidr)
    } else if text.ends_with(" static") {
        text.parse().ok().map(AnyRange::Numbers)
    } else {
        text.parse().ok().map(AnyRange::Ports)
    };
    assert_eq!(any, expected, "{text:?}");
    if let Some(range) = any {
        laws(range);
    }
});

/// What holds for every range.
fn laws<R: Range<Err: Debug + PartialEq> + FromStr>(range: R) {
    assert_eq!(range.to_string().parse(), Ok(range));
    let (size, band) = (range.size(), range.static_band());
    assert!(band == 0 || band < size, "{range}: static band {band} of {size}");
    for offset in [0, 1, band.wrapping_sub(1), band, size / 2, size.wrapping_sub(1), size, u32::MAX] {
        let value = range.value_at(offset);
        assert_eq!(value.is_some(), offset < size, "{range} at {offset}");
        assert_eq!(value.and_then(|value| range.offset_of(value)), value.map(|_| offset), "{range} at {offset}");
        assert_eq!(range.band_of(offset) == Band::Static, offset < band, "{range} at {offset}");
    }
}

fn cidr(text: &str) {
    let found = text.parse::<CidrRange>();
    let wide = text.parse::<ServiceCidr>();
    let Some(naive) = Cidr::parse(text) else {
        let error = found.expect_err("is no CIDR");
        assert!(error.to_string().contains(&format!("{text:?}")), "the error names the input: {error}");
        assert!(wide.is_err(), "{text:?}");
        return;
    };
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    let wide = wide.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.to_string(), naive.text(), "{text:?}");
    assert_eq!(found.is_ipv4(), naive.ipv4, "{text:?}");
    assert_eq!((found.size(), found.static_band()), (naive.size(), naive.static_band()), "{text:?}");
    assert_eq!((wide.size(), wide.static_band()), (naive.wide_size(), naive.static_band()), "{text:?}");
    assert_eq!(wide.network().to_string(), naive.text(), "{text:?}");
    laws(found);

    let (size, wide_size) = (u128::from(naive.size()), u128::from(naive.wide_size()));
    let limit = if naive.ipv4 { u128::from(u32::MAX) } else { u128::MAX };
    for distance in [0, 1, 2, size / 2, size, size + 1, wide_size / 3, wide_size, wide_size + 1, 1 << 64, limit] {
        for number in [naive.network.checked_add(distance), naive.network.checked_sub(distance)].into_iter().flatten() {
            if number > limit {
                continue;
            }
            let address = naive.address(number);
            let host_bits = if naive.ipv4 { 32 } else { 128 } - naive.prefix;
            // A mapped address is IPv4, wherever it came from.
            let foreign = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
            let inside = !foreign && (number ^ naive.network).checked_shr(host_bits).unwrap_or(0) == 0;
            assert_eq!(found.contains(address), inside, "{naive:?} and {address}");
            let offset = (!foreign && number > naive.network).then(|| number - naive.network - 1);
            let within = |size| offset.filter(|offset| *offset < size);
            assert_eq!(found.offset_of(address).map(u128::from), within(size), "{naive:?} and {address}");
            assert_eq!(wide.offset_of(address).map(u128::from), within(wide_size), "{naive:?} and {address}");
        }
    }
}

fn port_range(text: &str) {
    let found = text.parse::<PortRange>();
    assert_eq!(found.as_ref().ok().map(|range| (range.low(), range.high())), ports(text), "{text:?}: {found:?}");
    let Ok(range) = found else { return };
    let total = u32::from(range.high()) - u32::from(range.low()) + 1;
    assert_eq!(range.size(), total, "{text:?}");
    let band = if total <= 16 { 0 } else { (total / 32).clamp(16, 128) };
    assert_eq!(range.static_band(), band, "{text:?}");
    assert_eq!(range.to_string(), format!("{}-{}", range.low(), range.high()));
    for port in [0, 1, range.low().wrapping_sub(1), range.low(), range.high(), range.high().wrapping_add(1), u16::MAX] {
        let inside = (range.low()..=range.high()).contains(&port);
        let offset = inside.then(|| u32::from(port) - u32::from(range.low()));
        assert_eq!(range.offset_of(port), offset, "{text:?} and {port}");
    }
    laws(range);
}
