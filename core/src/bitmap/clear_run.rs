//! The search for several clear offsets in a row.

use std::ops;

use super::{Bitmap, WORD_BITS};

/// After so many words a search asks the summary for the next one that is not full. Asking for each word would cost
/// more than looking at it.
const STRIDE: u32 = 64;

/// How many words a search looks at together.
const CHUNK: u32 = 8;

/// Offsets in a row that are to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// How many offsets; at least 1.
    pub(crate) len: u64,
    /// The first one, plus `phase`, is a multiple of this: a power of two, at most `len`.
    pub(crate) align: u64,
    /// Less than `align`.
    pub(crate) phase: u64,
}

impl Wanted {
    /// `len` offsets that may begin anywhere.
    pub(crate) fn anywhere(len: u64) -> Self {
        Self { len, align: 1, phase: 0 }
    }

    /// The first offset from `from` on at which such a run may begin.
    pub(crate) fn first_from(&self, from: u64) -> Option<u64> {
        from.checked_add(self.phase.wrapping_add(from).wrapping_neg() & (self.align - 1))
    }

    /// Where such a run begins between the offsets `from` and `to`, the latter not included.
    fn between(&self, from: u32, to: u32) -> Option<u32> {
        let first = self.first_from(from.into())?;
        (first + self.len <= to.into()).then_some(first as u32)
    }

    /// The offset in a word, of which `clear` are the clear ones, where such a run begins and does not reach the end of
    /// the word. `begins` are the offsets in a word at which it may.
    fn inside(&self, clear: u64, begins: u64) -> Option<u32> {
        if self.len >= WORD_BITS.into() {
            return None;
        }
        // Bit n says whether offset n and the `have - 1` offsets after it are clear.
        let (mut runs, mut have) = (clear, 1);
        while have < self.len && runs != 0 {
            let more = have.min(self.len - have);
            runs &= runs >> more;
            have += more;
        }
        let runs = runs & begins;
        (runs != 0).then(|| runs.trailing_zeros())
    }

    /// The offsets in a word at which such a run may begin, as bits: the same ones in every word.
    fn begins(&self) -> u64 {
        if self.align >= WORD_BITS.into() {
            return 0; // not asked: see `inside`
        }
        let every = u64::MAX / ((1 << self.align) - 1);
        every << (self.phase.wrapping_neg() & (self.align - 1))
    }
}

impl Bitmap {
    /// The first offset of the lowest run of clear offsets in `within` that is as `wanted`: at least two.
    ///
    /// Cost: less than a nanosecond for each word where no two clear offsets are neighbours, and a few where some are;
    /// in long full stretches that of [`next_clear`](Self::next_clear).
    pub(crate) fn next_clear_run(&self, within: ops::Range<u32>, wanted: Wanted) -> Option<u32> {
        let (from, to) = (within.start, within.end.min(self.len()));
        if from >= to {
            return None;
        }
        let (start, last) = (from / WORD_BITS, (to - 1) / WORD_BITS);
        let begins = wanted.begins();
        // All offsets from here up to the word are clear.
        let mut first = from;
        let mut index = start;
        while index <= last {
            if index.is_multiple_of(CHUNK) && index > start {
                let next = if index.is_multiple_of(STRIDE) { self.next_not_full(index)? } else { index };
                if next > index {
                    (index, first) = (next, next * WORD_BITS);
                    continue;
                }
                let end = (index / STRIDE + 1) * STRIDE;
                let next = self.pass_single(index, end.min(last));
                if next > index {
                    index = next;
                    first = index * WORD_BITS - (self.word(index - 1) >> (WORD_BITS - 1) ^ 1) as u32;
                    continue;
                }
            }
            let base = index * WORD_BITS;
            let mut clear = !self.word(index);
            if index == start {
                clear &= u64::MAX << (from % WORD_BITS);
            }
            if index == last {
                clear &= u64::MAX >> (WORD_BITS - 1 - (to - 1) % WORD_BITS);
            }
            if clear == u64::MAX {
                if let Some(found) = wanted.between(first, base + WORD_BITS) {
                    return Some(found);
                }
            } else {
                if clear & (clear << 1 | u64::from(first < base)) != 0 {
                    let head = wanted.between(first, base + clear.trailing_ones());
                    if let Some(found) = head.or_else(|| Some(base + wanted.inside(clear, begins)?)) {
                        return Some(found);
                    }
                }
                first = base + WORD_BITS - clear.leading_ones();
            }
            index += 1;
        }
        None
    }

    /// Passes chunks of words, from `index` up to `end`, in which no two neighbours are clear, as in most words of a
    /// full bitmap. Returns the index of the first word that was not passed. There is a word before `index`.
    fn pass_single(&self, index: u32, end: u32) -> u32 {
        const BYTES: usize = CHUNK as usize * size_of::<u64>();
        // The bytes lie in memory with the highest offsets first. The byte after those of a chunk has the offsets
        // before them.
        let all = self.words.as_flattened();
        let mut after = all.len() - index as usize * size_of::<u64>();
        let mut chunks = (end - index) / CHUNK;
        while chunks > 0 {
            let bytes = &all[after - BYTES..=after];
            let neighbours = bytes[..BYTES].iter().zip(&bytes[1..]).fold(0, |found, (higher, lower)| {
                let clear = !higher;
                found | clear & (clear << 1 | !lower >> 7)
            });
            if neighbours != 0 {
                break;
            }
            after -= BYTES;
            chunks -= 1;
        }
        end - (end - index) % CHUNK - chunks * CHUNK
    }
}
