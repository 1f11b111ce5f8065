//! What a repair pass found out.

use crate::any::{AnyRange, AnyValue};
use crate::bitmap::Bitmap;
use crate::finding::Finding;
use crate::occupancy::{Cell, cells};
use crate::range::{Band, Range};

/// The result of a pass over all Services.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One for each range of the pass, in the order in which they were added.
    pub ranges: Vec<RangeOutcome>,
    /// What is wrong with Services, in the order of the Services.
    pub findings: Vec<Finding>,
    /// How many Services were observed.
    pub services: u64,
}

/// What a pass found out about one range.
#[derive(Clone, Debug)]
pub struct RangeOutcome {
    range: AnyRange,
    stored: Bitmap,
    dropped: u32,
    in_use: Bitmap,
    duplicates: Vec<u32>,
    /// What is to be stored, if that is more than what is in use.
    next: Option<Bitmap>,
}

/// Everything a pass knows about one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetState {
    /// The band it lies in.
    pub band: Band,
    /// Whether it was stored as allocated.
    pub stored: bool,
    /// Whether a Service uses it.
    pub in_use: bool,
    /// Whether more than one Service claims it.
    pub duplicate: bool,
    /// Whether it is allocated after the repair.
    pub next: bool,
}

impl RangeOutcome {
    pub(super) fn new(
        range: AnyRange,
        stored: Bitmap,
        dropped: u32,
        in_use: Bitmap,
        mut duplicates: Vec<u32>,
        next: Option<Bitmap>,
    ) -> Self {
        duplicates.sort_unstable();
        duplicates.dedup();
        Self { range, stored, dropped, in_use, duplicates, next }
    }

    /// The configured range, which the offsets count in.
    pub fn range(&self) -> AnyRange {
        self.range
    }

    /// What was stored before the pass.
    pub fn stored(&self) -> &Bitmap {
        &self.stored
    }

    /// How many stored values the configured range does not have: above 0 only after a change of the range.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// What Services use.
    pub fn in_use(&self) -> &Bitmap {
        &self.in_use
    }

    /// What is stored though no Service uses it, due to be cleaned or not. Cost: a copy of the bitmap.
    pub fn leaked(&self) -> Bitmap {
        self.stored.difference(&self.in_use)
    }

    /// The offsets that more than one Service claims, ascending.
    pub fn duplicates(&self) -> &[u32] {
        &self.duplicates
    }

    /// What is to be stored: what Services use, and the leaks that stay.
    pub fn next(&self) -> &Bitmap {
        self.next.as_ref().unwrap_or(&self.in_use)
    }

    /// The part of the diff to be set. Cost: a copy of the bitmap.
    pub fn set(&self) -> Bitmap {
        self.next().difference(&self.stored)
    }

    /// The part of the diff to be cleared. Cost: a copy of the bitmap.
    pub fn clear(&self) -> Bitmap {
        self.stored.difference(self.next())
    }

    /// Everything about one value; `None` if the range does not hand it out.
    pub fn state_of(&self, value: AnyValue) -> Option<OffsetState> {
        let offset = self.range.offset_of(value)?;
        Some(OffsetState {
            band: self.range.band_of(offset),
            stored: self.stored.contains(offset),
            in_use: self.in_use.contains(offset),
            duplicate: self.duplicates.binary_search(&offset).is_ok(),
            next: self.next().contains(offset),
        })
    }

    /// The range cut into at most `count` cells of equal length (the last may be shorter), with counts for a picture.
    pub fn occupancy(&self, count: u32) -> Vec<Cell> {
        let (size, leaked) = (self.range.size(), self.leaked());
        cells(u64::from(size), count, |from, to| {
            let (from, to) = (from as u32, to as u32);
            let in_use = self.in_use.count_range(from, to);
            let leaked = leaked.count_range(from, to);
            let lost = in_use + leaked - self.stored.count_range(from, to);
            let duplicate =
                self.duplicates.partition_point(|at| *at < to) - self.duplicates.partition_point(|at| *at < from);
            Cell {
                first: u64::from(from),
                len: u64::from(to - from),
                in_use: u64::from(in_use),
                leaked: u64::from(leaked),
                lost: u64::from(lost),
                duplicate: duplicate as u64,
            }
        })
    }
}
