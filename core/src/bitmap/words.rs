//! The memory of a bitmap.
//!
//! The words of a large bitmap begin at a page. A snapshot and a restore are mostly a copy, and callers' buffers of
//! that size begin at a page too or, from malloc, a little after one. A copy takes a tenth longer if its source begins
//! later in a page than its target, since the processor compares loads with earlier stores by the low 12 bits alone.

use std::ops::{Deref, DerefMut};

const PAGE: usize = 4096;
const WORDS_PER_PAGE: usize = PAGE / size_of::<[u8; 8]>();
/// The number of words that make a bitmap large, so that the memory before the page is no matter.
const LARGE: usize = 16 * WORDS_PER_PAGE;

#[derive(Debug)]
pub(super) struct Words {
    /// The words, after as many unused ones as it takes to begin at a page.
    memory: Vec<[u8; 8]>,
    start: usize,
}

impl Words {
    /// Cost: zeroed memory.
    pub(super) fn zero(len: usize) -> Self {
        let spare = if len < LARGE { 0 } else { WORDS_PER_PAGE - 1 };
        let mut memory = vec![[0; 8]; spare + len];
        // Blocks are aligned to words; should one not be, the words do not begin at a page.
        let start = memory.as_ptr().align_offset(PAGE).min(spare);
        memory.truncate(start + len);
        Self { memory, start }
    }

    /// The word at `index`, counted from the last one.
    #[inline(always)]
    pub(super) fn last_but(&self, index: u32) -> [u8; 8] {
        self.memory[self.memory.len() - 1 - index as usize]
    }

    /// Like [`last_but`](Self::last_but), mutable.
    #[inline(always)]
    pub(super) fn last_but_mut(&mut self, index: u32) -> &mut [u8; 8] {
        let at = self.memory.len() - 1 - index as usize;
        &mut self.memory[at]
    }
}

impl Deref for Words {
    type Target = [[u8; 8]];

    #[inline]
    fn deref(&self) -> &[[u8; 8]] {
        &self.memory[self.start..]
    }
}

impl DerefMut for Words {
    #[inline]
    fn deref_mut(&mut self) -> &mut [[u8; 8]] {
        &mut self.memory[self.start..]
    }
}

impl Clone for Words {
    fn clone(&self) -> Self {
        let mut words = Self::zero(self.len());
        words.copy_from_slice(self);
        words
    }

    fn clone_from(&mut self, other: &Self) {
        if self.len() == other.len() {
            self.copy_from_slice(other);
        } else {
            *self = other.clone();
        }
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ones_begin_at_a_page() {
        for len in [0, 1, 7, 8, 9, 1000, LARGE - 1, LARGE, LARGE + 1, 16_384, 16_385] {
            let mut words = Words::zero(len);
            assert_eq!(*words, *vec![[0; 8]; len]);
            for (at, word) in words.iter_mut().enumerate() {
                *word = at.to_be_bytes();
            }
            let clone = words.clone();
            assert_eq!(clone, words);
            for index in 0..len {
                assert_eq!(words.last_but(index as u32), (len - 1 - index).to_be_bytes());
                *words.last_but_mut(index as u32) = [1; 8];
            }
            for words in [&words, &clone] {
                assert_eq!(words.len(), len);
                assert!(len < LARGE || words.as_ptr().addr().is_multiple_of(PAGE), "{len} words");
            }
            assert_eq!(*words, *vec![[1; 8]; len]);
        }
    }
}
