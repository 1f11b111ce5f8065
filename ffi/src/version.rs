//! What this library is.

use crate::guard::guard_or;

/// The version of the C ABI that this header describes: the number in the soname of the shared library. It grows when
/// programs that were built against an older header must be rebuilt.
pub const RK_ABI_VERSION: u32 = 0;

/// The version of Rangekeeper that this header belongs to: major, minor, patch.
pub const RK_VERSION_MAJOR: u32 = 0;
/// See RK_VERSION_MAJOR.
pub const RK_VERSION_MINOR: u32 = 1;
/// See RK_VERSION_MAJOR.
pub const RK_VERSION_PATCH: u32 = 0;

const _: () = assert!(
    matches!(u32::from_str_radix(env!("CARGO_PKG_VERSION_MAJOR"), 10), Ok(RK_VERSION_MAJOR))
        && matches!(u32::from_str_radix(env!("CARGO_PKG_VERSION_MINOR"), 10), Ok(RK_VERSION_MINOR))
        && matches!(u32::from_str_radix(env!("CARGO_PKG_VERSION_PATCH"), 10), Ok(RK_VERSION_PATCH)),
    "the header's version is that of Cargo.toml"
);

/// Returns the ABI version of the linked library. A program that loads the library itself compares it with
/// RK_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn rk_abi_version() -> u32 {
    guard_or(RK_ABI_VERSION, || RK_ABI_VERSION)
}
