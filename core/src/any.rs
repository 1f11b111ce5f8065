//! Ranges and values whose kind is known only at run time.
//!
//! ```
//! use rangekeeper::any::{AnyRange, AnyValue};
//! use rangekeeper::range::Range;
//!
//! let ranges: [AnyRange; 2] = ["10.96.0.0/12".parse()?, "30000-32767".parse()?];
//! let firsts = ranges.map(|range| range.value_at(0));
//! assert_eq!(firsts, [Some(AnyValue::Address("10.96.0.1".parse()?)), Some(AnyValue::Port(30_000))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use crate::cidr::{CidrRange, ParseCidrError};
use crate::numbers::{NumberRange, ParseNumberRangeError};
use crate::ports::{ParsePortRangeError, PortRange};
use crate::range::Range;

/// A range whose kind is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnyRange {
    /// Addresses.
    Cidr(CidrRange),
    /// Ports.
    Ports(PortRange),
    /// Numbers.
    Numbers(NumberRange),
}

impl AnyRange {
    /// Whether no cluster has both: its ranges of ClusterIPs are of different IP families (KEP-563), and it has one
    /// range of node ports. Numbers are nothing that a cluster has.
    pub fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cidr(one), Self::Cidr(other)) => one.is_ipv4() == other.is_ipv4(),
            (Self::Ports(_), Self::Ports(_)) => true,
            _ => false,
        }
    }
}

impl From<CidrRange> for AnyRange {
    fn from(range: CidrRange) -> Self {
        Self::Cidr(range)
    }
}

impl From<PortRange> for AnyRange {
    fn from(range: PortRange) -> Self {
        Self::Ports(range)
    }
}

impl From<NumberRange> for AnyRange {
    fn from(range: NumberRange) -> Self {
        Self::Numbers(range)
    }
}

/// A value whose kind is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnyValue {
    /// An address.
    Address(IpAddr),
    /// A port.
    Port(u16),
    /// A number.
    Number(u32),
}

impl Display for AnyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => Display::fmt(address, f),
            Self::Port(port) => Display::fmt(port, f),
            Self::Number(number) => Display::fmt(number, f),
        }
    }
}

impl Display for AnyRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cidr(range) => Display::fmt(range, f),
            Self::Ports(range) => Display::fmt(range, f),
            Self::Numbers(range) => Display::fmt(range, f),
        }
    }
}

/// Why a text is not a range of any kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRangeError {
    /// The text has the form of a CIDR.
    #[error(transparent)]
    Cidr(#[from] ParseCidrError),
    /// The text has the form of a range of numbers.
    #[error(transparent)]
    Numbers(#[from] ParseNumberRangeError),
    /// The text has neither form, so it is read as a port range.
    #[error(transparent)]
    Ports(#[from] ParsePortRangeError),
}

/// Reads a CIDR if the text has a `.` or `:`, numbers if it ends in ` static`, else a port range.
impl FromStr for AnyRange {
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, ParseRangeError> {
        if text.contains(['.', ':']) {
            Ok(Self::Cidr(text.parse()?))
        } else if text.ends_with(" static") {
            Ok(Self::Numbers(text.parse()?))
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
            Self::Numbers(range) => range.size(),
        }
    }

    #[inline]
    fn static_band(&self) -> u32 {
        match self {
            Self::Cidr(range) => range.static_band(),
            Self::Ports(range) => range.static_band(),
            Self::Numbers(range) => range.static_band(),
        }
    }

    #[inline]
    fn offset_of(&self, value: AnyValue) -> Option<u32> {
        match (self, value) {
            (Self::Cidr(range), AnyValue::Address(address)) => range.offset_of(address),
            (Self::Ports(range), AnyValue::Port(port)) => range.offset_of(port),
            (Self::Numbers(range), AnyValue::Number(number)) => range.offset_of(number),
            _ => None,
        }
    }

    #[inline]
    fn value_at(&self, offset: u32) -> Option<AnyValue> {
        match self {
            Self::Cidr(range) => range.value_at(offset).map(AnyValue::Address),
            Self::Ports(range) => range.value_at(offset).map(AnyValue::Port),
            Self::Numbers(range) => range.value_at(offset).map(AnyValue::Number),
        }
    }

    fn is_same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
