//! CIDRs of ServiceCIDR objects.

use std::ffi::c_char;

use rangekeeper_core::any::AnyValue;
use rangekeeper_core::service_cidr::ServiceCidr;

use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error};
use crate::range::network;
use crate::result::rk_result;
use crate::scope::{Out, Scope, Unusable, borrow, text};
use crate::value::rk_value;

/// A CIDR of a ServiceCIDR object: which addresses it has, and in which order they are tried. rk_service_cidr_parse
/// writes one. It may be copied, and nothing of it is freed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rk_service_cidr {
    /// The network address.
    pub network: rk_value,
    /// The length of the prefix.
    pub prefix: u32,
}

/// A CIDR of a ServiceCIDR object in numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_service_cidr_description {
    /// How many addresses can be allocated, at most UINT64_MAX; offsets are below that. 0 is possible ("10.0.0.1/32").
    pub size: u64,
    /// How many of the lowest offsets form the static band, which dynamic allocation uses last (KEP-3070).
    pub static_band: u32,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

impl rk_service_cidr {
    pub(crate) fn get(self) -> Result<ServiceCidr, Unusable> {
        let network = match AnyValue::try_from(self.network) {
            Ok(AnyValue::Address(address)) => network(address, self.prefix),
            _ => None,
        };
        network.map(ServiceCidr::new).ok_or(Unusable::NotARange)
    }
}

/// The CIDR of the caller's.
///
/// # Safety
/// As [`borrow`].
pub(crate) unsafe fn service_cidr(scope: &Scope, cidr: *const rk_service_cidr) -> Result<ServiceCidr, Unusable> {
    // SAFETY: as promised to this function.
    unsafe { borrow(scope, cidr) }?.get()
}

/// Parses a CIDR of a ServiceCIDR object, such as "10.96.0.0/12" or "fd00::/64"; host bits are cleared.
///
/// RK_RESULT_INVALID_RANGE.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_service_cidr_parse(
    spec: *const c_char,
    spec_len: usize,
    cidr: *mut rk_service_cidr,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (spec, out) = (text(scope, spec, spec_len).named("spec")?, Out::new(scope, cidr).named("cidr")?);
            let cidr = spec.parse::<ServiceCidr>().map_err(|error| Failure::new(rk_result::InvalidRange, error))?;
            let network = cidr.network();
            out.write(rk_service_cidr { network: network.ip().into(), prefix: network.prefix().into() });
            Ok(())
        })
    }
}

/// Writes the size and the static band of a CIDR.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_service_cidr_describe(
    cidr: *const rk_service_cidr,
    description: *mut rk_service_cidr_description,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (cidr, out) = unsafe { (service_cidr(scope, cidr)?, Out::new(scope, description)?) };
        out.write(rk_service_cidr_description { size: cidr.size(), static_band: cidr.static_band(), reserved: [0; 2] });
        Ok(())
    })
}

/// Writes the offset of an address.
///
/// RK_RESULT_NOT_IN_RANGE if it cannot be allocated from the CIDR: network and broadcast addresses, values of another
/// kind.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_service_cidr_offset_of(
    cidr: *const rk_service_cidr,
    value: *const rk_value,
    offset: *mut u64,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (cidr, value, offset) =
            unsafe { (service_cidr(scope, cidr)?, borrow(scope, value)?, Out::new(scope, offset)?) };
        let found = match AnyValue::try_from(*value)? {
            AnyValue::Address(address) => cidr.offset_of(address),
            _ => None,
        };
        offset.write(found.ok_or(rk_result::NotInRange)?);
        Ok(())
    })
}

/// Writes the address at an offset.
///
/// RK_RESULT_NOT_IN_RANGE if the offset is not below the size.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_service_cidr_value_at(
    cidr: *const rk_service_cidr,
    offset: u64,
    value: *mut rk_value,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (cidr, value) = unsafe { (service_cidr(scope, cidr)?, Out::new(scope, value)?) };
        value.write(cidr.value_at(offset).ok_or(rk_result::NotInRange)?.into());
        Ok(())
    })
}
