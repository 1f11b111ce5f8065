//! What a range is to the allocator: a bijection between values (addresses or ports) and offsets.

use std::fmt::{Debug, Display};
use std::str::FromStr;

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

    /// Whether `other` has values of the same kind; only a type that stands for several kinds says no.
    fn is_same_kind(&self, _other: &Self) -> bool {
        true
    }

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
