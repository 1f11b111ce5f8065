//! The text of addresses against a plain reading of the same rules.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rangekeeper::address::{family_name, parse_address};

fuzz_target!(|text: &str| {
    let address = parse_address(text);
    assert_eq!(address, rangekeeper_fuzz::address::parse(text), "{text:?}");
    let Some(address) = address else { return };
    assert_eq!(parse_address(&address.to_string()), Some(address), "canonical text of {text:?}");
    assert_eq!(family_name(address), if address.to_string().contains(':') { "IPv6" } else { "IPv4" });
});
