//! Ranges of plain numbers, for callers whose values the core does not know: they keep the offset of each.
//!
//! ```
//! use rangekeeper::numbers::NumberRange;
//! use rangekeeper::range::Range;
//!
//! let range = NumberRange::new(100_000, 16).expect("the static band is shorter than the range");
//! assert_eq!((range.value_at(0), range.value_at(99_999), range.value_at(100_000)), (Some(0), Some(99_999), None));
//! assert_eq!(range.to_string().parse(), Ok(range));
//! ```

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::range::Range;

/// The numbers `0..size`. Each is its own offset.
///
/// `Display` writes `SIZE numbers, BAND static`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumberRange {
    size: u32,
    static_band: u32,
}

/// A text is not a range of numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a range of numbers: SIZE numbers, BAND static, with a BAND below SIZE, or both 0")]
pub struct ParseNumberRangeError {
    /// The input.
    pub text: String,
}

impl NumberRange {
    /// The numbers below `size`, of which the lowest `static_band` are the static band; `None` if that is not shorter
    /// than the range.
    pub fn new(size: u32, static_band: u32) -> Option<Self> {
        (static_band == 0 || static_band < size).then_some(Self { size, static_band })
    }
}

impl Range for NumberRange {
    type Value = u32;

    #[inline]
    fn size(&self) -> u32 {
        self.size
    }

    #[inline]
    fn static_band(&self) -> u32 {
        self.static_band
    }

    #[inline]
    fn offset_of(&self, number: u32) -> Option<u32> {
        (number < self.size).then_some(number)
    }

    #[inline]
    fn value_at(&self, offset: u32) -> Option<u32> {
        (offset < self.size).then_some(offset)
    }
}

impl Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} numbers, {} static", self.size, self.static_band)
    }
}

/// Reads what `Display` writes.
impl FromStr for NumberRange {
    type Err = ParseNumberRangeError;

    fn from_str(text: &str) -> Result<Self, ParseNumberRangeError> {
        let parse = || {
            let (size, band) = text.strip_suffix(" static")?.split_once(" numbers, ")?;
            Self::new(size.parse().ok()?, band.parse().ok()?)
        };
        let canonical = |range: &Self| range.to_string() == text; // without signs and leading zeros
        parse().filter(canonical).ok_or_else(|| ParseNumberRangeError { text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_its_own_text() {
        for (size, band) in [(0, 0), (1, 0), (17, 16), (u32::MAX, u32::MAX - 1)] {
            let range = NumberRange::new(size, band).expect("a range");
            assert_eq!((range.size(), range.static_band()), (size, band));
            assert_eq!(range.to_string().parse(), Ok(range));
        }
        let bad = ["", "17", "17 numbers", "16 numbers, 16 static", "0 numbers, 1 static", "+1 numbers, 0 static"];
        for text in
            bad.into_iter().chain(["01 numbers, 0 static", "4294967296 numbers, 0 static", "1 numbers, 0 static "])
        {
            assert_eq!(text.parse::<NumberRange>(), Err(ParseNumberRangeError { text: text.into() }));
        }
        assert_eq!(NumberRange::new(16, 16), None);
    }
}
