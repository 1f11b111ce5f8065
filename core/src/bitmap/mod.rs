//! A fixed-size set of offsets with a summary tree, so that the next clear offset is found in O(log64 n) at any fill.
//!
//! The words lie in memory in the order and byte order of the stored snapshot (one big-endian integer, offset 0 the
//! lowest bit of the last byte), so that a snapshot is a view of the memory and not a conversion. A single-bit
//! operation pays one byte swap for that, which is a cycle.
//!
//! ```
//! use rangekeeper::bitmap::{Bitmap, Run};
//!
//! let mut bitmap = Bitmap::new(1 << 20);
//! (0..100_000).for_each(|offset| assert!(bitmap.insert(offset)));
//! assert_eq!(bitmap.next_clear(0), Some(100_000));
//! bitmap.remove(5);
//! assert_eq!(bitmap.runs_set(0).next(), Some(Run { first: 0, last: 4 }));
//! assert_eq!(bitmap.count(), 99_999);
//! ```

#[cfg(feature = "ledger")]
mod clear_run;
#[cfg(any(feature = "bitvec", feature = "roaring"))]
mod convert;
mod count;
mod iter;
mod summary;
mod words;

use count::Count;
use summary::Summary;
use words::Words;

#[cfg(feature = "ledger")]
pub(crate) use clear_run::Wanted;
#[cfg(any(feature = "bitvec", feature = "roaring"))]
pub use convert::PastEnd;
pub use iter::{Iter, Run, Runs};

/// Offsets in one word.
const WORD_BITS: u32 = u64::BITS;

/// A set of offsets in `0..len`.
///
/// Memory: `len / 8` bytes and 1/63 of that for the summary. Single-offset operations and searches cost O(log64 len),
/// the first search after a restore or set algebra O(len / 64); set algebra works word by word, and a restore is a
/// copy.
#[derive(Debug)]
pub struct Bitmap {
    len: u32,
    count: Count,
    /// Word `i` (offsets `64 * i..`) is the `i`th from the last, its bytes big-endian.
    words: Words,
    summary: Summary,
}

impl Bitmap {
    /// An empty set over `0..len`. Cost: zeroed memory.
    pub fn new(len: u32) -> Self {
        let words = Words::zero(len.div_ceil(WORD_BITS) as usize);
        let summary = Summary::new(words.len());
        Self { len, count: Count::zero(), words, summary }
    }

    /// The number of offsets, set or clear.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no offset is set.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The number of set offsets. Cost: O(1); O(len / 64) for the first time after a restore or set algebra.
    pub fn count(&self) -> u32 {
        self.count.get(|| self.words.iter().map(|word| u64::from_ne_bytes(*word).count_ones()).sum())
    }

    /// Whether `offset` is set; false past the end.
    #[inline(always)]
    pub fn contains(&self, offset: u32) -> bool {
        offset < self.len && self.stored(offset / WORD_BITS) & stored_bit(offset) != 0
    }

    /// Sets `offset`. Returns whether it was clear; an offset past the end is ignored.
    #[inline(always)]
    pub fn insert(&mut self, offset: u32) -> bool {
        if offset >= self.len {
            return false;
        }
        let index = offset / WORD_BITS;
        let old = self.stored(index);
        let new = old | stored_bit(offset);
        if new == old {
            return false;
        }
        self.added(index, new);
        true
    }

    /// Clears `offset`. Returns whether it was set; an offset past the end is ignored.
    #[inline(always)]
    pub fn remove(&mut self, offset: u32) -> bool {
        if offset >= self.len {
            return false;
        }
        let index = offset / WORD_BITS;
        let old = self.stored(index);
        let new = old & !stored_bit(offset);
        if new == old {
            return false;
        }
        self.store(index, new);
        self.count.take_one();
        if self.is_word_full(index, old) {
            self.summary.mark_not_full(index);
        }
        true
    }

    /// Clears every offset.
    pub fn clear(&mut self) {
        self.words.fill([0; 8]);
        self.changed();
    }

    /// The lowest clear offset that is not below `from`. Cost: O(log64 len); after a restore or set algebra, and before
    /// the first [`insert_next`](Self::insert_next), O(words skipped).
    #[inline(always)]
    pub fn next_clear(&self, from: u32) -> Option<u32> {
        if from >= self.len {
            return None;
        }
        let index = from / WORD_BITS;
        let clear = !self.word(index) & (u64::MAX << (from % WORD_BITS));
        let offset = if clear != 0 {
            index * WORD_BITS + clear.trailing_zeros()
        } else {
            let index = self.next_not_full(index + 1)?;
            index * WORD_BITS + (!self.word(index)).trailing_zeros()
        };
        // In the last word, the bits past the end are clear as well.
        (offset < self.len).then_some(offset)
    }

    /// The first word, not below `from`, that has a clear bit.
    fn next_not_full(&self, from: u32) -> Option<u32> {
        if self.summary.is_known() {
            return self.summary.next_not_full(from);
        }
        (from..self.words.len() as u32).find(|index| !self.is_word_full(*index, self.stored(*index)))
    }

    /// Sets the lowest clear offset in `from..end`, and returns it. Cost: O(log64 len); for the first time after a
    /// restore or set algebra O(len / 64).
    #[inline(always)]
    pub fn insert_next(&mut self, from: u32, end: u32) -> Option<u32> {
        let end = end.min(self.len);
        if from >= end {
            return None;
        }
        let mut index = from / WORD_BITS;
        let mut clear = !self.word(index) & (u64::MAX << (from % WORD_BITS));
        if clear == 0 {
            self.summarize();
            index = self.summary.next_not_full(index + 1)?;
            clear = !self.word(index);
        }
        let offset = index * WORD_BITS + clear.trailing_zeros();
        if offset >= end {
            return None;
        }
        self.added(index, self.stored(index) | stored_bit(offset));
        Some(offset)
    }

    /// Replaces a word by one with one offset more, which is in the byte order of the memory.
    #[inline(always)]
    fn added(&mut self, index: u32, new: u64) {
        self.store(index, new);
        self.count.add_one();
        if self.is_word_full(index, new) {
            self.summary.mark_full(index);
        }
    }

    /// The lowest set offset that is not below `from`. Cost: O(words skipped).
    pub fn next_set(&self, from: u32) -> Option<u32> {
        self.iter_from(from).next()
    }

    /// The set offsets, ascending.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// The set offsets that are not below `from`, ascending.
    pub fn iter_from(&self, from: u32) -> Iter<'_> {
        Iter::new(self, from)
    }

    /// The maximal runs of set offsets from `from` on, ascending. A run that holds `from` is cut there.
    pub fn runs_set(&self, from: u32) -> Runs<'_> {
        Runs::new(self, from, true)
    }

    /// The maximal runs of clear offsets from `from` on, ascending. A run that holds `from` is cut there.
    pub fn runs_clear(&self, from: u32) -> Runs<'_> {
        Runs::new(self, from, false)
    }

    /// How many offsets in `from..to` are set. Cost: O((to - from) / 64).
    pub fn count_range(&self, from: u32, to: u32) -> u32 {
        let to = to.min(self.len);
        if from >= to {
            return 0;
        }
        let (first, last) = (from / WORD_BITS, (to - 1) / WORD_BITS);
        let head = u64::MAX << (from % WORD_BITS);
        let tail = u64::MAX >> (WORD_BITS - 1 - (to - 1) % WORD_BITS);
        if first == last {
            return (self.word(first) & head & tail).count_ones();
        }
        let inner: u32 = (first + 1..last).map(|index| self.word(index).count_ones()).sum();
        (self.word(first) & head).count_ones() + inner + (self.word(last) & tail).count_ones()
    }

    /// Adds every offset of `other`; those past this set's end are ignored. Cost: O(len / 64).
    pub fn union_with(&mut self, other: &Self) {
        self.combine(other, |own, other| own | other);
    }

    /// Removes every offset of `other`. Cost: O(len / 64).
    pub fn difference_with(&mut self, other: &Self) {
        self.combine(other, |own, other| own & !other);
    }

    /// Removes every offset that is not in `other`. Cost: O(len / 64).
    pub fn intersect_with(&mut self, other: &Self) {
        // The words past the end of `other` intersect with the empty set.
        let surplus = self.words.len().saturating_sub(other.words.len());
        self.words[..surplus].fill([0; 8]);
        self.combine(other, |own, other| own & other);
    }

    /// The offsets that are set here and clear in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.difference_with(other);
        result
    }

    /// Whether every offset that is set here is set in `other`. Cost: O(len / 64).
    pub fn is_subset(&self, other: &Self) -> bool {
        let surplus = self.words.len().saturating_sub(other.words.len());
        let (past_other, common) = self.words.split_at(surplus);
        let mut pairs = common.iter().rev().zip(other.words.iter().rev());
        past_other.iter().all(|own| *own == [0; 8])
            && pairs.all(|(own, other)| u64::from_ne_bytes(*own) & !u64::from_ne_bytes(*other) == 0)
    }

    fn combine(&mut self, other: &Self, merge: impl Fn(u64, u64) -> u64) {
        // Bitwise operations are the same in any byte order, so the words need no swap.
        for (own, other) in self.words.iter_mut().rev().zip(other.words.iter().rev()) {
            *own = merge(u64::from_ne_bytes(*own), u64::from_ne_bytes(*other)).to_ne_bytes();
        }
        self.mask_tail();
        self.changed();
    }

    /// The words as bytes, most significant first: the stored form with its leading zero bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.words.as_flattened()
    }

    /// Replaces the set by the one with this stored form, which must fit and have no bit past the end.
    pub(crate) fn load(&mut self, digits: &[u8]) {
        let words = self.words.as_flattened_mut();
        let (zero, stored) = words.split_at_mut(words.len() - digits.len());
        zero.fill(0);
        stored.copy_from_slice(digits);
        debug_assert!(
            self.words.first().is_none_or(|word| u64::from_be_bytes(*word) & self.past_end(self.last_index()) == 0)
        );
        self.changed();
    }

    /// Replaces each word by `merge(index, word)`.
    pub(crate) fn map_words(&mut self, mut merge: impl FnMut(usize, u64) -> u64) {
        for (index, word) in self.words.iter_mut().rev().enumerate() {
            *word = merge(index, u64::from_be_bytes(*word)).to_be_bytes();
        }
        self.mask_tail();
        self.changed();
    }

    #[inline(always)]
    fn word(&self, index: u32) -> u64 {
        u64::from_be_bytes(self.words.last_but(index))
    }

    /// The word as it lies in memory. A change of single bits needs no other order, and WebAssembly has no instruction
    /// for it.
    #[inline(always)]
    fn stored(&self, index: u32) -> u64 {
        u64::from_ne_bytes(self.words.last_but(index))
    }

    #[inline(always)]
    fn store(&mut self, index: u32, stored: u64) {
        *self.words.last_but_mut(index) = stored.to_ne_bytes();
    }

    fn last_index(&self) -> u32 {
        (self.words.len() as u32).wrapping_sub(1)
    }

    /// The bits of word `index` that lie past the end.
    #[inline(always)]
    fn past_end(&self, index: u32) -> u64 {
        let tail = self.len % WORD_BITS;
        if index == self.last_index() && tail != 0 { u64::MAX << tail } else { 0 }
    }

    #[inline(always)]
    fn is_word_full(&self, index: u32, stored: u64) -> bool {
        stored == u64::MAX || (index == self.last_index() && u64::from_be(stored) | self.past_end(index) == u64::MAX)
    }

    fn mask_tail(&mut self) {
        let past_end = self.past_end(self.last_index());
        if let Some(last) = self.words.first_mut() {
            *last = (u64::from_be_bytes(*last) & !past_end).to_be_bytes();
        }
    }

    /// Many words have changed: neither the count nor the summary is known any more.
    fn changed(&mut self) {
        self.count.forget();
        self.summary.forget();
    }

    /// Rebuilds the summary if it is not known. Not done by a restore: most restored bitmaps are changed a little and
    /// stored again, and it takes longer than the copy where there are no vectors.
    #[inline]
    fn summarize(&mut self) {
        if !self.summary.is_known() {
            self.rebuild();
        }
    }

    #[cold]
    fn rebuild(&mut self) {
        let past_end = self.past_end(self.last_index());
        let (partial, chunks) = self.words.as_rchunks::<64>();
        let summary = self.summary.lowest();
        for (chunk, full) in chunks.iter().rev().zip(&mut *summary) {
            *full = if may_have_full(chunk) { full_words(chunk) } else { 0 };
        }
        if let Some(full) = summary.get_mut(chunks.len()) {
            *full = full_words(partial) | (u64::MAX << partial.len());
        }
        if let (Some(full), Some(last)) = (summary.last_mut(), self.words.first())
            && u64::from_be_bytes(*last) | past_end == u64::MAX
        {
            *full |= bit(self.words.len() as u32 - 1);
        }
        self.summary.raise();
    }
}

impl Clone for Bitmap {
    fn clone(&self) -> Self {
        Self { len: self.len, count: self.count.clone(), words: self.words.clone(), summary: self.summary.clone() }
    }

    /// Allocates no memory if both have the same length.
    fn clone_from(&mut self, other: &Self) {
        self.len = other.len;
        self.count = other.count.clone();
        self.words.clone_from(&other.words);
        self.summary.clone_from(&other.summary);
    }
}

/// Two sets are equal if they have the same length and the same offsets are set.
impl PartialEq for Bitmap {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.words == other.words
    }
}

impl Eq for Bitmap {}

impl<'a> IntoIterator for &'a Bitmap {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// What a rebuild compares: halves of words, as every vector unit compares 32 bits at a time; whole words in
/// WebAssembly, which becomes Go without vectors.
#[cfg(not(target_arch = "wasm32"))]
type Part = u32;
#[cfg(target_arch = "wasm32")]
type Part = u64;
const PART: usize = size_of::<Part>();

/// Whether any part of a word has all its bits set, as each full word has. [`full_words`], which compares whole words,
/// takes five times as long with vectors.
#[inline]
fn may_have_full(words: &[[u8; 8]; 64]) -> bool {
    let (parts, _) = words.as_flattened().as_chunks::<PART>();
    parts.iter().fold(false, |any, part| any | (Part::from_ne_bytes(*part) == Part::MAX))
}

/// One bit per word, the lowest one for the last word in memory: whether the word has all its bits set.
fn full_words(words: &[[u8; 8]]) -> u64 {
    words.iter().fold(0, |full, word| full << 1 | u64::from(*word == [u8::MAX; 8]))
}

#[inline(always)]
fn bit(offset: u32) -> u64 {
    1 << (offset % WORD_BITS)
}

/// The bit of an offset in the word as it lies in memory.
#[inline(always)]
fn stored_bit(offset: u32) -> u64 {
    // The bytes of a word have the opposite order on a little-endian machine: byte 7 - i in place of byte i.
    const REVERSED: u32 = if cfg!(target_endian = "little") { 7 * 8 } else { 0 };
    bit(offset ^ REVERSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The summary must have a bit for exactly the words without a clear bit, also after a rebuild.
    fn check(bitmap: &Bitmap) {
        let full: Vec<bool> = (0..bitmap.words.len() as u32)
            .map(|index| (index * WORD_BITS..bitmap.len).take(WORD_BITS as usize).all(|offset| bitmap.contains(offset)))
            .collect();
        let count = (0..bitmap.len).filter(|offset| bitmap.contains(*offset)).count();
        let (mut rebuilt, mut unknown) = (bitmap.clone(), bitmap.clone());
        rebuilt.rebuild();
        unknown.changed();
        for bitmap in [bitmap, &rebuilt, &unknown] {
            assert_eq!(bitmap.count() as usize, count);
            if full.len() > 1 {
                let mut expected = None;
                for index in (0..full.len() as u32).rev() {
                    expected = if full[index as usize] { expected } else { Some(index) };
                    assert_eq!(bitmap.next_not_full(index), expected);
                }
            }
        }
    }

    #[test]
    fn a_run_has_a_length_whatever_its_ends_are() {
        for (first, last, len) in [(0, 0, 1), (5, 9, 5), (5, 3, 0), (0, u32::MAX, 1 << 32), (u32::MAX, 0, 0)] {
            assert_eq!(Run { first, last }.len(), len, "{first} to {last}");
        }
    }

    #[test]
    fn summary_stays_true_while_filling_and_emptying() {
        for len in [0, 1, 63, 64, 65, 127, 4095, 4096, 4097, 262_143, 262_144, 262_145, 300_001] {
            let mut bitmap = Bitmap::new(len);
            check(&bitmap);
            let mut filled = 0;
            while let Some(offset) = bitmap.next_clear(0) {
                assert_eq!(offset, filled);
                assert!(bitmap.insert(offset));
                filled += 1;
                if filled % 4099 == 0 {
                    check(&bitmap);
                }
            }
            assert_eq!(filled, len);
            assert_eq!(bitmap.count(), len);
            check(&bitmap);
            for offset in (0..len).rev() {
                assert!(bitmap.remove(offset));
                assert_eq!(bitmap.next_clear(0), Some(offset));
            }
            check(&bitmap);
            assert!(bitmap.is_empty());
        }
    }

    #[test]
    fn offsets_past_the_end_change_nothing() {
        let mut bitmap = Bitmap::new(70);
        for offset in [70, 71, 127, 128, u32::MAX] {
            assert!(!bitmap.insert(offset));
            assert!(!bitmap.remove(offset));
            assert!(!bitmap.contains(offset));
            assert_eq!(bitmap.next_clear(offset), None);
            assert_eq!(bitmap.next_set(offset), None);
        }
        assert!(bitmap.is_empty());
    }
}
