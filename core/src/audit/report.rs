//! The result of an audit.

use std::borrow::Cow;

use crate::any::{AnyRange, AnyValue};
use crate::bitmap::Bitmap;
use crate::finding::Finding;

use crate::range::{Band, Range};

use super::ServiceCidrReport;
use super::occupancy::{Cell, cells};
use super::offsets::{Offsets, Values};

/// The result of an audit.
#[derive(Clone, Debug)]
pub struct Report {
    /// One for each range, in the order in which they were added.
    pub ranges: Vec<RangeReport>,
    /// The findings about Services, in the order of Services, then those about IPAddress objects, in the order of objects.
    pub findings: Vec<Finding>,
    /// The number of observed Services.
    pub services: u64,
    pub(super) object_leaks: Vec<Leak>,
}

/// The result for one range.
#[derive(Clone, Debug)]
pub enum RangeReport {
    /// A bitmap that was compared with the Services.
    Bitmap(BitmapReport),
    /// A bitmap of ClusterIPs that is no longer used, since ClusterIPs are IPAddress objects. It is counted and not compared:
    /// all its values count as in use.
    Stale(BitmapReport),
    /// A CIDR of a ServiceCIDR object, compared with the IPAddress objects and the Services.
    ServiceCidr(ServiceCidrReport),
}

/// A value that is recorded as allocated though no Service uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The range that has the value; of several, the first that was added. For an address that no range has, the first
    /// range of its family; `None` if there is no range of addresses.
    pub range: Option<usize>,
    /// The value.
    pub value: AnyValue,
    /// The IPAddress object that records it, by its place among those that were observed: 0 is the first. `None` if a
    /// bitmap records it.
    pub object: Option<u64>,
}

/// Counts of the values of a range, by the sets of [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// How many values the range has; at most `u64::MAX`.
    pub size: u64,
    /// How many of the lowest values form the static band (KEP-3070, KEP-3668).
    pub static_band: u32,
    /// Values that were recorded as allocated, without the dropped ones.
    pub stored: u64,
    /// Values that Services use.
    pub in_use: u64,
    /// Values that are recorded as allocated though no Service uses them.
    pub leaked: u64,
    /// Values that are allocated after the repair.
    pub next: u64,
    /// Values that the repair allocates.
    pub set: u64,
    /// Values that the repair frees.
    pub clear: u64,
    /// Values that more than one Service claims.
    pub duplicates: u64,
    /// Stored values that the configured range does not have: above 0 only after a change of the range.
    pub dropped: u32,
}

/// Everything that an audit knows about one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetState {
    /// The band it lies in.
    pub band: Band,
    /// Whether it was recorded as allocated.
    pub stored: bool,
    /// Whether a Service uses it.
    pub in_use: bool,
    /// Whether more than one Service claims it.
    pub duplicate: bool,
    /// Whether it is allocated after the repair, which is the API server's own if ClusterIPs are IPAddress objects.
    pub next: bool,
}

impl Report {
    /// The bitmaps that were compared with the Services, with their places among the ranges.
    pub fn bitmaps(&self) -> impl Iterator<Item = (usize, &BitmapReport)> {
        self.ranges.iter().enumerate().filter_map(|(index, range)| match range {
            RangeReport::Bitmap(bitmap) => Some((index, bitmap)),
            RangeReport::Stale(_) | RangeReport::ServiceCidr(_) => None,
        })
    }

    /// The result for the bitmap at this place; `None` if the range there is not a bitmap that was compared with the Services.
    pub fn bitmap(&self, range: usize) -> Option<&BitmapReport> {
        self.bitmaps().find(|(index, _)| *index == range).map(|(_, bitmap)| bitmap)
    }

    /// The leaks: first those of bitmaps, by range and value, due to be cleaned or not. Then, in the order of objects, the
    /// IPAddress objects of the allocator whose Service does not exist, unless another Service uses the address.
    ///
    /// Cost: a copy of each bitmap.
    pub fn leaks(&self) -> impl Iterator<Item = Leak> + '_ {
        let in_bitmaps = self.bitmaps().flat_map(|(index, bitmap)| {
            let values: Vec<AnyValue> =
                bitmap.leaked().iter().filter_map(|offset| bitmap.range().value_at(offset)).collect();
            values.into_iter().map(move |value| Leak { range: Some(index), value, object: None })
        });
        in_bitmaps.chain(self.object_leaks.iter().copied())
    }
}

impl RangeReport {
    /// The offsets of one set of values. Cost: up to a copy of the bitmap.
    pub fn offsets(&self, values: Values) -> Offsets<'_> {
        match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) => Offsets::Bitmap(bitmap.offsets(values)),
            Self::ServiceCidr(cidr) => Offsets::List(cidr.offsets(values)),
        }
    }

    /// The value at an offset; `None` past the end.
    pub fn value_at(&self, offset: u64) -> Option<AnyValue> {
        match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) => bitmap.range().value_at(u32::try_from(offset).ok()?),
            Self::ServiceCidr(cidr) => cidr.cidr().value_at(offset).map(AnyValue::Address),
        }
    }

    /// How many values the range has.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) => bitmap.range().size().into(),
            Self::ServiceCidr(cidr) => cidr.cidr().size(),
        }
    }

    /// Counts all sets of values. Cost: O(size / 64) for a bitmap.
    pub fn counts(&self) -> Counts {
        let count = |values| self.offsets(values).count();
        let (static_band, dropped) = match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) => (bitmap.range().static_band(), bitmap.dropped()),
            Self::ServiceCidr(cidr) => (cidr.cidr().static_band(), 0),
        };
        Counts {
            size: self.size(),
            static_band,
            stored: count(Values::Stored),
            in_use: count(Values::InUse),
            leaked: count(Values::Leaked),
            next: count(Values::Next),
            set: count(Values::Set),
            clear: count(Values::Clear),
            duplicates: count(Values::Duplicates),
            dropped,
        }
    }

    /// Everything about one value; `None` if the range cannot allocate it.
    pub fn state_of(&self, value: AnyValue) -> Option<OffsetState> {
        match (self, value) {
            (Self::Bitmap(bitmap) | Self::Stale(bitmap), value) => bitmap.state_of(value),
            (Self::ServiceCidr(cidr), AnyValue::Address(address)) => cidr.state_of(address),
            (Self::ServiceCidr(_), AnyValue::Port(_)) => None,
        }
    }

    /// The range cut into at most `count` cells of equal length (the last may be shorter), with counts for a picture.
    pub fn occupancy(&self, count: u32) -> Box<dyn ExactSizeIterator<Item = Cell> + '_> {
        match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) => Box::new(bitmap.occupancy(count)),
            Self::ServiceCidr(cidr) => Box::new(cidr.occupancy(count)),
        }
    }
}

/// The result for one stored bitmap.
#[derive(Clone, Debug)]
pub struct BitmapReport {
    range: AnyRange,
    stored: Bitmap,
    dropped: u32,
    in_use: Bitmap,
    duplicates: Vec<u32>,
    /// The bitmap to store, if it has more than the values in use.
    next: Option<Bitmap>,
}

impl BitmapReport {
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

    /// The configured range, of which the offsets are.
    pub fn range(&self) -> AnyRange {
        self.range
    }

    /// The stored values before the audit.
    pub fn stored(&self) -> &Bitmap {
        &self.stored
    }

    /// How many stored values the configured range does not have: above 0 only after a change of the range.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// The values that Services use.
    pub fn in_use(&self) -> &Bitmap {
        &self.in_use
    }

    /// The stored values that no Service uses, due to be cleaned or not. Cost: a copy of the bitmap.
    pub fn leaked(&self) -> Bitmap {
        self.stored.difference(&self.in_use)
    }

    /// The offsets that more than one Service claims, ascending.
    pub fn duplicates(&self) -> &[u32] {
        &self.duplicates
    }

    /// The bitmap to store: the values that Services use, and the leaks that are kept.
    pub fn next(&self) -> &Bitmap {
        self.next.as_ref().unwrap_or(&self.in_use)
    }

    /// The values to set. Cost: a copy of the bitmap.
    pub fn set(&self) -> Bitmap {
        self.next().difference(&self.stored)
    }

    /// The values to clear. Cost: a copy of the bitmap.
    pub fn clear(&self) -> Bitmap {
        self.stored.difference(self.next())
    }

    fn offsets(&self, values: Values) -> Cow<'_, Bitmap> {
        match values {
            Values::Set => Cow::Owned(self.set()),
            Values::Clear => Cow::Owned(self.clear()),
            Values::Leaked => Cow::Owned(self.leaked()),
            Values::Duplicates => {
                let mut duplicates = Bitmap::new(self.range.size());
                for offset in &self.duplicates {
                    duplicates.insert(*offset);
                }
                Cow::Owned(duplicates)
            }
            Values::Stored => Cow::Borrowed(&self.stored),
            Values::InUse => Cow::Borrowed(&self.in_use),
            Values::Next => Cow::Borrowed(self.next()),
        }
    }

    /// Everything about one value; `None` if the range cannot allocate it.
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
    pub fn occupancy(&self, count: u32) -> impl ExactSizeIterator<Item = Cell> + '_ {
        let (size, leaked) = (self.range.size(), self.leaked());
        cells(u64::from(size), count, move |from, to| {
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
