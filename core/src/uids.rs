//! Ranges of UID blocks, as OpenShift's `scc-uid` RangeAllocation holds them.
//!
//! Format and meaning: openshift/library-go `pkg/security/uid`: `start-end/size` cuts the UIDs from `start` to `end`
//! into blocks of `size`; a rest that fills no block is not used.

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::range::Range;

/// One block of UIDs; `Display` gives `start/size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UidBlock {
    /// The first UID.
    pub start: u32,
    /// How many UIDs.
    pub size: u32,
}

/// The blocks of a range of UIDs; offset 0 is the block that begins at `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UidRange {
    start: u32,
    end: u32,
    block: u32,
}

/// Why a text is no range of UID blocks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseUidRangeError {
    /// It does not have the form `start-end/size`.
    #[error("UID range {text:?} is not START-END/SIZE")]
    Form {
        /// The input.
        text: String,
    },
    /// A part of it is no UID.
    #[error("UID range {text:?}: {part:?} is not a number up to 4294967295")]
    Number {
        /// The input.
        text: String,
        /// The part that should be a number.
        part: String,
    },
    /// It ends before it begins.
    #[error("UID range {text:?} ends before it begins")]
    Reversed {
        /// The input.
        text: String,
    },
    /// The blocks are empty, or larger than the range.
    #[error("UID range {text:?}: blocks must have at least one UID and fit into the range")]
    BlockSize {
        /// The input.
        text: String,
    },
    /// More blocks than offsets can count (only all 2^32 UIDs in blocks of one).
    #[error("UID range {text:?} has more than 4294967295 blocks")]
    TooManyBlocks {
        /// The input.
        text: String,
    },
}

impl UidRange {
    fn uids(&self) -> u64 {
        u64::from(self.end - self.start) + 1
    }
}

impl Range for UidRange {
    type Value = UidBlock;

    fn size(&self) -> u32 {
        (self.uids() / u64::from(self.block)) as u32
    }

    /// UID blocks have no static band.
    fn static_band(&self) -> u32 {
        0
    }

    fn offset_of(&self, value: UidBlock) -> Option<u32> {
        let distance = value.start.checked_sub(self.start)?;
        let offset = distance / self.block;
        (value.size == self.block && distance % self.block == 0 && offset < self.size()).then_some(offset)
    }

    fn value_at(&self, offset: u32) -> Option<UidBlock> {
        (offset < self.size()).then(|| UidBlock { start: self.start + offset * self.block, size: self.block })
    }
}

impl Display for UidBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.start, self.size)
    }
}

impl Display for UidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}/{}", self.start, self.end, self.block)
    }
}

impl FromStr for UidRange {
    type Err = ParseUidRangeError;

    fn from_str(text: &str) -> Result<Self, ParseUidRangeError> {
        use ParseUidRangeError as E;
        // The standard parser would take a sign as well.
        let number = |part: &str| {
            let digits = Some(part).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            let number = digits.and_then(|digits| digits.parse().ok());
            number.ok_or_else(|| E::Number { text: text.into(), part: part.into() })
        };
        let form = || E::Form { text: text.into() };
        let (uids, block) = text.split_once('/').ok_or_else(form)?;
        let (start, end) = uids.split_once('-').ok_or_else(form)?;
        let range = Self { start: number(start)?, end: number(end)?, block: number(block)? };
        if range.end < range.start {
            return Err(E::Reversed { text: text.into() });
        }
        if range.block == 0 || u64::from(range.block) > range.uids() {
            return Err(E::BlockSize { text: text.into() });
        }
        if range.uids() / u64::from(range.block) > u64::from(u32::MAX) {
            return Err(E::TooManyBlocks { text: text.into() });
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_digits_only() {
        let range: UidRange = "1000000000-1999999999/10000".parse().expect("OpenShift's default");
        assert_eq!((range.size(), range.value_at(1)), (100_000, Some(UidBlock { start: 1_000_010_000, size: 10_000 })));
        for text in ["+1-100/10", "1-+100/10", "1-100/+10", "-1-100/10", "1-100/ 10", "1-/10", "-100/10", "1-100/"] {
            let error = text.parse::<UidRange>().expect_err(text);
            assert!(matches!(error, ParseUidRangeError::Number { .. }), "{text}: {error}");
        }
    }
}
