//! A tree of bits that leads a search to the words of a bitmap that have a clear bit.

use super::bit;

/// The number of levels for 2^32 offsets.
const MAX_LEVELS: usize = 5;

/// For each level, one bit per word of the level below; a set bit means that the word has no clear bit.
///
/// Bits past the end of a level are set, so that a search never finds them.
#[derive(Debug)]
pub(super) struct Summary {
    words: Vec<u64>,
    /// Where each level begins in `words`; level 0 summarises the bitmap itself.
    starts: [u32; MAX_LEVELS + 1],
    levels: usize,
    /// Whether `words` are right; else they are to be rewritten before a search.
    is_known: bool,
}

impl Clone for Summary {
    fn clone(&self) -> Self {
        Self { words: self.words.clone(), starts: self.starts, levels: self.levels, is_known: self.is_known }
    }

    fn clone_from(&mut self, other: &Self) {
        self.words.clone_from(&other.words);
        (self.starts, self.levels, self.is_known) = (other.starts, other.levels, other.is_known);
    }
}

impl Summary {
    pub(super) fn new(words_below: usize) -> Self {
        let mut starts = [0; MAX_LEVELS + 1];
        let mut levels = 0;
        let mut words = Vec::new();
        let mut below = words_below;
        while below > 1 {
            let here = below.div_ceil(64);
            words.resize(words.len() + here, 0);
            if let (Some(last), tail @ 1..) = (words.last_mut(), below % 64) {
                *last = u64::MAX << tail;
            }
            levels += 1;
            starts[levels] = words.len() as u32;
            below = here;
        }
        Self { words, starts, levels, is_known: true }
    }

    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Many words of the bitmap have changed.
    pub(super) fn forget(&mut self) {
        self.is_known = false;
    }

    fn level(&self, level: usize) -> &[u64] {
        &self.words[self.starts[level] as usize..self.starts[level + 1] as usize]
    }

    #[inline]
    fn word(&mut self, level: usize, index: u32) -> &mut u64 {
        &mut self.words[(self.starts[level] + index) as usize]
    }

    #[inline(never)]
    pub(super) fn mark_full(&mut self, mut index: u32) {
        for level in 0..self.levels {
            let word = self.word(level, index / 64);
            *word |= bit(index);
            if *word != u64::MAX {
                return;
            }
            index /= 64;
        }
    }

    #[inline(never)]
    pub(super) fn mark_not_full(&mut self, mut index: u32) {
        for level in 0..self.levels {
            let word = self.word(level, index / 64);
            let was_full = *word == u64::MAX;
            *word &= !bit(index);
            if !was_full {
                return;
            }
            index /= 64;
        }
    }

    /// The index of the first word of the bitmap, not below `from`, that has a clear bit.
    #[inline(never)]
    pub(super) fn next_not_full(&self, from: u32) -> Option<u32> {
        let mut from = from;
        for level in 0..self.levels {
            let word = self.level(level).get((from / 64) as usize)?;
            let clear = !word & (u64::MAX << (from % 64));
            if clear != 0 {
                let mut index = from / 64 * 64 + clear.trailing_zeros();
                for below in (0..level).rev() {
                    index = index * 64 + (!self.level(below)[index as usize]).trailing_zeros();
                }
                return Some(index);
            }
            from = from / 64 + 1;
        }
        None
    }

    /// The lowest level, to be rewritten; [`raise`](Self::raise) must follow.
    pub(super) fn lowest(&mut self) -> &mut [u64] {
        let end = self.starts[1.min(self.levels)] as usize;
        &mut self.words[..end]
    }

    /// Rebuilds the other levels from the lowest one.
    pub(super) fn raise(&mut self) {
        self.is_known = true;
        for level in 1..self.levels {
            let (lower, upper) = self.words.split_at_mut(self.starts[level] as usize);
            let lower = &lower[self.starts[level - 1] as usize..];
            for (word, below) in upper.iter_mut().zip(lower.chunks(64)) {
                let full = below.iter().rev().fold(0, |full, word| full << 1 | u64::from(*word == u64::MAX));
                *word = if below.len() < 64 { full | (u64::MAX << below.len()) } else { full };
            }
        }
    }
}
