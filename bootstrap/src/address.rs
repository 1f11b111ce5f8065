//! Addresses that the API server accepts in endpoints.

use std::net::IpAddr;

use rangekeeper::address::parse_address;

/// The address in canonical text, unless the API server refuses it in endpoints, as it does unspecified, loopback and
/// link-local ones (kubernetes `pkg/apis/core/validation`, `ValidateNonSpecialIP`).
pub(crate) fn usable(text: &str) -> Option<String> {
    let address = parse_address(text)?;
    let special = match address {
        IpAddr::V4(address) => {
            let link_local_multicast = address.octets()[..3] == [224, 0, 0];
            address.is_unspecified() || address.is_loopback() || address.is_link_local() || link_local_multicast
        }
        IpAddr::V6(address) => {
            let link_local_multicast = address.segments()[0] & 0xff0f == 0xff02;
            address.is_unspecified() || address.is_loopback() || address.is_unicast_link_local() || link_local_multicast
        }
    };
    (!special).then(|| address.to_string())
}

/// Whether a usable address is IPv6.
pub(crate) fn is_ipv6(text: &str) -> bool {
    parse_address(text).is_some_and(|address| address.is_ipv6())
}
