//! Sets of values of a range, and their runs.

use std::borrow::Cow;

use crate::bitmap::Bitmap;

/// A set of values of a range in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Values {
    /// Values that the repair allocates.
    Set,
    /// Values that the repair frees.
    Clear,
    /// Values that are recorded as allocated though no Service uses them, due to be freed or not.
    Leaked,
    /// Values that more than one Service claims.
    Duplicates,
    /// Values that were recorded as allocated before the audit.
    Stored,
    /// Values that Services use.
    InUse,
    /// Values that are allocated after the repair.
    Next,
}

/// Offsets of a range.
#[derive(Clone, Debug)]
pub enum Offsets<'a> {
    /// As a bitmap.
    Bitmap(Cow<'a, Bitmap>),
    /// As a list, ascending.
    List(Cow<'a, [u64]>),
}

/// A maximal run of offsets, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRun {
    /// The first offset.
    pub first: u64,
    /// The last offset.
    pub last: u64,
}

impl OffsetRun {
    /// How many offsets the run has: at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

impl Offsets<'_> {
    /// How many there are.
    pub fn count(&self) -> u64 {
        match self {
            Self::Bitmap(bitmap) => bitmap.count().into(),
            Self::List(offsets) => offsets.len() as u64,
        }
    }

    /// The same, without a borrow.
    pub fn into_owned(self) -> Offsets<'static> {
        match self {
            Self::Bitmap(bitmap) => Offsets::Bitmap(Cow::Owned(bitmap.into_owned())),
            Self::List(offsets) => Offsets::List(Cow::Owned(offsets.into_owned())),
        }
    }

    /// The offsets from `from` on, ascending.
    pub fn iter_from(&self, from: u64) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Self::Bitmap(bitmap) => Box::new(bitmap.iter_from(clamped(from)).map(u64::from)),
            Self::List(offsets) => Box::new(offsets[offsets.partition_point(|at| *at < from)..].iter().copied()),
        }
    }

    /// The maximal runs of offsets from `from` on: with `members` of those in the set, else of those below `size` that
    /// are not in it. A run that holds `from` is cut there.
    pub fn runs(&self, members: bool, size: u64, from: u64) -> Box<dyn Iterator<Item = OffsetRun> + '_> {
        let of = |run: crate::bitmap::Run| OffsetRun { first: run.first.into(), last: run.last.into() };
        match self {
            Self::Bitmap(bitmap) if members => Box::new(bitmap.runs_set(clamped(from)).map(of)),
            Self::Bitmap(bitmap) => Box::new(bitmap.runs_clear(clamped(from)).map(of)),
            Self::List(offsets) if members => Box::new(runs_of(offsets, from)),
            Self::List(offsets) => Box::new(gaps_of(offsets, size, from)),
        }
    }
}

/// The offset in a bitmap. One that is too large is past the end of any bitmap.
fn clamped(offset: u64) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

fn runs_of(offsets: &[u64], from: u64) -> impl Iterator<Item = OffsetRun> + '_ {
    let rest = &offsets[offsets.partition_point(|at| *at < from)..];
    rest.chunk_by(|one, other| *other - *one <= 1).filter_map(|run| {
        let (first, last) = (*run.first()?, *run.last()?);
        Some(OffsetRun { first, last })
    })
}

fn gaps_of(offsets: &[u64], size: u64, from: u64) -> impl Iterator<Item = OffsetRun> + '_ {
    // Each run of members, and the end, closes the gap before it.
    let end = OffsetRun { first: size, last: size };
    let mut next = from;
    runs_of(offsets, from).chain([end]).filter_map(move |run| {
        let first = std::mem::replace(&mut next, run.last.saturating_add(1));
        (first < run.first).then(|| OffsetRun { first, last: run.first - 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_lists_are_those_of_bitmaps() {
        let mut runs = 0;
        for bits in 0..1_u64 << 10 {
            for size in [10, 11] {
                let mut bitmap = Bitmap::new(size);
                for at in (0..10).filter(|at| bits >> at & 1 == 1) {
                    bitmap.insert(at);
                }
                let list: Vec<u64> = bitmap.iter().map(u64::from).collect();
                let (bitmap, list) = (Offsets::Bitmap(Cow::Owned(bitmap)), Offsets::List(Cow::Owned(list)));
                assert_eq!(bitmap.count(), list.count());
                for from in 0..13 {
                    let of = |offsets: &Offsets<'_>| offsets.iter_from(from).collect::<Vec<_>>();
                    assert_eq!(of(&bitmap), of(&list), "{bits:b} from {from}");
                    for members in [true, false] {
                        let of = |offsets: &Offsets<'_>| offsets.runs(members, size.into(), from).collect::<Vec<_>>();
                        assert_eq!(of(&bitmap), of(&list), "{bits:b} of {size} from {from}: {members}");
                        runs += of(&list).len();
                    }
                }
            }
        }
        assert!(runs > 10_000, "{runs}");
    }

    #[test]
    fn the_last_gap_ends_at_the_size() {
        let last = u64::MAX - 1;
        let offsets = Offsets::List(Cow::Owned(vec![0, last]));
        let runs: Vec<_> = offsets.runs(false, u64::MAX, 0).collect();
        assert_eq!(runs, [OffsetRun { first: 1, last: last - 1 }]);
        assert_eq!(Offsets::List(Cow::Owned(vec![])).runs(false, 0, 0).count(), 0, "there are no offsets");
    }
}
