//! Ranges: each maps its values (addresses or ports) to offsets and back.
//!
//! ```
//! use rangekeeper::ports::PortRange;
//! use rangekeeper::range::{Band, Range};
//!
//! let range: PortRange = "30000-32767".parse()?;
//! assert_eq!((range.size(), range.static_band()), (2768, 86));
//! assert_eq!(range.offset_of(30_080), Some(80));
//! assert_eq!(range.band_of(80), Band::Static);
//! assert_eq!(range.value_at(2768), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt::{Debug, Display};
use std::str::FromStr;

/// The two parts of a range (KEP-3070 for ClusterIPs, KEP-3668 for NodePorts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Band {
    /// The low offsets, for values that people choose: dynamic allocation takes one only if all others are in use.
    Static,
    /// All other offsets.
    Dynamic,
}

/// A range of values, each with an offset in `0..size`.
///
/// `Display` writes the canonical text that is stored beside the bitmap, and `FromStr` reads it.
pub trait Range: Copy + Eq + Debug + Display + FromStr {
    /// The type of the values.
    type Value: Copy + Eq + Debug + Display;

    /// How many values can be allocated.
    fn size(&self) -> u32;

    /// How many of the lowest offsets form the static band; less than `size`, or 0.
    fn static_band(&self) -> u32;

    /// The offset of `value`, or `None` if it is not in range.
    fn offset_of(&self, value: Self::Value) -> Option<u32>;

    /// The value at `offset`, or `None` past the end.
    fn value_at(&self, offset: u32) -> Option<Self::Value>;

    /// Whether `other` has values of the same kind; false only for a type that stands for several kinds.
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
