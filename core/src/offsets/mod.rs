//! A set of offsets below a size of up to 2^64: a bitmap, or for a wide range a hash set.

mod region;
mod sparse;

use std::ops::RangeInclusive;

pub(crate) use self::region::{Region, fraction};
use self::sparse::Sparse;
use crate::bitmap::Bitmap;
#[cfg(feature = "ledger")]
use crate::bitmap::Wanted;

/// A set of offsets.
#[derive(Clone, Debug)]
pub(crate) enum Offsets {
    Dense(Bitmap),
    Sparse(Sparse),
}

impl Offsets {
    /// An empty set of offsets below `size`: a bitmap if there are at most `widest_bitmap`, which is below 2^32. The
    /// system gives memory to those of its parts that are in use.
    ///
    /// A user who knows the seed can force slow look-ups in a wide range: keep it secret.
    pub(crate) fn new(size: u64, widest_bitmap: u32, seed: u64) -> Self {
        match u32::try_from(size) {
            Ok(len) if len <= widest_bitmap => Self::Dense(Bitmap::new(len)),
            _ => Self::Sparse(Sparse::new(seed)),
        }
    }

    /// Whether the set has no bitmap.
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self, Self::Sparse(_))
    }

    /// How many offsets there are. Cost: O(1).
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Dense(bitmap) => bitmap.count().into(),
            Self::Sparse(sparse) => sparse.len(),
        }
    }

    pub(crate) fn contains(&self, offset: u64) -> bool {
        match self {
            Self::Dense(bitmap) => bitmap.contains(offset as u32),
            Self::Sparse(sparse) => sparse.contains(offset),
        }
    }

    /// Adds an offset below the size; false if it is there already.
    pub(crate) fn insert(&mut self, offset: u64) -> bool {
        match self {
            Self::Dense(bitmap) => bitmap.insert(offset as u32),
            Self::Sparse(sparse) => sparse.insert(offset),
        }
    }

    /// Takes an offset below the size out; false if it is not there.
    pub(crate) fn remove(&mut self, offset: u64) -> bool {
        match self {
            Self::Dense(bitmap) => bitmap.remove(offset as u32),
            Self::Sparse(sparse) => sparse.remove(offset),
        }
    }

    /// The first offset of `within` that is not in the set. `within` ends below the size.
    pub(crate) fn next_clear(&self, within: RangeInclusive<u64>) -> Option<u64> {
        let next = match self {
            Self::Dense(bitmap) => bitmap.next_clear(*within.start() as u32).map(u64::from),
            Self::Sparse(sparse) => sparse.next_clear(*within.start()),
        };
        next.filter(|offset| offset <= within.end())
    }

    /// The first offset of the lowest run of offsets of `within` that is as `wanted` and of which none is in the set.
    /// `within` ends below the size.
    ///
    /// Cost: in a bitmap that of its search; in a hash set up to `wanted.len` look-ups for each of the offsets that
    /// stand in the way.
    #[cfg(feature = "ledger")]
    pub(crate) fn next_clear_run(&self, within: RangeInclusive<u64>, wanted: Wanted) -> Option<u64> {
        if wanted.len == 1 {
            return self.next_clear(within);
        }
        let (from, last) = within.into_inner();
        match self {
            Self::Dense(bitmap) => bitmap.next_clear_run(from as u32..last as u32 + 1, wanted).map(u64::from),
            Self::Sparse(sparse) => sparse.next_clear_run(from, last, wanted),
        }
    }

    /// All offsets, ascending.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Self::Dense(bitmap) => Box::new(bitmap.iter().map(u64::from)),
            Self::Sparse(sparse) => Box::new(sparse.sorted()),
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "ledger")]
    use std::collections::BTreeSet;

    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Where a run begins, by looking at each offset.
    #[cfg(feature = "ledger")]
    fn run_by_hand(offsets: &BTreeSet<u64>, within: RangeInclusive<u64>, wanted: Wanted) -> Option<u64> {
        let (from, last) = within.into_inner();
        let begins = |first: &u64| (first + wanted.phase).is_multiple_of(wanted.align);
        let is_clear = |first: &u64| offsets.range(*first..first + wanted.len).next().is_none();
        (from..=last).filter(begins).take_while(|first| first + wanted.len - 1 <= last).find(is_clear)
    }

    /// Looks for runs in sets of all fills, in both kinds of set.
    #[cfg(feature = "ledger")]
    #[test]
    fn runs_are_found_in_both_kinds() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let (mut searches, mut found, mut aligned) = (0, 0, 0);
        for size in [1, 63, 64, 65, 500, 4_097, 70_000] {
            for _ in 0..if size > 5_000 { 6 } else { 40 } {
                let mut below = |limit: u64| rng.next_u64() % limit;
                let mut sets = [Offsets::new(size, u32::MAX, 1), Offsets::Sparse(Sparse::new(1))];
                // Stretches of taken offsets and of free ones, both up to a length of their own.
                let (longest_taken, longest_free) = (1 << below(13), 1 << below(8));
                let mut offsets = BTreeSet::new();
                let mut offset = below(2 * longest_free);
                while offset < size {
                    let end = offset + 1 + below(longest_taken);
                    offsets.extend(offset..end.min(size));
                    offset = end + 1 + below(longest_free);
                }
                for offset in &offsets {
                    assert!(sets.iter_mut().all(|set| set.insert(*offset)));
                }
                for _ in 0..60 {
                    let from = below(size);
                    let within = from..=from + below(size - from);
                    let bits = below(8);
                    let wanted = if below(2) == 0 {
                        Wanted::anywhere(1 + below(1 << bits))
                    } else {
                        Wanted { len: 1 << bits, align: 1 << bits, phase: below(1 << bits) }
                    };
                    let expected = run_by_hand(&offsets, within.clone(), wanted);
                    for set in &sets {
                        assert_eq!(set.next_clear_run(within.clone(), wanted), expected, "{wanted:?} in {within:?}");
                    }
                    searches += 1;
                    found += usize::from(expected.is_some());
                    aligned += usize::from(expected.is_some() && wanted.align > 1);
                }
            }
        }
        println!("{searches} searches, {found} runs found, {aligned} of them aligned");
        assert!(searches > 14_000 && found > 4_000 && aligned > 1_000, "played too little");
    }

    /// The last offset of all has no next one.
    #[cfg(feature = "ledger")]
    #[test]
    fn a_hash_set_ends_at_the_last_offset() {
        let mut set = Offsets::new(u64::MAX, 1, 1);
        for offset in (u64::MAX - 8192)..=u64::MAX {
            assert!(set.insert(offset));
        }
        assert_eq!(set.next_clear(u64::MAX - 5..=u64::MAX), None);
        assert_eq!(set.next_clear(u64::MAX - 8192..=u64::MAX), None);
        assert_eq!(set.next_clear_run(u64::MAX - 9000..=u64::MAX, Wanted::anywhere(808)), Some(u64::MAX - 9000));
        assert_eq!(set.next_clear_run(u64::MAX - 9000..=u64::MAX, Wanted::anywhere(809)), None);
        assert!(set.remove(u64::MAX));
        assert_eq!(set.next_clear(u64::MAX - 8192..=u64::MAX), Some(u64::MAX));
        let block = Wanted { len: 1024, align: 1024, phase: 1 };
        assert_eq!(set.next_clear_run(u64::MAX - 10_000..=u64::MAX, block), Some(u64::MAX - 9216));
    }

    /// Plays changes of both kinds of set beside a flag for each offset: dense ones, so that blocks of 64, of
    /// 4,096 and of 262,144 offsets fill up and get gaps again.
    #[test]
    fn both_kinds_are_sets() {
        const SIZE: u64 = 2 * 64 * 64 * 64 + 77;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut below = |limit: u64| rng.next_u64() % limit;
        let mut sets = [Offsets::new(SIZE, u32::MAX, 1), Offsets::Sparse(Sparse::new(1))];
        let mut flags = vec![false; SIZE as usize];
        let mut count = 0;
        let (mut changes, mut searches, mut far) = (0, 0, 0);
        for round in 0..200 {
            // A stretch is filled or emptied, in any direction, but for one offset in 4,096.
            let (first, bits) = (below(SIZE), 6 + below(13));
            let len = below(1 << bits);
            let fill = below(4) > 0;
            let mut stretch: Vec<u64> = (first..(first + len).min(SIZE)).filter(|_| below(4096) > 0).collect();
            if round % 2 == 0 {
                stretch.reverse();
            }
            for offset in stretch {
                let changed = std::mem::replace(&mut flags[offset as usize], fill) != fill;
                count = if !changed {
                    count
                } else if fill {
                    count + 1
                } else {
                    count - 1
                };
                for set in &mut sets {
                    assert_eq!(if fill { set.insert(offset) } else { set.remove(offset) }, changed);
                }
                changes += 1;
            }
            for _ in 0..100 {
                let from = below(SIZE);
                let clear = flags[from as usize..].iter().position(|is_set| !is_set);
                let expected = clear.map(|distance| from + distance as u64);
                searches += 1;
                far += u64::from(expected.is_none_or(|offset| offset - from > 4096));
                for set in &sets {
                    assert_eq!(set.next_clear(from..=SIZE - 1), expected, "from {from}");
                    assert_eq!(set.contains(from), flags[from as usize]);
                    assert_eq!(set.len(), count);
                }
            }
        }
        for set in &sets {
            assert!(set.iter().eq((0..SIZE).filter(|offset| flags[*offset as usize])), "not ascending, or others");
        }
        println!("{changes} changes, {searches} searches, {far} further than 4,096");
        assert!(changes > 1_000_000 && far > 1_000, "played too little");
    }
}
