//! Leak counters: how many passes in a row an offset has been leaked.
//!
//! An offset is leaked if it is set in the stored bitmap though no Service uses it. Between an allocation and the write
//! of its Service this is normal, so a leak is cleaned only after several passes in a row have seen it. The counters
//! are bit planes (plane i holds bit i of every counter), so that a pass costs a few operations per 64 offsets.
//!
//! A counter lives only while its offset stays leaked without a break: it is 0 again once the offset was cleaned, used,
//! released or reallocated. (The reference's lives until the offset is in use. After it has cleaned an address once, it
//! cleans the next allocation of that address without any grace.)
//!
//! ```
//! use rangekeeper::bitmap::Bitmap;
//! use rangekeeper::leak::{DEFAULT_PASSES, LeakCounters};
//!
//! let mut counters = LeakCounters::new(8, DEFAULT_PASSES);
//! for pass in 1..=3 {
//!     let mut leaked = Bitmap::new(8);
//!     leaked.insert(5);
//!     counters.advance(&mut leaked);
//!     assert_eq!(leaked.contains(5), pass == 3, "due in the third pass");
//! }
//! ```

use std::num::NonZeroU8;

use crate::bitmap::Bitmap;

/// The number of passes after which a leak is cleaned, unless configured otherwise (the reference's
/// `numRepairsBeforeLeakCleanup`).
pub const DEFAULT_PASSES: NonZeroU8 = NonZeroU8::new(3).expect("3 is not zero");

/// A counter for each offset of a range.
///
/// Memory: `ceil(log2(passes + 1))` bits per offset, nothing before the first leak.
#[derive(Clone, Debug)]
pub struct LeakCounters {
    passes: NonZeroU8,
    len: u32,
    /// Plane i holds bit i of each counter; word w of a plane holds the offsets 64w to 64w + 63. Empty if all are 0.
    planes: Vec<Vec<u64>>,
}

impl LeakCounters {
    /// Counters at 0 for the offsets `0..len`; a leak is cleaned in the pass that sees it for the `passes`th time.
    pub fn new(len: u32, passes: NonZeroU8) -> Self {
        Self { passes, len, planes: Vec::new() }
    }

    /// The number of passes that must see a leak before it is cleaned.
    pub fn passes(&self) -> NonZeroU8 {
        self.passes
    }

    /// How many offsets have a counter.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no offset is counted as leaked.
    pub fn is_empty(&self) -> bool {
        self.planes.is_empty()
    }

    /// The number of passes in a row, up to the last one, in which `offset` was leaked; 0 past the end.
    pub fn count(&self, offset: u32) -> u8 {
        let (word, bit) = (offset as usize / 64, offset % 64);
        let bit_of = |plane: &Vec<u64>| plane.get(word).map_or(0, |word| (word >> bit & 1) as u8);
        self.planes.iter().rev().fold(0, |count, plane| count << 1 | bit_of(plane))
    }

    /// The offsets that are counted as leaked, ascending. Cost: O(len / 64) per plane.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.len.div_ceil(64) * u32::from(!self.planes.is_empty());
        (0..words).flat_map(|index| {
            let mut word = self.planes.iter().fold(0, |any, plane| any | plane[index as usize]);
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// Counts a pass that saw exactly the offsets of `leaked`. Leaves in `leaked` those that are due to be cleaned,
    /// whose counters are 0 again. Offsets past the end are never due.
    ///
    /// Cost: O(len / 64) word operations per plane.
    pub fn advance(&mut self, leaked: &mut Bitmap) {
        if leaked.len() != self.len {
            let mut within = Bitmap::new(self.len);
            within.union_with(leaked);
            self.advance(&mut within);
            return leaked.intersect_with(&within);
        }
        if leaked.is_empty() {
            self.planes.clear();
            return;
        }
        self.make_planes();
        let passes = self.passes.get();
        let mut kept = false;
        leaked.map_words(|index, leaked| {
            // Add one to the counters of leaked offsets, with carry from plane to plane; reset the others.
            let mut carry = leaked;
            let mut due = leaked;
            for (bit, plane) in self.planes.iter_mut().enumerate() {
                let word = &mut plane[index];
                let sum = (*word ^ carry) & leaked;
                carry &= *word;
                *word = sum;
                due &= if passes >> bit & 1 == 1 { sum } else { !sum };
            }
            for plane in &mut self.planes {
                plane[index] &= !due;
                kept |= plane[index] != 0;
            }
            due
        });
        if !kept {
            self.planes.clear();
        }
    }

    /// Sets the counters of these offsets to 0, since they were not leaked without a break.
    pub fn restart(&mut self, offsets: &Bitmap) {
        let mut kept = false;
        for offset in offsets.iter().take_while(|offset| *offset < self.len) {
            for plane in &mut self.planes {
                plane[offset as usize / 64] &= !(1 << (offset % 64));
            }
        }
        for plane in &self.planes {
            kept |= plane.iter().any(|word| *word != 0);
        }
        if !kept {
            self.planes.clear();
        }
    }

    /// Resets the counter of an offset that was due and not cleaned to its state before the last pass, so that the next
    /// pass finds it due again.
    pub fn hold(&mut self, offset: u32) {
        let count = self.passes.get() - 1;
        if offset >= self.len || count == 0 {
            return;
        }
        self.make_planes();
        for (bit, plane) in self.planes.iter_mut().enumerate() {
            let word = &mut plane[offset as usize / 64];
            *word = *word & !(1 << (offset % 64)) | u64::from(count >> bit & 1) << (offset % 64);
        }
    }

    /// Whether the next pass may find a leak due: one that the last pass counted for the last time but one. With a
    /// single pass every leak is due at once. Cost: O(len / 64) word operations per plane.
    pub fn may_be_due(&self) -> bool {
        let count = self.passes.get() - 1;
        let is_last = |index: usize| {
            let planes = self.planes.iter().enumerate();
            planes.fold(u64::MAX, |due, (bit, plane)| {
                due & if count >> bit & 1 == 1 { plane[index] } else { !plane[index] }
            })
        };
        count == 0 || (!self.is_empty() && (0..self.len.div_ceil(64) as usize).any(|index| is_last(index) != 0))
    }

    fn make_planes(&mut self) {
        if self.planes.is_empty() {
            let planes = (u8::BITS - self.passes.get().leading_zeros()) as usize;
            self.planes = vec![vec![0; self.len.div_ceil(64) as usize]; planes];
        }
    }

    /// Sets every counter to 0, as after a restore from a backup.
    pub fn reset(&mut self) {
        self.planes.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Random passes against one counter per offset in a map.
    #[test]
    fn advances_as_single_counters_do() {
        let mut state = 42_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let (mut cleaned, mut held) = (0, 0);
        for passes in [1, 2, 3, 4, 7, 8, 255].map(|passes| NonZeroU8::new(passes).expect("not zero")) {
            for len in [1, 64, 65, 300] {
                let mut counters = LeakCounters::new(len, passes);
                let mut model: HashMap<u32, u8> = HashMap::new();
                for _ in 0..600 {
                    let mut leaked = Bitmap::new(len);
                    for offset in 0..len {
                        // Most offsets stay as they are, so that high counts are reached.
                        if (random() % 50 != 0) == (offset % 3 == 0) {
                            leaked.insert(offset);
                        }
                    }
                    if random() % 20 == 0 {
                        let mut broken = Bitmap::new(len);
                        (0..len).filter(|_| random() % 3 == 0).for_each(|offset| _ = broken.insert(offset));
                        counters.restart(&broken);
                        model.retain(|offset, _| !broken.contains(*offset));
                        assert_eq!(counters.is_empty(), model.is_empty());
                    }
                    let seen = leaked.clone();
                    model.retain(|offset, _| seen.contains(*offset));
                    let mut due = Vec::new();
                    for offset in &seen {
                        let count = model.entry(offset).or_insert(0);
                        *count += 1;
                        if *count == passes.get() {
                            due.push(offset);
                            model.remove(&offset);
                        }
                    }
                    counters.advance(&mut leaked);
                    assert_eq!(leaked.iter().collect::<Vec<_>>(), due);
                    for offset in 0..len + 2 {
                        assert_eq!(counters.count(offset), model.get(&offset).copied().unwrap_or(0));
                    }
                    let may_be_due = passes.get() == 1 || model.values().any(|count| *count == passes.get() - 1);
                    assert_eq!(counters.may_be_due(), may_be_due);
                    cleaned += due.len();
                    for offset in due.into_iter().filter(|_| random() % 4 == 0) {
                        counters.hold(offset);
                        if passes.get() > 1 {
                            model.insert(offset, passes.get() - 1);
                        }
                        held += 1;
                        assert_eq!(counters.count(offset), passes.get() - 1);
                    }
                }
            }
        }
        assert!(cleaned > 1000 && held > 250, "only {cleaned} leaks were due, {held} held: the test bites too little");
    }
}
