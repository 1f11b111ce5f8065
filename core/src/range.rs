//! What a range is to the allocator: a bijection between values (addresses, ports, UID blocks) and offsets.

use std::fmt::{Debug, Display};
use std::net::IpAddr;
use std::str::FromStr;

use crate::cidr::CidrRange;
use crate::ports::PortRange;
use crate::uids::{UidBlock, UidRange};

pub use crate::cidr::ParseCidrError;
pub use crate::ports::ParsePortRangeError;
pub use crate::uids::ParseUidRangeError;

/// Which part of a range dynamic allocation spares (KEP-3070 for ClusterIPs, KEP-3668 for NodePorts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Band {
    /// The low offsets: dynamic allocation takes them only when all others are in use.
    Static,
    /// All other offsets.
    Dynamic,
}

/// A range of values, each with an offset in `0..size`.
///
/// `Display` gives the canonical text that is stored beside the bitmap, and `FromStr` reads it.
pub trait Range: Copy + Eq + Debug + Display + FromStr {
    /// What is allocated.
    type Value: Copy + Eq + Debug + Display;

    /// How many values can be allocated.
    fn size(&self) -> u32;

    /// How many of the lowest offsets form the static band; less than `size`, or 0.
    fn static_band(&self) -> u32;

    /// The offset of `value`, or `None` if it is not in range.
    fn offset_of(&self, value: Self::Value) -> Option<u32>;

    /// The value at `offset`, or `None` past the end.
    fn value_at(&self, offset: u32) -> Option<Self::Value>;

    /// The band in which `offset` lies.
    fn band_of(&self, offset: u32) -> Band {
        if offset < self.static_band() { Band::Static } else { Band::Dynamic }
    }
}

/// The static band for `total` values, by `min(max(16, total / step), max)`, and 0 for at most 16 values.
pub(crate) fn static_band(total: u64, step: u64, max: u64) -> u32 {
    const MIN: u64 = 16;
    if total <= MIN {
        return 0;
    }
    (total / step).max(MIN).min(max) as u32
}

/// A range whose kind is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnyRange {
    /// Addresses.
    Cidr(CidrRange),
    /// Ports.
    Ports(PortRange),
    /// Blocks of UIDs.
    Uids(UidRange),
}

/// A value whose kind is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnyValue {
    /// An address.
    Address(IpAddr),
    /// A port.
    Port(u16),
    /// A block of UIDs.
    Uids(UidBlock),
}

impl Display for AnyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => Display::fmt(address, f),
            Self::Port(port) => Display::fmt(port, f),
            Self::Uids(block) => Display::fmt(block, f),
        }
    }
}

impl Display for AnyRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cidr(range) => Display::fmt(range, f),
            Self::Ports(range) => Display::fmt(range, f),
            Self::Uids(range) => Display::fmt(range, f),
        }
    }
}

/// Why a text is no range of any kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRangeError {
    /// It looks like a CIDR, but is none.
    #[error(transparent)]
    Cidr(#[from] ParseCidrError),
    /// It looks like a port range, but is none.
    #[error(transparent)]
    Ports(#[from] ParsePortRangeError),
    /// It looks like a range of UID blocks, but is none.
    #[error(transparent)]
    Uids(#[from] ParseUidRangeError),
}

/// Tells the kinds apart by their form: a CIDR has a `.` or `:`, UID blocks have a `/` and neither, ports are the rest.
impl FromStr for AnyRange {
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, ParseRangeError> {
        if text.contains(['.', ':']) {
            Ok(Self::Cidr(text.parse()?))
        } else if text.contains('/') {
            Ok(Self::Uids(text.parse()?))
        } else {
            Ok(Self::Ports(text.parse()?))
        }
    }
}

impl Range for AnyRange {
    type Value = AnyValue;

    #[inline]
    fn size(&self) -> u32 {
        match self {
            Self::Cidr(range) => range.size(),
            Self::Ports(range) => range.size(),
            Self::Uids(range) => range.size(),
        }
    }

    #[inline]
    fn static_band(&self) -> u32 {
        match self {
            Self::Cidr(range) => range.static_band(),
            Self::Ports(range) => range.static_band(),
            Self::Uids(range) => range.static_band(),
        }
    }

    #[inline]
    fn offset_of(&self, value: AnyValue) -> Option<u32> {
        match (self, value) {
            (Self::Cidr(range), AnyValue::Address(address)) => range.offset_of(address),
            (Self::Ports(range), AnyValue::Port(port)) => range.offset_of(port),
            (Self::Uids(range), AnyValue::Uids(block)) => range.offset_of(block),
            _ => None,
        }
    }

    #[inline]
    fn value_at(&self, offset: u32) -> Option<AnyValue> {
        match self {
            Self::Cidr(range) => range.value_at(offset).map(AnyValue::Address),
            Self::Ports(range) => range.value_at(offset).map(AnyValue::Port),
            Self::Uids(range) => range.value_at(offset).map(AnyValue::Uids),
        }
    }
}
