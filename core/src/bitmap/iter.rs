//! Iterators over the offsets and the runs of a bitmap.

use std::iter::FusedIterator;

use super::{Bitmap, WORD_BITS};

/// A maximal run of offsets that are all set or all clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First offset of the run.
    pub first: u32,
    /// Last offset of the run, inclusive.
    pub last: u32,
}

impl Run {
    /// How many offsets the run has: at least 1; 0 if `last` is below `first`, as in no run of a bitmap.
    #[expect(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub fn len(&self) -> u64 {
        (u64::from(self.last) + 1).saturating_sub(self.first.into())
    }
}

/// Ascending offsets that are set in a [`Bitmap`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    bitmap: &'a Bitmap,
    index: u32,
    word: u64,
}

impl<'a> Iter<'a> {
    /// The set offsets from `from` on.
    pub(super) fn new(bitmap: &'a Bitmap, from: u32) -> Self {
        let index = from / WORD_BITS;
        let word = if from < bitmap.len { bitmap.word(index) & (u64::MAX << (from % WORD_BITS)) } else { 0 };
        Self { bitmap, index, word }
    }
}

impl Iterator for Iter<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.word == 0 {
            if self.index >= self.bitmap.last_index() || self.bitmap.words.is_empty() {
                return None;
            }
            self.index += 1;
            self.word = self.bitmap.word(self.index);
        }
        let offset = self.index * WORD_BITS + self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some(offset)
    }
}

impl FusedIterator for Iter<'_> {}

/// Ascending runs of a [`Bitmap`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    bitmap: &'a Bitmap,
    next: Option<u32>,
    set: bool,
}

impl<'a> Runs<'a> {
    /// The runs of set or of clear offsets from `from` on.
    pub(super) fn new(bitmap: &'a Bitmap, from: u32, set: bool) -> Self {
        Self { bitmap, next: Some(from), set }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let from = self.next.take()?;
        let (first, after) = if self.set {
            let first = self.bitmap.next_set(from)?;
            (first, self.bitmap.next_clear(first))
        } else {
            let first = self.bitmap.next_clear(from)?;
            (first, self.bitmap.next_set(first))
        };
        self.next = after;
        let last = after.unwrap_or(self.bitmap.len) - 1;
        Some(Run { first, last })
    }
}

impl FusedIterator for Runs<'_> {}
