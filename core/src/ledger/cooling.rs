//! The offsets that were released and stay out of use for some time.

use std::collections::BTreeSet;

use super::runs::Runs;

/// Offsets with the time until which they are out of use, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Cooling {
    ends: Runs<u64>,
    by_end: BTreeSet<(u64, u64)>,
    offsets: u64,
}

impl Cooling {
    /// How many offsets are out of use.
    pub(super) fn offsets(&self) -> u64 {
        self.offsets
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The entry that has this offset: its first offset, length and end.
    pub(super) fn at(&self, offset: u64) -> Option<(u64, u32, u64)> {
        self.ends.at(offset).map(|(first, len, until)| (first, len, *until))
    }

    /// Adds offsets that are not there. False, and nothing is changed, if one is.
    pub(super) fn insert(&mut self, first: u64, len: u32, until: u64) -> bool {
        if !self.ends.insert(first, len, until) {
            return false;
        }
        self.by_end.insert((until, first));
        self.offsets += u64::from(len);
        true
    }

    /// Takes the entry out that begins at this offset. Returns its length.
    pub(super) fn remove(&mut self, first: u64) -> Option<u32> {
        let (len, until) = self.ends.remove(first)?;
        self.by_end.remove(&(until, first));
        self.offsets -= u64::from(len);
        Some(len)
    }

    /// Lets no entry end later than this. Returns whether one would have. Cost: O(1) if none would.
    pub(super) fn end_by(&mut self, latest: u64) -> bool {
        let mut is_changed = false;
        while self.by_end.last().is_some_and(|(until, _)| *until > latest)
            && let Some((_, first)) = self.by_end.pop_last()
            && let Some((len, _)) = self.ends.remove(first)
        {
            self.ends.insert(first, len, latest);
            self.by_end.insert((latest, first));
            is_changed = true;
        }
        is_changed
    }

    /// The entry that ends first: its end and its first offset.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        self.by_end.first().copied()
    }

    /// All: first offset, length and end.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32, u64)> {
        self.ends.iter().map(|(first, len, until)| (first, len, *until))
    }
}
